"""Screen 2: is the run well, do the agents get better, what does the machine do.

In: the app's view of the run.  Out: agents, charts, before and after, the machine, the log.
Neighbours: ``charts`` (the charts and their keys), ``facts`` (all words).
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.dashboard.agent_list import AgentList
from maporl_tui.screens.dashboard.chart_grid import ChartGrid
from maporl_tui.screens.dashboard.charts import ChartsPane
from maporl_tui.screens.dashboard.facts import (
    Notice,
    agents_of,
    before_after_note,
    before_after_rows,
    notice,
)
from maporl_tui.screens.dashboard.log_view import LogView, whole_event
from maporl_tui.screens.dashboard.meters import Meters
from maporl_tui.screens.dialogs import Ask, Whole

_FEW_LINES, _MANY_LINES = 4, 12
"""Lines above the charts on a small and on a large screen."""
_DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


class DashboardScreen(RunScreen):
    """The run at a glance."""

    NAME = "dashboard"
    AUTO_FOCUS = "#grid"
    FOOTER = (
        "dashboard.zoom",
        "dashboard.crosshair",
        "dashboard.log_axis",
        "dashboard.smooth",
        "common.follow",
        "app.help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._notice: tuple[object, ...] = ()
        self._rows: list[tuple[str, str, str, str]] | None = None

    def compose_body(self) -> ComposeResult:
        yield Static(markup=False, id="notice")
        with Container(id="top"):
            with VerticalScroll(id="side", classes="pane") as side:
                side.border_title = "agents"
                yield AgentList(id="agents")
                yield Static(markup=False, id="before-after")
                yield Meters(id="meters")
            yield ChartsPane(id="charts")
        yield LogView(id="log", classes="pane")

    def show_view(self, view: RunView | None) -> None:
        self._show_notice()
        self._show_agents()
        self._show_before_after(view)
        self.query_one(Meters).show(view)
        self.query_one(LogView).show(view.events if view is not None else ())
        self._charts.show_view(view)

    @property
    def _charts(self) -> ChartsPane:
        return self.query_one(ChartsPane)

    def on_resize(self) -> None:
        self._show_notice()

    def on_charts_pane_trends_read(self) -> None:
        self._show_agents()

    def _show_notice(self) -> None:
        found = notice(self.view)
        few, width = self.size.height < 32, max(1, self.size.width - 2)
        if (found, few, width) == self._notice:
            return
        self._notice = (found, few, width)
        place = self.query_one("#notice", Static)
        place.display = found is not None
        self.set_class(found is not None, "-noticed")
        if found is not None:
            place.set_class(found.kind == "trouble", "-trouble")
            lines = _fitting(found, _FEW_LINES if few else _MANY_LINES, width)
            place.update(Content("\n".join(lines)))

    def _show_agents(self) -> None:
        view = self.view
        agents = agents_of(view, self._charts.trends) if view is not None else ()
        self.query_one(AgentList).show(agents)

    def _show_before_after(self, view: RunView | None) -> None:
        rows = before_after_rows(view.evaluations) if view is not None else []
        if rows == self._rows:
            return
        self._rows = rows
        note = before_after_note(view.evaluations) if view is not None else ""
        table = Table(title=Text(note), title_justify="left", box=None, padding=(0, 1, 0, 0))
        for i, cell in enumerate(rows[0] if rows else ()):
            table.add_column(Text(cell), no_wrap=True, justify="right" if i == 3 else "left")
        for row in rows[1:]:
            table.add_row(*(Text(cell) for cell in row))
        self.query_one("#before-after", Static).update(table if rows else Content(note))

    # Keys -------------------------------------------------------------------------------------

    def action_move(self, direction: str) -> None:
        self._charts.move(*_DIRECTIONS[direction])

    def action_zoom(self) -> None:
        """One chart over the whole body and back; on the log: the whole event."""
        log = self.query_one(LogView)
        if self.focused is log:
            if log.chosen is not None:
                self.app.push_screen(Whole("event", whole_event(log.chosen)))
            return
        grid = self.query_one(ChartGrid)
        if grid.count or grid.zoomed:
            grid.zoomed = not grid.zoomed
            self.set_class(grid.zoomed, "-zoomed")
            grid.focus()

    def action_maximise(self) -> None:
        if self.maximized is None and self.focused in (None, self.query_one(ChartGrid)):
            self.action_zoom()
        else:
            super().action_maximise()

    def action_crosshair(self) -> None:
        self._charts.toggle_crosshair()

    def action_log_axis(self) -> None:
        self._charts.toggle_log()

    def action_smooth(self) -> None:
        self._charts.cycle_smoothing()

    def action_follow(self) -> None:
        self._charts.toggle_follow()

    def action_copy(self) -> None:
        log = self.query_one(LogView)
        if self.focused is log and log.chosen is not None:
            self.maporl.copy(whole_event(log.chosen), "event")
        else:
            self._charts.copy()

    def action_export(self) -> None:
        self._charts.export()

    @work
    async def action_find(self) -> None:
        """Only events that hold some words."""
        log = self.query_one(LogView)
        typed = await self.app.push_screen_wait(
            Ask("Show only events that hold (empty: all)", log.filter, "words, warning, error")
        )
        if typed is not None:
            log.narrow(typed)

    def action_next_match(self) -> None:
        self._to_match(1)

    def action_previous_match(self) -> None:
        self._to_match(-1)

    def _to_match(self, by: int) -> None:
        log = self.query_one(LogView)
        if log.next_match(by):
            log.focus()
        else:
            self.notify("no alerts" if not log.filter else "no event holds that")

    def action_back(self) -> None:
        if self.maximized is None and self._charts.leave_crosshair():
            return
        if self.maximized is None and self.query_one(ChartGrid).zoomed:
            self.action_zoom()
        else:
            super().action_back()


def _fitting(found: Notice, most: int, width: int) -> list[str]:
    """What happened and what to do, then as many of the last lines as there is room for.

    A line of the log (they are indented) is cut to one row; what to do is shown whole.
    """
    lines = found.lines
    if len(lines) > most:
        lines = (*lines[:2], *lines[-(most - 2) :])
    return [
        set_cell_size(line, width - 1) + "…"
        if line.startswith("  ") and cell_len(line) > width
        else line
        for line in lines
    ]
