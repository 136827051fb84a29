"""The table of runs; the cursor stays on its run whatever comes, goes or changes places.

In: rows in order, marked names, the run that the app looks at.  Out: a table whose cursor names a
run.  Neighbours: ``runs_text`` makes the cells, ``line_table`` draws them, the Runs
screen fills it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.style import Style
from textual.color import Color, ColorParseError

from maporl_tui.reading.run_list import RunRow
from maporl_tui.reading.runs_text import COLUMNS, STATES, cells
from maporl_tui.widgets.line_table import Cell, Column, LineTable

_MARK_WIDTH = 2
_BAR = 2
"""Cells between the last column and the edge; the scrollbar is there."""
_LEAST_NAME = 12


class RunTable(LineTable):
    """Lines of runs; enter and space are the screen's."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._rows: dict[str, RunRow] = {}
        self._marked: Collection[str] = ()
        self._attached: str | None = None
        self._now = 0.0
        self._styles: dict[str, Style] = {}

    def on_resize(self) -> None:
        self._show(self.cursor_row)

    def recolour(self, variables: Mapping[str, str]) -> None:
        """Take over the colours of a theme."""
        self._styles = {state: _style(variables.get(name)) for state, (_, name) in STATES.items()}
        self._show(self.cursor_row)

    def show(
        self, rows: Sequence[RunRow], marked: Collection[str], attached: str | None, now: float
    ) -> None:
        """Show these rows in this order; what is on the screen stays there if it can."""
        before, place = self.present, self.cursor_row
        self._rows = {row.name: row for row in rows}
        self._marked, self._attached, self._now = frozenset(marked), attached, now
        if before in self._rows:
            place = list(self._rows).index(before)
        self._show(place)

    def _show(self, cursor: int) -> None:
        self.show_table(self._fitting(), list(self._rows), self._cells_of, cursor)

    def _fitting(self) -> list[Column]:
        """The columns, the name as wide as there is room."""
        taken = _MARK_WIDTH + sum(width for key, _, width in COLUMNS if key != "name")
        name = max(_LEAST_NAME, self.size.width - _BAR - taken)
        columns = [Column("mark", Cell(""), _MARK_WIDTH)]
        return columns + [
            Column(key, Cell(heading), name if key == "name" else width)
            for key, heading, width in COLUMNS
        ]

    def _cells_of(self, name: str) -> list[Cell]:
        row = self._rows[name]
        mark = "●" if name in self._marked else "›" if name == self._attached else " "
        state, *others = cells(row, self._now)
        line = [Cell(mark, Style(bold=True)), Cell(state, self._styles.get(row.state, Style()))]
        return line + [Cell(text) for text in others]


def _style(colour: str | None) -> Style:
    try:
        return Style(color=Color.parse(colour).rich_color) if colour else Style()
    except ColorParseError:
        return Style()
