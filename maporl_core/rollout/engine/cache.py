"""Keys and values of a running batch, in one preallocated buffer, as transformers' layers call it.

In: key and value states from the attention layers.  Out: the same with everything before them.
Neighbours: ``batch`` moves the columns on; ``in_process`` keeps what conversations need again.

All rows end at one common column, so that a decoding step writes one column and reads one block:

    row of 5 + 2 tokens   . . . p p p p p n n
    row of 8 + 2 tokens   p p p p p p p p n n
                          ^ first         ^ start, end = start + 2

A row's columns have no holes; what lies left of its first token is masked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What one token's keys and values take; the same in every layer."""

    layers: int
    heads: int  # key/value heads
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    window: int | None  # shortest sliding window: longer rows would see too much

    @property
    def token_bytes(self) -> int:
        return self.layers * self.heads * (self.key_dim + self.value_dim) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Kept:
    """Keys and values of one conversation, [layers, heads, N, dim] each, and the N ids they read.

    Valid for the policy that wrote them, at that version of its weights.
    """

    ids: tuple[int, ...]
    policy: str | None
    version: int
    keys: Tensor
    values: Tensor

    def shared(self, prompt: Sequence[int]) -> int:
        """How many leading ids of ``prompt`` these are, its last one left to be read."""
        limit = min(len(self.ids), len(prompt) - 1)
        if tuple(prompt[:limit]) == self.ids[:limit]:
            return limit
        return next(at for at in range(limit) if prompt[at] != self.ids[at])


@dataclass(slots=True)
class Window:
    """Where the next forward reads and writes.

    Rows lo:hi, new columns start:end, seen from column ``first`` on.  ``fresh``
    [hi − lo, 1, end − start, 1] is False where a new column holds an older token of a row whose
    new part is shorter than the longest: that one stays as it is.  None: all are new.
    """

    lo: int
    hi: int
    first: int = 0
    start: int = 0
    end: int = 0
    fresh: Tensor | None = None


class RowCache(Cache):  # type: ignore[misc]
    """The buffer, as large as the batch will ever need it."""

    def __init__(self, shape: CacheShape, rows: int, columns: int, device: torch.device) -> None:
        room = (shape.layers, rows, shape.heads, columns)
        # Zeros, because a masked column still meets a weight of 0, and 0 · NaN is NaN.
        self.keys = torch.zeros(*room, shape.key_dim, dtype=shape.dtype, device=device)
        self.values = torch.zeros(*room, shape.value_dim, dtype=shape.dtype, device=device)
        self.window = Window(0, rows)
        layers = [
            _RowLayer(self.window, keys, values)
            for keys, values in zip(self.keys, self.values, strict=True)
        ]
        super().__init__(layers=layers)

    def place(self, row: int, kept: Kept, start: int, count: int) -> None:
        """Write the first ``count`` tokens of ``kept`` into a row, from column ``start`` on."""
        self.keys[:, row, :, start : start + count] = kept.keys[:, :, :count]
        self.values[:, row, :, start : start + count] = kept.values[:, :, :count]

    def take(self, row: int, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Copies of a row's keys and values, [layers, heads, end − start, dim]."""
        return (
            self.keys[:, row, :, start:end].clone(),
            self.values[:, row, :, start:end].clone(),
        )

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Give rows ``targets`` what rows ``sources`` hold in columns first:end."""
        source = torch.tensor(sources, device=self.keys.device)
        target = torch.tensor(targets, device=self.keys.device)
        columns = slice(self.window.first, self.window.end)
        for buffer in (self.keys, self.values):
            block = buffer[:, :, :, columns]
            block.index_copy_(1, target, block.index_select(1, source))


class _RowLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's view of the buffer."""

    def __init__(self, window: Window, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.window = window  # shared by all layers, and not the cache: a cycle would keep it alive
        self.keys = keys
        self.values = values
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write new states [B, heads, L, dim]; return all of them from column ``first`` on."""
        window = self.window
        found = []
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            rows = buffer[window.lo : window.hi, :, window.first : window.end]
            block = rows[:, :, window.start - window.first :]
            if window.fresh is None:
                block.copy_(states)
            else:
                block.copy_(torch.where(window.fresh, states, block))
            found.append(rows)
        return found[0], found[1]

    def get_seq_length(self) -> int:
        return self.window.start - self.window.first

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0
