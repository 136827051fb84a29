"""What the Debate screen shows: a debate that is being written, or one of the store.

In: the app's view (the watched debate while it is written), stored discussions through the app's
client, the selection.  Out: one debate at a time, and the selection that Rewards shows too.
Neighbours: ``debate_feed`` says what to show and fetches it, ``widgets.debate_view`` draws,
``screens.debate`` adds the keys.
"""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_core.store.reader import StoredDiscussion
from maporl_core.types import Place
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.debate_feed import Feed
from maporl_tui.reading.debate_follow import Keep, Load, Newest, ShowLive, Want, being_written
from maporl_tui.reading.debate_made import live_debate, stored_debate
from maporl_tui.reading.debate_records import Cell, Debate
from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.debate.lines import NO_RUN, nothing_passes, nothing_yet, state_line
from maporl_tui.screens.debate.view import DebateView

_LOOK = 0.25
"""Seconds between two looks at a debate that is being written."""


class DebateShowing(RunScreen):
    """The Debate screen without its keys."""

    def __init__(self) -> None:
        super().__init__()
        self._feed: Feed | None = None
        self._client: StoreClient | None = None
        self._stored: StoredDiscussion | None = None
        self._own_selection: object = None

    def compose_body(self) -> ComposeResult:
        yield DebateView(id="debate")
        yield Static(id="debate-empty", classes="empty", markup=False)

    def on_mount(self) -> None:
        self._pane.display = False
        self.set_interval(_LOOK, self._look_closer)

    @property
    def _pane(self) -> DebateView:
        return self.query_one(DebateView)

    # What is shown ----------------------------------------------------------------------------

    def show_view(self, view: RunView | None) -> None:
        client = self.maporl.client
        if view is None or client is None:
            self._feed = self._client = None
            self._say_nothing(NO_RUN)
            return
        feed = self._feed
        if feed is None or client is not self._client:
            self._client, self._own_selection = client, None
            self._feed = feed = Feed(client.ask, view)
            self._say_nothing(f"reading {view.name} …")
        if feed.taken_back(view) and self._pane.debate is not None and not feed.follow:
            self._find_nearest(feed)
        chosen = self.maporl.selection
        if chosen is not None and chosen != self._own_selection:
            self._own_selection, feed.follow = chosen, False
            self._fetch(Load(chosen.discussion), chosen)
        else:
            want = feed.next_want(view, self._pane.debate)
            if isinstance(want, ShowLive):
                self._show(live_debate(want.live), None)
            elif not isinstance(want, Keep):
                self._fetch(want)
        self._count(feed, view)
        self._say_state()

    @work(exclusive=True, group="show")
    async def _fetch(self, want: Want, place: Place | None = None) -> None:
        """Show a stored debate when it has come."""
        feed = self._feed
        if feed is not None:
            try:
                found = await feed.fetch(want)
            except MaporlError as error:
                self.maporl.say_problem(str(error))
                return
            if feed is self._feed and not self._overtaken(want, feed):
                self._show_found(found, isinstance(want, Newest), place)

    def _overtaken(self, want: Want, feed: Feed) -> bool:
        """Whether a debate began to be written while the newest stored one was read."""
        view = self.view
        if view is None or not (feed.follow and isinstance(want, Newest)):
            return False
        return isinstance(feed.next_want(view, self._pane.debate), ShowLive)

    @work(exclusive=True, group="show")
    async def _find_nearest(self, feed: Feed) -> None:
        try:
            found = await feed.nearest(self._pane.debate)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        if feed is self._feed:
            self._show_found(found, only=True)

    def _show_found(
        self, found: StoredDiscussion | None, only: bool = False, place: Place | None = None
    ) -> None:
        """Show what was found; when nothing was although ``only`` newest was asked for, say so."""
        feed, view = self._feed, self.view
        if feed is None or view is None:
            return
        if found is not None:
            debate = stored_debate(found, view.evaluations, view.samples)
            cell = debate.cell(place.turn, place.agent, place.branch) if place else None
            self._show(debate, found, cell)
            self._read_ahead(feed, found.row.id)
        elif only and feed.filter_words:
            self._say_nothing(nothing_passes(feed.filter_words))
        elif only and view.live is not None:
            self._show(live_debate(view.live), None)
        elif only:
            self._say_nothing(nothing_yet(view))

    def _show(
        self, debate: Debate, stored: StoredDiscussion | None, place: Cell | None = None
    ) -> None:
        feed, pane, self._stored = self._feed, self._pane, stored
        words = feed.query.text if feed is not None else ""
        if debate != pane.debate or place is not None or words != pane.words:
            pane.show(debate, words, place)
            if not pane.display:
                pane.display = True
                self.query_one("#debate-empty").display = False
            if self.focused is None or self.focused.has_pseudo_class("disabled"):
                pane.focus_message()
        self._select()
        self._say_state()

    def _say_nothing(self, words: str) -> None:
        pane, empty = self._pane, self.query_one("#debate-empty", Static)
        pane.display, pane.debate, self._stored = False, None, None
        empty.display = True
        empty.update(Content(words))

    def _say_state(self) -> None:
        feed, view, pane = self._feed, self.view, self._pane
        if feed is not None and view is not None and pane.debate is not None:
            pane.say_state(
                state_line(
                    view,
                    follow=feed.follow,
                    filter_words=feed.filter_words,
                    passing=feed.passing,
                    hits=len(pane.hits),
                    hit=pane.hit,
                    has_text=bool(feed.query.text),
                )
            )

    def _select(self) -> None:
        """Let Rewards show the same message."""
        debate = self._pane.debate
        if debate is not None and debate.key is not None:
            turn, column = self._pane.place
            self._own_selection = Place(debate.key, turn, *debate.columns[column])
            self.maporl.selection = self._own_selection

    @work(exclusive=True, group="ahead")
    async def _read_ahead(self, feed: Feed, key: int) -> None:
        try:
            await feed.walker.read_ahead(key, feed.wanted)
        except MaporlError:
            return  # the next key asks again, and says why when it cannot be answered

    @work(exclusive=True, group="count")
    async def _count(self, feed: Feed, view: RunView) -> None:
        try:
            counted = await feed.count(view)
        except MaporlError:
            return  # the status line says what is wrong with the store
        if counted and feed is self._feed:
            self._say_state()

    def _look_closer(self) -> None:
        """Text that is being written grows faster than the app looks at a quiet run."""
        view, feed = self.view, self._feed
        if not self.is_current or view is None or feed is None or not feed.follow:
            return
        if being_written(view) is not None and self.maporl.options.refresh > _LOOK:
            self.run_worker(self.maporl.look_now(), exclusive=True, group="look")
