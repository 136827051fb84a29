"""Screen 1: every run below a folder, to be looked at, marked, compared, removed.

In: keys on the list that ``showing`` keeps.  Out: the run that the app looks at, two runs to
compare, files.  Neighbours: ``showing`` is the screen without keys, ``keymap`` has the keys.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from textual import on, work

from maporl_core.errors import MaporlError
from maporl_core.store.reader import RunDir, remove_run
from maporl_tui.drawing.text import size
from maporl_tui.reading.run_list import disk_size
from maporl_tui.reading.runs_text import SORTS, table_text
from maporl_tui.screens.dialogs import Ask, Confirm
from maporl_tui.screens.runs.showing import RunsShowing
from maporl_tui.widgets.line_table import LineTable


class RunsScreen(RunsShowing):
    """All runs of a folder."""

    NAME = "runs"
    AUTO_FOCUS = "#runs-table"
    FOOTER = (
        "runs.attach",
        "runs.mark",
        "runs.compare",
        "runs.delete",
        "runs.sort",
        "common.find",
    )

    # Keys -----------------------------------------------------------------------------------------

    def action_attach(self) -> None:
        row = self.present
        if row is None:
            return
        if row.problem is not None:
            self.maporl.say_problem(row.problem)
            return
        self.maporl.attach(row.run)
        self.maporl.show_screen("dashboard")

    def action_mark(self) -> None:
        row = self.present
        if row is None:
            return
        if row.name in self._marked:
            del self._marked[row.name]
        else:
            self._marked[row.name] = None
        self._show_rows()
        self._table.action_step(1)

    def action_compare(self) -> None:
        row, names = self.present, list(self._marked)
        if len(names) == 1 and row is not None and row.name != names[0]:
            names.append(row.name)
        if len(names) != 2:
            self.maporl.say_problem(
                f"{len(names)} runs are marked: mark two with space, or one and go to the other"
            )
            return
        a, b = (self._rows[name] for name in names)
        for one in (a, b):
            if one.problem is not None:
                self.maporl.say_problem(one.problem)
                return
        self.maporl.compare_runs(a.run, b.run)

    @work(group="runs-delete")
    async def action_delete(self) -> None:
        row = self.present
        if row is None:
            return
        if row.is_live:
            who = f" by process {row.pid}" if row.pid is not None else ""
            self.maporl.say_problem(f"{row.name} is being trained{who}: stop it first (X)")
            return
        bytes_lost = await asyncio.to_thread(disk_size, row.run.path)
        lost = f"its store, checkpoints and adapters, {size(bytes_lost)}"
        question = f"Delete the run {row.name} for good? Lost: {lost}, in {row.run.path}."
        if await self.app.push_screen_wait(Confirm(question, "Delete", "Keep")):
            await self._remove(row.run)

    async def _remove(self, run: RunDir) -> None:
        view = self.view
        if view is not None and Path(view.path) == run.path:
            self.maporl.detach_run()
        try:
            await asyncio.to_thread(remove_run, run)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
        else:
            self.notify(f"deleted {run.path}", markup=False)
        self._follow()

    @work(group="runs-find")
    async def action_find(self) -> None:
        wanted = await self.app.push_screen_wait(
            Ask("Only runs whose name, task, algorithm or state has", self._filter, "all runs")
        )
        if wanted is not None:
            self._filter = wanted.strip()
            self._show_rows()

    def action_back(self) -> None:
        if self.maximized is None and self._filter:
            self._filter = ""
            self._show_rows()
        else:
            super().action_back()

    def action_sort(self) -> None:
        self._sort_by(SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)], False)

    def action_reverse(self) -> None:
        self._sort_by(self._sort, not self._reverse)

    @on(LineTable.HeadingChosen)
    def _heading_clicked(self, event: LineTable.HeadingChosen) -> None:
        if event.key in SORTS:
            self._sort_by(event.key, event.key == self._sort and not self._reverse)

    def _sort_by(self, name: str, reverse: bool) -> None:
        self._sort, self._reverse = name, reverse
        self._show_rows()

    def action_copy(self) -> None:
        row = self.present
        if row is not None:
            self.maporl.copy(str(row.run.path.absolute()), "run's path")

    def action_export(self) -> None:
        rows = [self._rows[name] for name in self._table.order]
        self.maporl.export("runs.md", lambda path: table_text(rows, time.time(), path))
