"""How many tokens one forward takes on each base: picked once, halved when memory runs out.

In: the run's ``update.micro_tokens`` and the policies as they are loaded.  Out: a size per base,
kept in checkpoints, so that a resumed run forms the same micro-batches.  Neighbours: ``updater``
owns the sizes; ``measure`` and ``base_update`` go over their rows ``with_less``.

A size changes memory and the order of summation, never what is learned: what was begun when memory
ran out is done again from its start.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import TypeVar

import psutil
import torch
from torch import Tensor

from maporl_core.config.schema import RunConfig
from maporl_core.errors import ModelError
from maporl_core.kit.out_of_memory import out_of_memory
from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.footprint import (
    CONTEXT_CUDA,
    FEWEST,
    FILLED,
    MOMENT_BYTES,
    MOST_CPU,
    PROCESS_CPU,
    micro_tokens,
)
from maporl_core.models.policy import Base, Policies
from maporl_core.models.shapes import ShapeUnknown, shape_of

T = TypeVar("T")

UNKNOWN_CUDA = 8 * FEWEST
"""Tokens to begin with on a card, of a model whose memory cannot be forecast."""


class MicroSizes:
    """Tokens of one forward by base; ``asked`` is what the config says."""

    def __init__(self, policies: Policies, config: RunConfig) -> None:
        self.asked = config.update.micro_tokens
        self.of = {
            name: self._begin(policies, config, base) for name, base in policies.bases.items()
        }

    def _begin(self, policies: Policies, config: RunConfig, base: Base) -> int:
        if self.asked != "auto":
            return self.asked
        kind = base.device.type
        try:
            shape = shape_of(base.model.config.to_dict(), base.config.model)
        except ShapeUnknown:
            return UNKNOWN_CUDA if kind == "cuda" else MOST_CPU
        room = round(FILLED * device_memory(base.device)) - _held(policies, config, base.device)
        rank = base.stack.router.total_rank
        return micro_tokens(config, base.config, shape, rank, kind, room)

    def note(self, base: str, size: int) -> str | None:
        """Keep what ``base`` came down to; a line about it, if it did."""
        before, self.of[base] = self.of[base], size
        if size == before:
            return None
        return (
            f"memory ran out with micro-batches of {before} tokens on base {base!r}; from here on "
            f"they have at most {size}, which changes nothing that is learned"
        )

    def state(self) -> dict[str, int | str | dict[str, int]]:
        return {"asked": self.asked, "sizes": dict(self.of)}

    def load_state(self, state: Mapping[str, object]) -> None:
        """Sizes that held before; another size that is asked for now takes their place."""
        sizes = state["sizes"]
        if state["asked"] == self.asked and isinstance(sizes, dict):
            self.of |= {name: int(size) for name, size in sizes.items() if name in self.of}


def device_memory(device: torch.device) -> int:
    """All memory of a device, in bytes: the same whatever else is on it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)


def _held(policies: Policies, config: RunConfig, device: torch.device) -> int:
    """Bytes that are there all the time: models, adapters, their gradients and moments."""
    moments = MOMENT_BYTES[config.update.optimiser]
    held = CONTEXT_CUDA if device.type == "cuda" else PROCESS_CPU
    for base in policies.bases.values():
        if base.device == device:
            held += sum(weight.nbytes for weight in base.model.parameters())
            trained = [w for policy in base.policies.values() for w in policy.parameters()]
            held += (4 + moments) * sum(weight.numel() for weight in trained)
    return held


def with_less(rows: BaseRows, work: Callable[[], T]) -> T:
    """``work`` over micro-batches of ``rows``; again from its start, with half the tokens, whenever
    memory runs out.

    Random numbers are drawn anew too, so that what comes out is what the smaller size would have
    given at once.  Raises ModelError when a single conversation does not fit.
    """
    before = _random_states(rows.base.device)
    while True:
        try:
            return work()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            _halve(rows)
        # Only here are the error and what its frames held gone.
        gc.collect()
        if rows.base.device.type == "cuda":
            torch.cuda.empty_cache()
        _set_random_states(rows.base.device, before)


def _halve(rows: BaseRows) -> None:
    count, width = rows.under_way
    if count <= 1:
        name = rows.base.name
        raise ModelError(
            f"out of memory with a single conversation of {width} tokens on base {name!r}; set "
            f"bases.{name}.gradient_checkpointing = true, or make it shorter: "
            "discussion.max_new_tokens, discussion.turns or discussion.max_context"
        ) from None
    rows.micro_tokens = min(rows.micro_tokens, count * width) // 2


def _random_states(device: torch.device) -> tuple[Tensor, Tensor | None]:
    on_card = device.type == "cuda" and torch.cuda.is_available()
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if on_card else None


def _set_random_states(device: torch.device, states: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1], device)
