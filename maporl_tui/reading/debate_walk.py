"""Walking through stored debates, one by one, with the neighbours at hand.

In: a way to ask the store's reader, a filter, a place.  Out: whole discussions; those next to the
one that is shown are read ahead.  Pages by id: nothing is counted and no list is loaded.
Neighbours: the Debate screen owns one walker per run; ``client`` answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from maporl_core.store.reader import DiscussionFilter, StoredDiscussion, StoreReader

Answer = TypeVar("Answer")
OLDER, NEWER = -1, 1
AHEAD = 3
"""Debates read ahead in each direction."""
_KEPT_CHARACTERS = 32_000_000
_KEPT_LINKS = 4000


class Ask(Protocol):
    """``client.StoreClient.ask``."""

    def __call__(self, question: Callable[[StoreReader], Answer]) -> Awaitable[Answer]: ...


class Walker:
    """Debates of one run.  Every async method raises StoreError when the store cannot be read."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: OrderedDict[int, StoredDiscussion] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._links: dict[tuple[DiscussionFilter, int, int], int] = {}

    def forget(self) -> None:
        """Rows were taken back or replaced: nothing that was read holds any more."""
        self._kept.clear()
        self._sizes.clear()
        self._links.clear()

    def beside(self, key: int, way: int, wanted: DiscussionFilter) -> StoredDiscussion | None:
        """The neighbour if it is at hand; asks nobody."""
        found = self._links.get((wanted, way, key))
        return self._kept.get(found) if found is not None else None

    async def load(self, key: int) -> StoredDiscussion:
        """One discussion.  Raises StoreError when there is none with this id."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        return self._keep(await self._ask(lambda reader: reader.discussion(key)))

    async def step(self, key: int, way: int, wanted: DiscussionFilter) -> StoredDiscussion | None:
        """The next debate that passes, older (way −1) or newer (1); None at the end."""
        at_hand = self.beside(key, way, wanted)
        if at_hand is not None:
            return at_hand
        found = await self._ask(lambda reader: _page(reader, key, way, wanted, 1))
        self._link(key, way, wanted, found)
        return await self.load(found[0]) if found else None

    async def newest(self, wanted: DiscussionFilter) -> StoredDiscussion | None:
        """The newest debate that passes; None when none does."""
        rows = await self._ask(lambda reader: reader.page(wanted, limit=1))
        return await self.load(rows[0].id) if rows else None

    async def oldest(self, wanted: DiscussionFilter) -> StoredDiscussion | None:
        """The oldest debate that passes; None when none does."""
        rows = await self._ask(lambda reader: reader.page(wanted, after=0, limit=1))
        return await self.load(rows[-1].id) if rows else None

    async def near(self, key: int, wanted: DiscussionFilter) -> StoredDiscussion | None:
        """The debate itself when it passes, else the nearest older one, else a newer one."""
        found = await self._ask(
            lambda reader: (
                _page(reader, key + 1, OLDER, wanted, 1) or _page(reader, key, NEWER, wanted, 1)
            )
        )
        return await self.load(found[0]) if found else None

    async def read_ahead(self, key: int, wanted: DiscussionFilter) -> None:
        """Have the neighbours of a debate at hand, nearest first."""
        for way in (NEWER, OLDER):
            if self.beside(key, way, wanted) is None:
                await self.step(key, way, wanted)
        for way in (NEWER, OLDER):
            page = partial(_page, key=key, way=way, wanted=wanted, limit=AHEAD)
            ids = await self._ask(page)
            self._link(key, way, wanted, ids)
            for found in ids:
                await self.load(found)

    def _link(self, key: int, way: int, wanted: DiscussionFilter, ids: list[int]) -> None:
        if len(self._links) > _KEPT_LINKS:
            self._links.clear()
        for there in ids:
            self._links[wanted, way, key] = there
            self._links[wanted, -way, there] = key
            key = there

    def _keep(self, stored: StoredDiscussion) -> StoredDiscussion:
        key = stored.row.id
        self._kept[key] = stored
        self._sizes[key] = _size(stored)
        total = sum(self._sizes.values())
        while len(self._kept) > 4 * AHEAD or (total > _KEPT_CHARACTERS and len(self._kept) > 1):
            gone, _ = self._kept.popitem(last=False)
            total -= self._sizes.pop(gone)
        return stored


def _page(
    reader: StoreReader, key: int, way: int, wanted: DiscussionFilter, limit: int
) -> list[int]:
    """Ids of the nearest debates on one side of ``key``, nearest first."""
    if way == OLDER:
        return [row.id for row in reader.page(wanted, before=key, limit=limit)]
    return [row.id for row in reversed(reader.page(wanted, after=key, limit=limit))]


def _size(stored: StoredDiscussion) -> int:
    """Characters that a discussion holds, with about as much again for each of its tokens."""
    messages = [message for row in stored.discussion.messages for message in row]
    prompts = list(stored.prompts.values())
    tokens = sum(len(message.prompt_ids) + len(message.ids) for message in messages)
    return (
        sum(len(message.text) for message in messages)
        + sum(len(prompt.text) for prompt in prompts)
        + 8 * tokens
    )
