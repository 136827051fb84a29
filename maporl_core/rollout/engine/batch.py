"""A batch of rows that are decoded together, and how they are fed to the model.

In: rows (prompt, adapter, length limit, what is left of an earlier turn).  Out: the hidden state
[B, H] from which each row's next token is drawn. Neighbours: ``in_process`` draws the tokens and
says which rows leave; ``cache`` holds keys and values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from maporl_core.rollout.engine.cache import CacheShape, Kept, RowCache
from maporl_core.rollout.engine.model import BaseModel, Decoder

_PREFILL_TOKENS_CPU = 2048
_PREFILL_TOKENS_GPU = 16_384
"""Padded tokens of one prefill forward: bounds its memory, and on a CPU keeps to its caches."""


@dataclass(slots=True)
class Row:
    """One request on its way.  ``adapter`` is the row index of its policy."""

    index: int
    prompt: tuple[int, ...]
    policy: str | None
    adapter: int
    limit: int  # new tokens it may get
    seed: int
    conversation: Hashable | None = None
    kept: Kept | None = None
    reused: int = 0  # leading prompt ids whose keys and values ``kept`` holds
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def most(self) -> int:
        """Tokens of prompt and completion that it may come to."""
        return len(self.prompt) + self.limit

    @property
    def length(self) -> int:
        """Tokens that were fed to the model: the last one drawn is not."""
        return len(self.prompt) + max(len(self.ids) - 1, 0)


class Batch(Protocol):
    rows: list[Row]

    def prefill(self) -> Tensor:
        """Feed the prompts; may reorder ``rows``.  Hidden states [B, H] of their last ids."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Feed one token [B] per row; hidden states [B, H]."""
        ...

    def leave(self, order: Sequence[int]) -> None:
        """Row j of the smaller batch is row ``order[j]`` of this one."""
        ...


def fill_holes(alive: Sequence[bool]) -> list[int]:
    """An order that keeps the living rows by moving as few of them as possible."""
    count = sum(alive)
    spare = (position for position in range(count, len(alive)) if alive[position])
    return [position if alive[position] else next(spare) for position in range(count)]


class OwnBatch:
    """Rows in one ``RowCache``: earlier turns are put back, equal prompts are read once."""

    def __init__(
        self, base: BaseModel, decoder: Decoder, shape: CacheShape, rows: Sequence[Row]
    ) -> None:
        self.base = base
        self.decoder = decoder
        self.rows, self._twin_of = _share_equal_prompts(rows)
        self._end = max(len(row.prompt) for row in self.rows)
        self._starts = [self._end - len(row.prompt) for row in self.rows]
        columns = self._end + max(row.limit for row in self.rows)
        device = base.device
        self.cache = RowCache(shape, len(self.rows), columns, device)
        self._adapters = torch.tensor([row.adapter for row in self.rows], device=device)
        starts = torch.tensor(self._starts, device=device)
        # [B, columns]: whether a row has a token there; also read for columns yet to come.
        self._columns = torch.arange(columns, device=device)
        self._visible = self._columns >= starts[:, None]
        self._positions = torch.tensor([[len(row.prompt)] for row in self.rows], device=device)

    def prefill(self) -> Tensor:
        readers = len(self.rows) - len(self._twin_of)
        for position, row in enumerate(self.rows):
            if row.kept is not None and position < readers:
                self.cache.place(position, row.kept, self._starts[position], row.reused)
            row.kept = None  # no longer needed: the conversation goes on in the buffer
        hidden = torch.cat([self._read(lo, hi) for lo, hi in self._chunks(readers)])
        self._whole_batch()
        if self._twin_of:
            twins = range(readers, len(self.rows))
            self.cache.copy_rows(self._twin_of, list(twins))
            hidden = torch.cat([hidden, hidden[self._twin_of]])
        return hidden

    def step(self, tokens: Tensor) -> Tensor:
        window = self.cache.window
        window.start, window.end = self._end, self._end + 1
        mask = self._visible[:, None, None, window.first : window.end]
        with self.base.route(self._adapters):
            hidden = self.decoder(tokens[:, None], self._positions, self._attend(mask), self.cache)
        self._positions += 1
        self._end += 1
        return hidden[:, 0]

    def leave(self, order: Sequence[int]) -> None:
        moved = [position for position, source in enumerate(order) if source != position]
        if moved:
            self.cache.copy_rows([order[position] for position in moved], moved)
        self.rows = [self.rows[source] for source in order]
        self._starts = [self._starts[source] for source in order]
        index = torch.tensor(order, device=self._adapters.device)
        self._adapters = self._adapters[index]
        self._visible = self._visible[index]
        self._positions = self._positions[index]
        self._whole_batch()

    def take(self, position: int) -> tuple[Tensor, Tensor]:
        """Copies of a row's keys and values, [layers, heads, length, dim]."""
        start = self._starts[position]
        return self.cache.take(position, start, start + self.rows[position].length)

    def _whole_batch(self) -> None:
        window = self.cache.window
        window.lo, window.hi = 0, len(self.rows)
        window.first, window.fresh = min(self._starts), None
        window.end = self._end

    def _chunks(self, readers: int) -> list[tuple[int, int]]:
        """Spans of rows, in order of new length, whose padded size stays below the bound."""
        on_cpu = self.base.device.type == "cpu"
        bound = _PREFILL_TOKENS_CPU if on_cpu else _PREFILL_TOKENS_GPU
        spans: list[tuple[int, int]] = []
        lo = 0
        for hi in range(1, readers + 1):
            longest = len(self.rows[hi].prompt) - self.rows[hi].reused if hi < readers else 0
            if hi == readers or (hi + 1 - lo) * longest > bound:
                spans.append((lo, hi))
                lo = hi
        return spans

    def _read(self, lo: int, hi: int) -> Tensor:
        """Feed the new parts of rows lo:hi, right-aligned; hidden states [hi − lo, H]."""
        device = self._adapters.device
        rows = self.rows[lo:hi]
        fresh_counts = [len(row.prompt) - row.reused for row in rows]
        width = max(fresh_counts)
        ids = torch.tensor(
            [
                [0] * (width - fresh) + list(row.prompt[row.reused :])
                for row, fresh in zip(rows, fresh_counts, strict=True)
            ],
            device=device,
        )
        window = self.cache.window
        window.lo, window.hi = lo, hi
        window.first = min(self._starts[lo:hi])
        window.start, window.end = self._end - width, self._end
        pads = width - torch.tensor(fresh_counts, device=device)
        is_new = torch.arange(width, device=device) >= pads[:, None]  # [b, width]
        reuse = any(row.reused for row in rows)
        window.fresh = is_new[:, None, :, None] if reuse else None
        keys = self._columns[window.first : window.end]
        queries = self._columns[window.start : window.end]
        mask = self._visible[lo:hi, None, window.first : window.end]
        mask = mask & (keys <= queries[:, None])
        # Padding sees itself: a query that sees nothing would give NaN.
        mask = mask | (keys == queries[:, None])
        lengths = torch.tensor([len(row.prompt) for row in rows], device=device)
        positions = lengths[:, None] - (self._end - queries)
        with self.base.route(self._adapters[lo:hi]):
            hidden = self.decoder(
                ids, positions.clamp_min_(0), self._attend(mask[:, None]), self.cache
            )
        return hidden[:, -1]

    def _attend(self, mask: Tensor) -> Tensor:
        if self.decoder.attention != "eager":
            return mask
        dtype = self.cache.keys.dtype
        added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return added.masked_fill_(~mask, torch.finfo(dtype).min)


def _share_equal_prompts(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """Rows that must be read, by new length, then their twins; and whose twin each of those is."""
    readers: dict[tuple[int, tuple[int, ...]], Row] = {}
    for row in rows:
        key = (row.adapter, row.prompt)
        known = readers.get(key)
        if known is None or known.reused < row.reused:
            readers[key] = row
    first = sorted(readers.values(), key=lambda row: len(row.prompt) - row.reused)
    place = {id(row): position for position, row in enumerate(first)}
    twins = [row for row in rows if id(row) not in place]
    twin_of = [place[id(readers[row.adapter, row.prompt])] for row in twins]
    return first + twins, twin_of


class LibraryBatch:
    """Rows in transformers' own cache for this model, left-padded; nothing is kept across turns.

    For models whose layers remember something else than all keys and values: sliding windows
    shorter than the text, recurrent states, positions built from the padding mask.
    """

    def __init__(self, base: BaseModel, decoder: Decoder, rows: Sequence[Row]) -> None:
        self.base = base
        self.decoder = decoder
        self.rows = list(rows)
        self._cache = DynamicCache(config=base.model.config)
        device = base.device
        self._adapters = torch.tensor([row.adapter for row in self.rows], device=device)
        width = max(len(row.prompt) for row in self.rows)
        pads = torch.tensor([width - len(row.prompt) for row in self.rows], device=device)
        columns = torch.arange(width, device=device)
        self._mask = (columns >= pads[:, None]).long()  # [B, K]
        self._ids = torch.tensor(
            [[0] * (width - len(row.prompt)) + list(row.prompt) for row in self.rows],
            device=device,
        )
        self._positions = (columns - pads[:, None]).clamp_min(0)

    def prefill(self) -> Tensor:
        return self._feed(self._ids, self._positions)

    def step(self, tokens: Tensor) -> Tensor:
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.rows), 1)], dim=1)
        self._positions = self._positions[:, -1:] + 1
        return self._feed(tokens[:, None], self._positions)

    def leave(self, order: Sequence[int]) -> None:
        self.rows = [self.rows[source] for source in order]
        index = torch.tensor(order, device=self._adapters.device)
        self._adapters = self._adapters[index]
        self._mask = self._mask[index]
        self._positions = self._positions[index]
        self._cache.reorder_cache(index)

    def _feed(self, ids: Tensor, positions: Tensor) -> Tensor:
        with self.base.route(self._adapters):
            return self.decoder(ids, positions, self._mask, self._cache)[:, -1]
