"""The rows of one update that stand on one base, and what they are cut into.

In: rows (``packing``) of policies on this base.  Out: micro-batches, minibatches, token counts.
Neighbours: ``measure`` and ``base_update`` read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from maporl_core.kit.seeds import stable_seed
from maporl_core.learning.packing import MicroBatch, Row, micro_batches, tabulate
from maporl_core.models.policy import Base
from maporl_core.types import Place


class BaseRows:
    """``table`` holds all trained tokens; ``present`` the policies that have any; ``under_way`` the
    rows and columns of the micro-batch that was handed out last.
    """

    def __init__(self, base: Base, rows: Sequence[Row], micro_tokens: int) -> None:
        self.base, self.rows, self.micro_tokens = base, rows, micro_tokens
        self.under_way = (0, 0)
        self.indices = [base.row(row.policy) for row in rows]
        self.table = tabulate(rows, self.indices)
        self.present = {name: base.policies[name] for name in dict.fromkeys(r.policy for r in rows)}

    def batches(self, chosen: Sequence[int]) -> Iterator[MicroBatch]:
        """The ``chosen`` rows in forwards of at most ``micro_tokens`` padded tokens."""
        for batch in micro_batches(
            self.rows, chosen, self.indices, self.table, self.micro_tokens, self.base.device
        ):
            rows, columns = batch.ids.shape
            self.under_way = (rows, columns)
            yield batch

    def minibatches(self, count: int, seed: int, step: int, epoch: int) -> list[list[int]]:
        """Rows of each optimiser step: every policy's rows are shuffled and dealt out evenly."""
        generator = torch.Generator().manual_seed(
            stable_seed(seed, "shuffle", self.base.name, step, epoch)
        )
        piles: list[list[int]] = [[] for _ in range(count)]
        for name in self.present:
            own = [r for r, row in enumerate(self.rows) if row.policy == name]
            order = torch.randperm(len(own), generator=generator).tolist()
            for place, r in enumerate(order):
                piles[place % len(piles)].append(own[r])
        return [pile for pile in piles if pile]

    def token_counts(self, chosen: Sequence[int], kept_N: Tensor | None = None) -> Tensor:
        """Trained (and kept) tokens of each policy in the ``chosen`` rows, [P]."""
        counts = torch.zeros(len(self.base.policies), dtype=torch.long)
        for r in chosen:
            first, last = self.table.offsets[r], self.table.offsets[r + 1]
            counts[self.indices[r]] += last - first if kept_N is None else kept_N[first:last].sum()
        return counts

    def places_of(self, tokens: Tensor) -> tuple[Place, ...]:
        """The messages that these tokens (indices into the table) belong to."""
        messages = dict.fromkeys(self.table.message_N[tokens].tolist())
        return tuple(self.table.spans[m].place for m in messages)

    def odd_places(self, *numbers_N: Tensor | None) -> tuple[Place, ...]:
        """The messages with a token at which one of these numbers is not finite."""
        given = [torch.isfinite(number) for number in numbers_N if number is not None]
        return self.places_of(torch.nonzero(~torch.stack(given).all(dim=0)).flatten())
