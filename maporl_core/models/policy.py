"""Policies: one frozen base per model, one adapter per policy, and a value head where asked for.

In: the config's bases and policies, and loaded models (``loading``).  Out: differentiable hidden
states, logits and values for rows of any mix of policies, and each policy's own parameters.
Neighbours: ``lora`` stacks the adapters, ``engine`` samples with the same weights, ``updater``
trains them, ``adapter_files`` reads and writes PEFT's format.

The reference policy is the base with adapters off (row index −1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maporl_core.config.schema import BaseModelConfig, PolicyConfig, RunConfig
from maporl_core.errors import ModelError
from maporl_core.kit.seeds import stable_seed
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.models.lora import BASE_ROW, AdapterShape, AdapterStack, target_names


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal LM with its tokenizer, frozen and in eval mode, as ``models.load`` returns it."""

    model: Any
    tokenizer: Any
    context: int  # tokens


class Policy:
    """One adapter on a base, with a value head where the base gives it one."""

    def __init__(self, name: str, index: int, base: Base, config: PolicyConfig) -> None:
        self.name = name
        self.index = index
        self.base = base
        self.config = config
        self.version = 0  # grows with every weight change; engines key their caches by it
        self.adapter = base.stack.views(index)
        self.value = base.value_views(index)

    def parameters(self) -> list[nn.Parameter]:
        """Adapter weights, then the value head's weight [H] and bias [], if it has one."""
        return [*self.adapter.values(), *self.value.values()]

    def changed(self) -> None:
        self.version += 1


class Base:
    """A frozen base model with the adapters and value heads of all policies on it."""

    def __init__(
        self,
        name: str,
        config: BaseModelConfig,
        loaded: LoadedModel,
        policies: Mapping[str, PolicyConfig],
        seed: int,
        heads: Collection[str] | None = None,
    ) -> None:
        """``heads``: the policies with a value head; without it, all."""
        self.name = name
        self.config = config
        self.model = loaded.model
        self.tokenizer = loaded.tokenizer
        self.context = loaded.context
        templated = config.chat_template == "auto"
        self.codec = ChatCodec(loaded.tokenizer, templated, _end_ids_of(loaded.model))
        self.model.requires_grad_(False)
        self.model.eval()
        if config.gradient_checkpointing:
            enable = getattr(self.model, "activation_checkpointing_enable", None)
            (enable or self.model.gradient_checkpointing_enable)({"use_reentrant": False})
        self._checkpointed = [
            module
            for module in self.model.modules()
            if config.gradient_checkpointing and hasattr(module, "gradient_checkpointing")
        ]
        self.device = next(self.model.parameters()).device
        self.decoder = _decoder_of(self.model)
        self._check_head()
        shapes = [AdapterShape(p.rank, p.alpha, p.dropout) for p in policies.values()]
        self.stack = AdapterStack(self.model, shapes, self._targets(policies))
        hidden = int(self.model.get_output_embeddings().weight.shape[-1])
        with_head = [i for i, n in enumerate(policies) if heads is None or n in heads]
        self._head_of = {index: head for head, index in enumerate(with_head)}
        count = len(with_head)
        self.value_weight = nn.Parameter(torch.zeros(count, hidden, device=self.device))
        self.value_bias = nn.Parameter(torch.zeros(count, device=self.device))
        self.value_weight.grad = torch.zeros_like(self.value_weight)
        self.value_bias.grad = torch.zeros_like(self.value_bias)
        self.policies: dict[str, Policy] = {}
        for index, (policy_name, policy_config) in enumerate(policies.items()):
            self.stack.initialise(index, stable_seed(seed, "adapter", policy_name))
            self.policies[policy_name] = Policy(policy_name, index, self, policy_config)

    def _targets(self, policies: Mapping[str, PolicyConfig]) -> list[str]:
        wanted = {policy.target_modules for policy in policies.values()}
        if len(wanted) > 1:
            raise ModelError(
                f"policies on base {self.name!r} name different target_modules; give them the "
                "same, or put one of them on a second base"
            )
        return target_names(self.model, wanted.pop()) if wanted else []

    def value_views(self, index: int) -> dict[str, nn.Parameter]:
        """The value head of one policy: weight [H] and bias [1], sharing the stack's memory; none
        where the policy has no head.
        """
        if index not in self._head_of:
            return {}
        index = self._head_of[index]
        assert self.value_weight.grad is not None
        assert self.value_bias.grad is not None
        weight = nn.Parameter(self.value_weight.data[index])
        weight.grad = self.value_weight.grad[index]
        bias = nn.Parameter(self.value_bias.data[index : index + 1])
        bias.grad = self.value_bias.grad[index : index + 1]
        return {"weight": weight, "bias": bias}

    def row(self, policy: str | None) -> int:
        """Row index of a policy; −1 for None, the base."""
        return BASE_ROW if policy is None else self.policies[policy].index

    @contextmanager
    def route(self, rows: Tensor | None, training: bool = False) -> Iterator[None]:
        """Inside, row b of a forward is read by policy ``rows[b]`` (shape [B]).

        ``training`` turns on adapter dropout and gradient checkpointing; run the backward inside.
        """
        with self.stack.router.route(rows, training):
            try:
                self._set_checkpointing(training)
                yield
            finally:
                self._set_checkpointing(False)

    def _set_checkpointing(self, on: bool) -> None:
        # Layers checkpoint while "training"; set on them alone, so that no base dropout wakes up.
        for module in self._checkpointed:
            module.training = on

    def hidden(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Last hidden states [B, L, H] of ids [B, L], right-padded unless a mask is given.

        Right padding needs no mask: attention is causal and nobody reads a pad position.
        """
        kwargs: dict[str, Any] = {"input_ids": ids, "use_cache": False}
        if attention_mask is not None:
            kwargs["attention_mask"] = attention_mask
            kwargs["position_ids"] = (attention_mask.cumsum(-1) - 1).clamp_min(0)
        output: Tensor = self.decoder(**kwargs).last_hidden_state
        return output

    def logits(self, hidden: Tensor) -> Tensor:
        """fp32 logits [N, V] of hidden states [N, H], scaled or soft-capped as the model does."""
        config = self.model.config.get_text_config()
        logits: Tensor = self.model.get_output_embeddings()(hidden).float()
        if getattr(config, "logit_scale", None) is not None:
            logits = logits * config.logit_scale
        if getattr(config, "logits_scaling", None) is not None:
            logits = logits / config.logits_scaling
        if getattr(config, "final_logit_softcapping", None) is not None:
            cap = config.final_logit_softcapping
            logits = torch.tanh(logits / cap) * cap
        return logits

    @torch.no_grad()
    def _check_head(self) -> None:
        """Hidden states and ``logits`` must together be the model's own forward."""
        probe = torch.tensor([[1, 2, 3, 4]], device=self.device)
        theirs = self.model(input_ids=probe, use_cache=False).logits.float()
        ours = self.logits(self.hidden(probe)[0])[None]
        if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3):
            raise ModelError(
                f"{self.config.model}: {type(self.model).__name__} does more between its hidden "
                "states and its logits than is known here; choose another model"
            )

    def values(self, hidden: Tensor, rows: Tensor) -> Tensor:
        """Value estimates [N] of hidden states [N, H], each by policy ``rows[n]`` (≥ 0), which has
        a value head.
        """
        if len(self._head_of) < len(self.policies):
            heads = [self._head_of.get(index, -1) for index in range(len(self.policies))]
            rows = torch.tensor(heads, device=rows.device)[rows]
        weight = self.value_weight[rows]
        return (hidden.float() * weight).sum(-1) + self.value_bias[rows]

    def zero_grad(self) -> None:
        self.stack.zero_grad()
        assert self.value_weight.grad is not None
        assert self.value_bias.grad is not None
        self.value_weight.grad.zero_()
        self.value_bias.grad.zero_()

    def frozen_hash(self) -> str:
        """SHA-256 over all frozen weights: proof that training left the base alone."""
        digest = hashlib.sha256()
        ours = {id(self.value_weight), id(self.value_bias)}
        for layer in self.stack.layers.values():
            ours |= {id(layer.lora_a), id(layer.lora_b)}
        for name, weight in sorted(self.model.named_parameters()):
            if id(weight) not in ours:
                digest.update(name.encode())
                digest.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy())
        return digest.hexdigest()


def _end_ids_of(model: Any) -> frozenset[int]:
    """Ids that the model's own generation settings end with: none, one or a list of them."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = named if isinstance(named, list | tuple) else [named]
    rows = model.get_input_embeddings().weight.shape[0]
    return frozenset(i for i in ids if type(i) is int and 0 <= i < rows)


def _decoder_of(model: Any) -> Any:
    """The model without its output head."""
    decoder = model.get_decoder()
    if decoder is model:  # transformers found none by the model's prefix
        decoder = getattr(model, "model", None)
    if decoder is None:
        raise ModelError(f"{type(model).__name__} does not show its decoder; choose another model")
    return decoder


@dataclass(frozen=True, slots=True)
class Guest:
    """A policy that no agent speaks with, on an agents' base or one of its own.

    ``saved``: its weights change during the run, so checkpoints hold them.
    """

    name: str
    config: PolicyConfig
    base: str
    base_config: BaseModelConfig
    saved: bool = False


class Policies:
    """All bases and policies of a run: those of the agents, by name, and at most one guest."""

    def __init__(
        self,
        config: RunConfig,
        loaded: Mapping[str, LoadedModel],
        guest: Guest | None = None,
        *,
        values: bool = True,
    ) -> None:
        """``values``: agents' policies have value heads; a guest always has one."""
        resolved = config.resolved_policies()
        self.guest = guest
        bases = {policy.base: config.bases[policy.base] for policy in resolved.values()}
        if guest is not None:
            bases.setdefault(guest.base, guest.base_config)
        self.bases: dict[str, Base] = {}
        for base_name, base_config in bases.items():
            on_base = {name: p for name, p in resolved.items() if p.base == base_name}
            if guest is not None and guest.base == base_name:
                on_base[guest.name] = guest.config
            heads = [n for n in on_base if values or (guest is not None and n == guest.name)]
            self.bases[base_name] = Base(
                base_name, base_config, loaded[base_name], on_base, config.seed, heads
            )
        self.by_name: dict[str, Policy] = {
            name: self.bases[policy.base].policies[name] for name, policy in resolved.items()
        }

    def __getitem__(self, name: str) -> Policy:
        return self.by_name[name]

    def names(self) -> Sequence[str]:
        """Policies that agents speak with."""
        return tuple(self.by_name)

    def saved(self) -> Mapping[str, Policy]:
        """Policies whose weights belong in a checkpoint."""
        if self.guest is None or not self.guest.saved:
            return self.by_name
        guest = self.bases[self.guest.base].policies[self.guest.name]
        return self.by_name | {guest.name: guest}
