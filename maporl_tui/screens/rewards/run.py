"""Reward parts over the whole run: how one is spread, and how all of them stack up over steps.

In: which part of which run is wanted.  Out: a pane that is one stop of the tab key.  Neighbours:
``screens.rewards.data`` reads the numbers, ``bars`` shapes them, ``widgets.painted`` colours them.
"""

from __future__ import annotations

import time

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_tui.drawing.bars import histogram_rows, stack_and_legend
from maporl_tui.host import host_of
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.view import RunView
from maporl_tui.screens.rewards.data import Charts, read_charts
from maporl_tui.screens.rewards.painted import Painted

PAUSE = 1.0
"""Least seconds between two drawings, however fast the run's steps are."""
_LEAST_POINTS = 20


class RunPane(Vertical, can_focus=True):
    """The run's charts.  They are read again only when a step, the part or the run is another."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._shown: tuple[object, ...] | None = None
        self._wanted: tuple[StoreClient, RunView, str] | None = None
        self._time = 0.0
        self._timer: Timer | None = None
        self._room_kept = (0, 0)  # width and lines of ``#spread``

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="spread")
        yield Painted(id="histogram")
        yield Painted(id="stack")

    def want(self, client: StoreClient, view: RunView, part: str, at_once: bool = False) -> None:
        """Show ``part`` of the run as of the view's step: now, or when the pause is over."""
        wanted = (client, view.generation, view.step, part, self._room)
        if wanted == self._shown:
            return
        self._wanted = (client, view, part)
        wait = 0.0 if at_once else self._time + PAUSE - time.monotonic()
        if wait > 0:
            if self._timer is None:
                self._timer = self.set_timer(wait, self._pause_over)
            return
        self._shown, self._time = wanted, time.monotonic()
        self._read(client, part, self._room, view.step)

    def _pause_over(self) -> None:
        self._timer = None
        if self._wanted is not None:
            self.want(*self._wanted)

    @property
    def _room(self) -> int:
        """Points that a chart of half the screen can show."""
        return max(_LEAST_POINTS, self.app.size.width // 2)

    @work(exclusive=True)
    async def _read(self, client: StoreClient, part: str, points: int, step: int) -> None:
        app = host_of(self)
        try:
            charts = await client.ask(lambda reader: read_charts(reader, part, points, step))
        except MaporlError as error:
            app.say_problem(str(error))
            return
        if client is app.client and self.is_attached:
            self._show(charts)

    def _show(self, charts: Charts) -> None:
        found, points, part = charts.found, charts.points, charts.part
        # Under 120 columns the pane may be no more than its title.
        narrow = self.screen.has_class("-narrow")
        self.border_title = Content(charts.summary if narrow else f"the run's messages by {part}")
        zeros = "exact zeros are left out of the bars" if found.zeros_apart else ""
        self.border_subtitle = Content(zeros)  # seen where there is room for a whole frame
        self._write(Content(zeros if narrow else charts.summary))
        self.query_one("#histogram", Painted).show(lambda w, h: histogram_rows(found, w, h))
        parts = charts.parts
        self.query_one("#stack", Painted).show(
            lambda w, h: stack_and_legend(points, parts, part, w, h), parts
        )

    def _write(self, spread: Content) -> None:
        """The lines above the histogram.

        Room once taken is kept at a width, or going through the parts would arrange the pane anew
        each time.
        """
        place = self.query_one("#spread", Static)
        width, lines = self._room_kept
        if place.content_size.width != width:
            width, lines = place.content_size.width, 0
        needed = len(spread.wrap(width)) if width else 0
        grows = needed > lines or not width
        self._room_kept = width, max(lines, needed)
        if grows:
            place.styles.min_height = needed
        place.update(spread, layout=grows)
