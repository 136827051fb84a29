"""What the Runs screen shows: every run below a folder, and the one under the cursor in short.

In: what ``run_list`` reads in a thread, every two seconds while the screen is shown.  Out: a table
and an overview.  Neighbours: ``screen`` adds the keys, ``runs_text`` words both.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.run_list import Overview, RunLister, RunRow, read_overview
from maporl_tui.reading.runs_text import SORTS, matches, ordered, overview_content
from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.runs.run_table import RunTable
from maporl_tui.widgets.line_table import LineTable

REFRESH = 2.0
"""Seconds between two looks at the folder."""
_SETTLE = 0.1
"""Seconds that a cursor on its way rests on a run before it is read."""


class RunsShowing(RunScreen):
    """The Runs screen without its keys."""

    def __init__(self) -> None:
        super().__init__()
        self._lister: RunLister | None = None
        self._rows: dict[str, RunRow] = {}
        self._marked: dict[str, None] = {}  # in the order they were marked
        self._filter = ""
        self._sort, self._reverse = SORTS[0], False
        self._overview: Overview | None = None
        self._wanted: RunRow | None = None  # whose overview is shown or being read
        self._moved = -_SETTLE
        self._reading: tuple[int, int] | None = None
        self._problem: str | None = None
        self._said: dict[str, str] = {}
        # Kept by hand: a look may end while the screen is being taken down.
        self._table = RunTable(id="runs-table")
        self._nothing = Static("looking …", markup=False, id="nothing", classes="empty")
        self._text = Static("", markup=False, id="overview-text")
        self._list = Container(self._table, self._nothing, id="list", classes="pane")

    @property
    def root(self) -> Path:
        return self.maporl.options.root

    def compose_body(self) -> ComposeResult:
        yield self._list
        yield VerticalScroll(self._text, id="overview", classes="pane")

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._recolour)
        self._titles()

    def on_screen_resume(self) -> None:
        self._follow()

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "runs-list")

    def show_view(self, view: RunView | None) -> None:
        del view  # only its run is marked in the list
        self._show_rows()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "delete" and self.maporl.readonly:
            return False
        return super().check_action(action, parameters)

    # The list -----------------------------------------------------------------------------------

    @work(exclusive=True, group="runs-list")
    async def _follow(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(REFRESH)

    async def _look(self) -> None:
        lister = self._lister
        if lister is None or lister.root != self.root:
            lister = self._lister = RunLister(self.root)
        try:
            names = await asyncio.to_thread(lister.names)
        except MaporlError as error:
            self._problem, self._rows = str(error), {}
            self._show_rows()
            return
        self._problem = None
        progress = lister.look(names)
        while (done := await asyncio.to_thread(next, progress, None)) is not None:
            self._reading = (done, len(names))
            self._take(lister.rows())
        self._reading = None
        self._take(lister.rows())

    def _take(self, rows: dict[str, RunRow]) -> None:
        self._rows = rows
        self._marked = {name: None for name in self._marked if name in rows}
        self._show_rows()

    def _show_rows(self) -> None:
        if not self._table.is_attached:
            return
        wanted = (row for row in self._rows.values() if matches(row, self._filter))
        rows = ordered(wanted, self._sort, self._reverse)
        view = self.view
        here = view is not None and Path(view.path).parent == self.root
        attached = view.name if view is not None and here else None
        self._table.show(rows, self._marked, attached, time.time())
        self.set_class(not rows, "-empty")
        if not rows:
            self._say_once("none", self._why_none())
        self._titles()
        self._show_overview()

    def _why_none(self) -> str:
        if self._problem is not None:
            return one_line(self._problem, 400)
        if self._reading is not None:
            return "looking …"
        if self._rows:
            return f"none of {len(self._rows)} runs has {self._filter!r}: / changes the filter"
        start = "" if self.maporl.readonly else "press 6 to start one, or "
        return f"no runs in {one_line(self.root)} yet: {start}use the command: maporl run"

    def _titles(self) -> None:
        shown, every = len(self._table.order), len(self._rows)
        title = f"{every} run{'s' * (every != 1)}"
        if self._filter:
            title = f"{shown} of {title}"
        if self._reading is not None:
            title += f" · read {self._reading[0]} of {self._reading[1]}"
        if self._filter:
            title += f" · with {one_line(self._filter, 30)}"
        order = f"{self._sort}{' reversed' * self._reverse}"
        self._say_once("title", title)
        self._say_once("order", f"by {order}")

    def _say_once(self, where: str, text: str) -> None:
        """Write one of the lines around the list; the same again costs nothing."""
        if self._said.get(where) == text:
            return
        self._said[where] = text
        if where == "title":
            self._list.border_title = Content(text)
        elif where == "order":
            self._list.border_subtitle = Content(text)
        else:
            self._nothing.update(Content(text))

    def _recolour(self, _theme: str) -> None:
        self._table.recolour(self.app.get_css_variables())

    # The run under the cursor ---------------------------------------------------------------------

    @property
    def present(self) -> RunRow | None:
        """The run under the cursor."""
        name = self._table.present
        return self._rows.get(name) if name is not None else None

    @on(LineTable.Moved)
    def _show_overview(self) -> None:
        row = self.present
        if row is None:
            if self._overview is not None:
                self._overview = self._wanted = None
                self._text.update("")
        elif self._wanted is not row:
            moving = time.monotonic() - self._moved < _SETTLE
            self._wanted, self._moved = row, time.monotonic()
            self._read_overview(row, moving)

    @work(exclusive=True, group="runs-overview")
    async def _read_overview(self, row: RunRow, moving: bool) -> None:
        """At once, or when the cursor rests: one that runs through the list is not held up."""
        if moving:
            self._draw_known(row)
            await asyncio.sleep(_SETTLE)
        reading = asyncio.create_task(asyncio.to_thread(read_overview, row))
        done, _ = await asyncio.wait({reading}, timeout=_SETTLE)
        if not done:
            self._draw_known(row)
        found = await reading
        present = self.present
        if present is not None and present.run == row.run:
            self._draw(found)

    def _draw_known(self, row: RunRow) -> None:
        """What the list knows of a run, until the rest of it is read."""
        shown = self._overview
        if shown is None or shown.row.name != row.name:
            self._draw(Overview(row))

    def _draw(self, found: Overview) -> None:
        self._overview = found
        self._text.update(overview_content(found, time.time()))
