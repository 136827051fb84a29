"""Which debate the Debate screen shows, and how it gets there.

In: the ``RunView``, the filter, steps of a person.  Out: what to show next (a ``Want``) and stored
discussions.  No screen.  Neighbours: ``debate_follow`` decides, ``debate_walk`` fetches, the Debate
screen has one feed per run it looks at and draws what comes.
"""

from __future__ import annotations

from maporl_core.store.reader import DiscussionFilter, StoredDiscussion
from maporl_tui.reading.debate_follow import FindWatched, Keep, Load, Newest, ShowLive, Want, decide
from maporl_tui.reading.debate_query import Query, filter_words, store_filter
from maporl_tui.reading.debate_records import Debate
from maporl_tui.reading.debate_walk import OLDER, Ask, Walker
from maporl_tui.reading.view import RunView


class Feed:
    """Debates of one run.  Async methods raise StoreError when the store cannot be read."""

    def __init__(self, ask: Ask, view: RunView) -> None:
        self.walker = Walker(ask)
        self.follow = view.is_live
        self.typed = ""
        self.query = Query()
        self.toggles: frozenset[str] = frozenset()
        self.wanted = DiscussionFilter()
        self.passing: int | None = None
        self._ask = ask
        self._generation = view.generation
        self._newest_mark: tuple[object, ...] | None = None
        self._counted: tuple[object, ...] | None = None
        self._underway: Want | None = None
        self._vain: Want | None = None

    # The filter -------------------------------------------------------------------------------

    @property
    def filter_words(self) -> str:
        """The filter in words; empty when every debate passes."""
        return filter_words(self.query, self.toggles)

    def narrow(self, query: Query, toggles: frozenset[str], typed: str, view: RunView) -> None:
        """Set the filter.  Raises QueryError and changes nothing when it cannot be."""
        self.wanted = store_filter(query, toggles, view.evaluations)
        self.query, self.toggles, self.typed = query, toggles, typed
        self.passing = self._counted = self._newest_mark = None

    async def count(self, view: RunView) -> bool:
        """Count the debates that pass, when there may be others than last time; whether it did."""
        mark = (self.wanted, *_mark(view))
        if not self.filter_words or mark == self._counted:
            return False
        self._counted = mark
        wanted = self.wanted
        found = await self._ask(lambda reader: reader.count(wanted))
        if wanted != self.wanted:
            return False
        self.passing = found
        return True

    # What to show -----------------------------------------------------------------------------

    def taken_back(self, view: RunView) -> bool:
        """Whether rows were taken back since the last call; nothing read before holds then."""
        if view.generation == self._generation:
            return False
        self._generation = view.generation
        self.walker.forget()
        self._newest_mark = self._vain = self._counted = None
        return True

    def next_want(self, view: RunView, shown: Debate | None) -> Want:
        """What to show now; ``Keep`` while it is being fetched or was sought in vain."""
        want = decide(
            view,
            shown,
            follow=self.follow,
            filtered=bool(self.filter_words),
            newest_mark=self._newest_mark,
        )
        asked = self._underway
        # What a person asked for is not overtaken by news of the run.
        busy = asked is not None and (want == asked or not self.follow)
        if isinstance(want, ShowLive | Keep):
            return want
        return Keep() if busy or want == self._vain else want

    async def fetch(self, want: Want) -> StoredDiscussion | None:
        """The stored debate that is wanted; None when there is none."""
        self._underway = want
        self._vain = want
        try:
            found = await self._found(want)
        finally:
            if self._underway is want:
                self._underway = None
        if isinstance(want, Newest):
            self._newest_mark = want.mark
        if found is not None or not isinstance(want, FindWatched):
            self._vain = None
        return found

    async def _found(self, want: Want) -> StoredDiscussion | None:
        if isinstance(want, Load):
            return await self.walker.load(want.key)
        if isinstance(want, FindWatched):
            step = want.step
            return await self.walker.newest(
                DiscussionFilter(
                    first_step=step, last_step=step, split="train", problem_id=want.problem_id
                )
            )
        return await self.walker.newest(self.wanted)

    async def nearest(self, shown: Debate | None) -> StoredDiscussion | None:
        """What to show after the filter changed: the same debate if it passes, else one near it."""
        if shown is None or shown.key is None or self.follow:
            return await self.walker.newest(self.wanted)
        return await self.walker.near(shown.key, self.wanted)

    # Walking ----------------------------------------------------------------------------------

    def at_hand(self, shown: Debate, way: int) -> StoredDiscussion | None:
        """The neighbour if it was read ahead; asks nobody."""
        return None if shown.key is None else self.walker.beside(shown.key, way, self.wanted)

    async def neighbour(self, shown: Debate, way: int) -> StoredDiscussion | None:
        """The next older or newer debate that passes; a debate being written is the newest."""
        if shown.key is not None:
            return await self.walker.step(shown.key, way, self.wanted)
        return await self.walker.newest(self.wanted) if way == OLDER else None

    async def far_end(self, way: int) -> StoredDiscussion | None:
        """Where walking goes on after the end: the newest for older, the oldest for newer."""
        if way == OLDER:
            return await self.walker.newest(self.wanted)
        return await self.walker.oldest(self.wanted)


def _mark(view: RunView) -> tuple[object, ...]:
    return view.generation, view.last_written, len(view.evaluations)
