"""Reads what the Compare screen shows, from one run's store or from two.

In: runs, sides, items.  Out: evaluations, a ``Comparison``, two whole discussions.  Neighbours:
``client`` reads a store in its thread; the Compare screen owns one loader and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from maporl_core.store.reader import (
    DiscussionFilter,
    DiscussionRow,
    RunDir,
    StoredDiscussion,
    StoreReader,
)
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.compare_items import Comparison, Item, Side, Stored, compare

BATCH = 500
"""Questions read at once."""


class Loader:
    """One client per run, opened when it is needed.  Every method raises StoreError."""

    def __init__(self) -> None:
        self._clients: dict[str, StoreClient] = {}

    @property
    def open(self) -> int:
        """Stores that are open now."""
        return len(self._clients)

    def keep(self, runs: Iterable[RunDir]) -> None:
        """Close the stores of all other runs."""
        wanted = {str(run.path) for run in runs}
        for path in [path for path in self._clients if path not in wanted]:
            self._clients.pop(path).close()

    def close(self) -> None:
        """Close all stores; asking again opens them again."""
        self.keep(())

    async def stored(self, run: RunDir) -> Stored:
        """The evaluations that a run holds."""
        return await self._client(run).ask(
            lambda reader: Stored(run, reader.evaluations(), reader.status().step)
        )

    async def compare(
        self, sides: tuple[Side, Side], progress: Callable[[int, int], None]
    ) -> Comparison:
        """Read both evaluations and pair them; ``progress`` hears (questions read, of how many)."""
        total = sum(side.evaluation.summary.questions for side in sides)
        found: list[list[DiscussionRow]] = [[], []]
        for rows, side in zip(found, sides, strict=True):
            client = self._client(side.run)
            while page := await client.ask(
                partial(_page, key=side.evaluation.id, after=rows[-1].id if rows else 0)
            ):
                rows += page
                progress(sum(map(len, found)), total)
        return await asyncio.to_thread(compare, sides, *found)

    async def debates(
        self, sides: tuple[Side, Side], item: Item
    ) -> tuple[StoredDiscussion, StoredDiscussion]:
        """The two discussions of one question, whole."""
        found = []
        for side, key in zip(sides, item.discussions, strict=True):
            client = self._client(side.run)
            found.append(await client.ask(partial(StoreReader.discussion, key=key)))
        return found[0], found[1]

    def _client(self, run: RunDir) -> StoreClient:
        path = str(run.path)
        if path not in self._clients:
            self._clients[path] = StoreClient(run)
        return self._clients[path]


def _page(reader: StoreReader, key: int, after: int) -> list[DiscussionRow]:
    """The next questions of an evaluation, in the order they were asked."""
    page = reader.page(DiscussionFilter(evaluation=key), after=after, limit=BATCH)
    return list(reversed(page))
