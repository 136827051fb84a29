"""The charts of the Dashboard: what is read for them, how they are looked at, the crosshair.

In: a ``RunView``, keys.  Out: drawn charts; the agents' trends, read along, for the left side.
Neighbours: ``charts`` and ``curves`` are the pure part, ``widgets.chart_grid`` arranges, the client
reads.  Only charts that can be seen are read, at the resolution they have, and at most once a
second for new steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_core.store.reader import Series
from maporl_tui.drawing.charts import ChartSpec, charts_of, head_text
from maporl_tui.drawing.curves import SMOOTHINGS, Look, Picture, picture, places, readings
from maporl_tui.host import Host, host_of
from maporl_tui.reading.view import RunView
from maporl_tui.screens.dashboard.chart_grid import ChartGrid
from maporl_tui.screens.dashboard.export import export_charts, readings_text
from maporl_tui.screens.dashboard.facts import (
    TREND_POINTS,
    agent_names,
    trend_metric,
    turns_of,
)

_SECONDS = 1.0
"""Between two readings for new steps."""
_MARGIN = 10
"""Cells of a chart that hold no curve."""
_NEWEST = 0


class ChartsPane(Vertical):
    """All charts of one run."""

    DEFAULT_CSS = """
    ChartsPane > #charts-head { height: 1; color: $text-muted; text-wrap: nowrap;
                                text-overflow: ellipsis; }
    """

    class TrendsRead(Message):
        """The agents' trends are new."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.trends: dict[str, Series] = {}
        self._view: RunView | None = None
        self._specs: tuple[ChartSpec, ...] = ()
        self._series: dict[str, Series] = {}
        self._steps_read = (1, 0)
        self._pictures: dict[str, Picture] = {}
        self._look = Look()
        self._at: int | None = None
        self._end: int | None = None  # None: all steps; _NEWEST: the newest ones; else their last
        self._asked: tuple[object, ...] = ()
        self._next = 0.0
        self._waiting = False
        self._head = ""

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="charts-head")
        yield ChartGrid(id="grid")

    @property
    def grid(self) -> ChartGrid:
        return self.query_one(ChartGrid)

    @property
    def spec(self) -> ChartSpec | None:
        """The chosen chart."""
        return self._specs[self.grid.chosen] if self.grid.chosen < len(self._specs) else None

    @property
    def maporl(self) -> Host:
        return host_of(self)

    # What is shown ----------------------------------------------------------------------------

    def show_view(self, view: RunView | None) -> None:
        """Another state of the run; reads when there is a new step."""
        before, self._view = self._view, view
        if view is None or before is None or _identity(view) != _identity(before):
            self._series, self._pictures, self.trends = {}, {}, {}
            self._at = self._end = None
            self._asked, self._next = (), 0.0
        if view is None:
            self._set_specs(())
        elif before is None or before.metric_names != view.metric_names or not self._specs:
            policies = list(view.config.resolved_policies()) if view.config else []
            parts = [part.name for part in view.parts]
            self._set_specs(charts_of(view.metric_names, policies, parts))
        self._write_head()
        self._read_soon()

    def _read_soon(self) -> None:
        """Read now, or when a second has passed since the last time."""
        wait = self._next - time.monotonic()
        if wait <= 0:
            self._read_if_new()
        elif not self._waiting:
            self._waiting = True
            self.set_timer(wait, self._waited)

    def _waited(self) -> None:
        self._waiting = False
        self._read_soon()

    def _set_specs(self, specs: tuple[ChartSpec, ...]) -> None:
        if specs != self._specs:
            self._specs, self._pictures = specs, {}
            self.grid.chosen = min(self.grid.chosen, max(0, len(specs) - 1))
            self.grid.count = len(specs)

    def on_chart_grid_changed(self, message: ChartGrid.Changed) -> None:
        message.stop()
        self._read_if_new()
        self._draw()

    # Reading ----------------------------------------------------------------------------------

    @property
    def _columns(self) -> int:
        """Dots side by side in the visible charts: what a curve can show."""
        return 2 * max(10, self.grid.chart_width - _MARGIN)

    def _steps(self) -> tuple[int, int]:
        """First and last step of the x axis."""
        newest = max(1, self._view.step if self._view is not None else 1)
        if self._end is None:
            return 1, newest
        last = newest if self._end == _NEWEST else min(self._end, newest)
        return max(1, last - self._columns + 1), last

    def _read_if_new(self) -> None:
        view, grid = self._view, self.grid
        if view is None or not view.metric_names or not self.screen.is_current:
            return
        visible = [self._specs[i] for i in grid.visible_range]
        metrics = tuple(dict.fromkeys(one.metric for spec in visible for one in spec.series))
        state = (view.generation, view.step, view.last_written, len(view.evaluations))
        asked = (_identity(view), state, metrics, self._columns, self._steps())
        if metrics and asked != self._asked:
            self._asked = asked
            self._next = time.monotonic() + _SECONDS
            self._read(metrics, self._columns, self._steps())

    @work(exclusive=True, group="charts")
    async def _read(self, metrics: Sequence[str], points: int, steps: tuple[int, int]) -> None:
        view, client = self._view, self.maporl.client
        if view is None or client is None:
            return
        first, last = steps if self._end is not None else (None, None)
        turns = turns_of(view.metric_names)
        trends = [trend_metric(agent, turns) for agent in agent_names(view)]
        try:
            found, followed = await client.ask(
                lambda reader: (
                    {name: reader.series(name, points, first, last) for name in metrics},
                    {name: reader.series(name, TREND_POINTS) for name in trends},
                )
            )
        except MaporlError as error:
            self._asked = ()
            self.maporl.say_problem(str(error))
            return
        if self._view is None or _identity(self._view) != _identity(view):
            return
        self._series.update(found)
        self._steps_read = steps
        self._pictures = {}
        if followed != self.trends:
            self.trends = followed
            self.post_message(self.TrendsRead())
        self._draw()

    # Drawing ----------------------------------------------------------------------------------

    def _draw(self) -> None:
        view = self._view
        self._write_head()
        if view is None:
            return
        for number, chart in self.grid.placed():
            spec = self._specs[number]
            if any(one.metric not in self._series for one in spec.series):
                continue  # being read
            if spec.id not in self._pictures:
                self._pictures[spec.id] = picture(
                    spec, self._series, self._look, self._steps_read, view.evaluations
                )
            chosen = number == self.grid.chosen
            chart.show(
                self._pictures[spec.id],
                readings(spec, self._series, self._at),
                crosshair=self._at,
                line=chosen,
                selected=chosen,
                large=self.grid.zoomed,
            )

    def _write_head(self) -> None:
        visible, view = self.grid.visible_range, self._view
        text = ""
        if view is not None and visible:
            part = {None: "", _NEWEST: "newest "}.get(self._end, "only ")
            text = head_text(visible, len(self._specs), part, self._steps(), self._at is not None)
        if text != self._head:
            self._head = text
            self.query_one("#charts-head", Static).update(Content(text), layout=False)

    # Keys -------------------------------------------------------------------------------------

    def toggle_log(self) -> None:
        self._set_look(Look(not self._look.log, self._look.smoothing))

    def cycle_smoothing(self) -> None:
        after = SMOOTHINGS.index(self._look.smoothing) + 1
        self._set_look(Look(self._look.log, SMOOTHINGS[after % len(SMOOTHINGS)]))

    def _set_look(self, look: Look) -> None:
        self._look, self._pictures = look, {}
        self._draw()

    def toggle_follow(self) -> None:
        """The newest steps, moving along; once more: all steps."""
        self._at = None
        self._end = None if self._end == _NEWEST else _NEWEST
        self._read_if_new()
        self._draw()

    def toggle_crosshair(self) -> None:
        found = places(self.spec, self._series) if self.spec is not None else ()
        if self._at is not None or not found:
            self._at = None
        else:
            self._at = found[-1]
            if self._end == _NEWEST:  # what is being read does not move away
                self._end = self._steps()[1]
        self._draw()

    def leave_crosshair(self) -> bool:
        """Whether there was one to leave."""
        if there := self._at is not None:
            self.toggle_crosshair()
        return there

    def move(self, columns: int, rows: int) -> None:
        """An arrow: to another chart, or the crosshair to another step."""
        if self._at is None:
            self.grid.move(columns, rows)
        elif rows:
            self.grid.chosen = min(max(0, self.grid.count - 1), max(0, self.grid.chosen + rows))
        elif self.spec is not None:
            self._move_crosshair(columns)

    def _move_crosshair(self, by: int) -> None:
        at, spec = self._at, self.spec
        if at is None or spec is None:
            return
        found = [step for step in places(spec, self._series) if (step - at) * by > 0]
        if found:
            self._at = min(found) if by > 0 else max(found)
        elif self._end is not None and self._view is not None:
            first, last = self._steps()
            if (by < 0 and first > 1) or (by > 0 and last < self._view.step):
                width = self._columns  # the next half of a page comes into view
                self._end = min(max(width, last + by * width // 2), self._view.step)
                self._at = at + by
                self._read_if_new()
        self._draw()

    # Handing out ------------------------------------------------------------------------------

    def copy(self) -> None:
        """The chosen chart's numbers under the crosshair, or its last ones."""
        if self.spec is None or self._view is None:
            return
        title = f"{self._view.name}: {self.spec.title}"
        what = "last values" if self._at is None else "values under the crosshair"
        self.maporl.copy(readings_text(title, readings(self.spec, self._series, self._at)), what)

    @work(exclusive=True, group="export")
    async def export(self) -> None:
        """All charts' data, step by step where the run is not too long."""
        await export_charts(self.maporl, self._view, self._specs)


def _identity(view: RunView) -> tuple[str, int]:
    """What makes series of two views those of the same curves."""
    return view.path, view.generation
