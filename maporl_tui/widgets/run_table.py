"""The table of runs: lines are changed one cell at a time, the cursor stays on its run.

In: rows in order, marked names, the run that the app looks at.  Out: a table whose cursor names a
run.  Neighbours: ``runs_text`` makes the cells, the Runs screen fills it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.color import Color, ColorParseError
from textual.widgets import DataTable

from maporl_tui.run_list import RunRow
from maporl_tui.runs_text import COLUMNS, STATES, cells

_MARK_WIDTH = 2
_BAR = 2
"""Cells that the scrollbar takes."""


class RunTable(DataTable[Text], inherit_bindings=False):
    """Lines of runs; enter and space are the screen's."""

    BINDINGS = [
        Binding("up", "cursor_up", show=False),
        Binding("down", "cursor_down", show=False),
        Binding("left", "scroll_left", show=False),
        Binding("right", "scroll_right", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(cursor_type="row", cell_padding=0, id=id)
        self._order: list[str] = []
        self._texts: dict[str, tuple[str, ...]] = {}
        self._styles: dict[str, Style] = {}
        self._room = 0

    @property
    def present(self) -> str | None:
        """Name of the run under the cursor."""
        row = self.cursor_row
        return self._order[row] if 0 <= row < len(self._order) else None

    @property
    def order(self) -> Sequence[str]:
        """Names of the runs from top to bottom."""
        return self._order

    def on_resize(self) -> None:
        if self.size.width != self._room:
            self._room = self.size.width
            self._build()

    def recolour(self, variables: Mapping[str, str]) -> None:
        """Take over the colours of a theme."""
        self._styles = {state: _style(variables.get(name)) for state, (_, name) in STATES.items()}
        self._build()

    def show(
        self, rows: Sequence[RunRow], marked: Collection[str], attached: str | None, now: float
    ) -> None:
        """Show these rows in this order."""
        texts = {row.name: _line(row, marked, attached, now) for row in rows}
        order = list(texts)
        kept = [name for name in self._order if name in texts]
        before, self._texts, old = self._order, texts, self._texts
        if order[: len(kept)] != kept:
            self._order = order
            self._build(before)
            return
        for name in before:
            if name not in texts:
                self.remove_row(name)
        self._order = order
        for name in kept:
            self._change(name, old[name])
        for name in order[len(kept) :]:
            self.add_row(*self._styled(name), key=name)

    def _change(self, name: str, old: tuple[str, ...]) -> None:
        new = self._texts[name]
        if new == old:
            return
        styled = self._styled(name)
        for (key, _, _), text, was, now in zip(_columns(), styled, old, new, strict=True):
            if was != now:
                self.update_cell(name, key, text)

    def _build(self, before: Sequence[str] | None = None) -> None:
        """Everything anew; the cursor stays on its run."""
        before = self._order if before is None else before
        row = self.cursor_row
        name = before[row] if 0 <= row < len(before) else None
        top = self.scroll_y
        self.clear(columns=True)
        taken = sum(width for key, _, width in _columns() if key != "name")
        room = max(12, self._room - _BAR - taken)
        for key, heading, width in _columns():
            self.add_column(Text(heading), width=room if key == "name" else width, key=key)
        for one in self._order:
            self.add_row(*self._styled(one), key=one)
        if name in self._texts and name is not None:
            self.move_cursor(row=self._order.index(name), scroll=False)
            self.scroll_to(y=top, animate=False)

    def _styled(self, name: str) -> list[Text]:
        mark, *texts = self._texts[name]
        state = texts[0].split(" ", 1)[-1]
        line = [Text(mark, Style(bold=True)), Text(texts[0], self._styles.get(state, Style()))]
        return line + [Text(text, no_wrap=True, end="") for text in texts[1:]]


def _columns() -> tuple[tuple[str, str, int], ...]:
    return (("mark", "", _MARK_WIDTH), *COLUMNS)


def _line(
    row: RunRow, marked: Collection[str], attached: str | None, now: float
) -> tuple[str, ...]:
    mark = "●" if row.name in marked else "›" if row.name == attached else " "
    return (mark, *cells(row, now))


def _style(colour: str | None) -> Style:
    try:
        return Style(color=Color.parse(colour).rich_color) if colour else Style()
    except ColorParseError:
        return Style()
