"""What the engine needs of a base model, and its decoder behind one call.

In: ids, positions, a mask and a cache.  Out: the last hidden states.
Neighbours: ``policy.Base`` is what fits ``BaseModel``; ``batch`` calls ``Decoder``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor


class Ends(Protocol):
    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a message."""


class Versioned(Protocol):
    @property
    def version(self) -> int:
        """Grows with every change of the policy's weights."""


class BaseModel(Protocol):
    """A frozen causal LM with the adapters of its policies."""

    @property
    def model(self) -> Any: ...

    @property
    def decoder(self) -> Any:
        """The model without its output head."""

    @property
    def codec(self) -> Ends: ...

    @property
    def context(self) -> int:
        """Tokens of prompt and completion together."""

    @property
    def device(self) -> torch.device: ...

    @property
    def policies(self) -> Mapping[str, Versioned]: ...

    def row(self, policy: str | None) -> int:
        """Row index of a policy; −1 for None, the base."""

    def route(self, rows: Tensor | None) -> AbstractContextManager[None]:
        """Inside, row b of a forward is read by policy ``rows[b]``."""

    def logits(self, hidden: Tensor) -> Tensor:
        """fp32 logits [N, V] of last hidden states [N, H]."""


_CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""Since transformers 5.24, before it and in models that bring their own code, in Mamba."""


class Decoder:
    """A base's decoder, whatever it calls its cache."""

    def __init__(self, base: BaseModel) -> None:
        self._decoder = base.decoder
        self.config = base.model.config.get_text_config(decoder=True)
        accepted = inspect.signature(self._decoder.forward).parameters
        self._cache_name = next((name for name in _CACHE_NAMES if name in accepted), "cache")

    @property
    def attention(self) -> str:
        """Name of the attention implementation, such as "sdpa" or "eager"."""
        return str(getattr(self.config, "_attn_implementation", "eager"))

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: Any) -> Tensor:
        """Last hidden states [B, L, H] of ids [B, L] at ``positions`` [B, L].

        ``mask`` is [B, 1, L, K] over the K keys the cache returns (bool, True = may look; or
        added to the scores), or [B, K] with 0 for padding.
        """
        arguments = {
            "input_ids": ids,
            "position_ids": positions,
            "attention_mask": mask,
            "use_cache": cache is not None,
            self._cache_name: cache,
        }
        hidden: Tensor = self._decoder(**arguments).last_hidden_state
        return hidden
