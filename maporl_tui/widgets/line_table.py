"""A table of any length with a cursor on one row, of which only rows on the screen are ever made.

In: columns, names of rows, and a function that makes the cells of one.  Out: ``Moved`` when
somebody moves the cursor, ``HeadingChosen`` when somebody clicks on a heading.  Neighbours: the
lists of runs and of reward parts.  A line whose cells are as they were is not drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.events import Click, MouseMove
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from maporl_tui.widgets.line_view import BAR, LineView


class Cell(NamedTuple):
    """Text without control codes, and how it looks."""

    text: str
    style: Style = Style.null()


@dataclass(frozen=True, slots=True)
class Column:
    """``width`` in cells, the blank beside the next column included."""

    key: str
    heading: Cell
    width: int


Words = Callable[[str], Sequence[Cell]]
"""Name of a row → its cells, one per column."""


class LineTable(LineView):
    """Rows below a heading."""

    COMPONENT_CLASSES = {
        "table--head",
        "table--cursor",
        "table--hover",
        "table--first",
        "table--first-cursor",
    }
    DEFAULT_CSS = """
    LineTable { background: $surface; color: $foreground; overflow-x: scroll; }
    LineTable:focus { background-tint: $foreground 5%; }
    LineTable > .table--head { background: $panel; color: $foreground; text-style: bold; }
    LineTable:focus > .table--head { background-tint: $foreground 5%; }
    LineTable:ansi > .table--head { background: ansi_bright_blue; color: ansi_default; }
    LineTable > .table--hover { background: $block-hover-background; }
    LineTable > .table--first { background: $secondary-muted; color: $foreground; }
    LineTable > .table--cursor { background: $block-cursor-blurred-background;
        color: $block-cursor-blurred-foreground; text-style: $block-cursor-blurred-text-style; }
    LineTable:focus > .table--cursor { background: $block-cursor-background;
        color: $block-cursor-foreground; text-style: $block-cursor-text-style; }
    LineTable > .table--first-cursor { background: $block-cursor-blurred-background;
        color: $foreground; }
    LineTable:focus > .table--first-cursor { background: $block-cursor-background;
        color: $block-cursor-foreground; }
    """
    BINDINGS = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("left", "scroll_left", show=False),
        Binding("right", "scroll_right", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "step(-1000000000)", show=False),
        Binding("end", "step(1000000000)", show=False),
    ]

    class Moved(Message):
        """Somebody moved the cursor to the row of this name."""

        def __init__(self, table: LineTable, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> LineTable:
            return self.table

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineTable.Moved)

    class HeadingChosen(Message):
        """Somebody clicked on the heading of this column."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self, *, first_stays: bool = False, id: str | None = None, classes: str | None = None
    ) -> None:
        """``first_stays``: the first column does not scroll sideways."""
        super().__init__(id=id, classes=classes)
        self.fixed = 1
        self._first_stays = first_stays
        self._columns: tuple[Column, ...] = ()
        self._keys: list[str] = []
        self._words: Words = lambda _: ()
        self._made: dict[str, tuple[Cell, ...]] = {}
        self._drawn: dict[int, tuple[str, tuple[Cell, ...]]] = {}
        self._cursor = 0
        self._hover: int | None = None

    def show_table(
        self, columns: Sequence[Column], keys: Sequence[str], words: Words, cursor: int
    ) -> None:
        """Show these rows in this order; tells nobody that the cursor is on another one."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self.refresh()
        before = self._cursor
        self._keys, self._words, self._made = list(keys), words, {}
        self._cursor = max(0, min(cursor, len(self._keys) - 1))
        width = sum(column.width for column in self._columns)
        self.set_count(len(self._keys), width + BAR)
        if before != self._cursor:
            self.redraw_row(before)
            self.redraw_row(self._cursor)
        top = self.scroll_offset.y
        for row in range(top, top + self.page):
            if self._line_of(row) != self._drawn.get(row - top):
                self.redraw_row(row)

    @property
    def allow_horizontal_scroll(self) -> bool:
        return super().allow_horizontal_scroll and self.max_scroll_x > 0

    @property
    def order(self) -> Sequence[str]:
        """Names of the rows from top to bottom."""
        return self._keys

    @property
    def cursor_row(self) -> int:
        """The row under the cursor, from 0; 0 too where there is none."""
        return self._cursor

    @property
    def present(self) -> str | None:
        """Name of the row under the cursor."""
        return self._keys[self._cursor] if self._keys else None

    def cell(self, key: str, column: str) -> Cell:
        """One cell as it is drawn.  Raises ValueError for another column."""
        names = [one.key for one in self._columns]
        return self._cells(key)[names.index(column)]

    def go(self, row: int) -> None:
        """Put the cursor on a row, on the last or first one beyond the ends, and scroll to it."""
        before, self._cursor = self._cursor, max(0, min(row, len(self._keys) - 1))
        self.reveal_line(self._cursor)
        if before != self._cursor:
            self.redraw_row(before)
            self.redraw_row(self._cursor)

    def redraw_row(self, row: int) -> None:
        """Draw one row again where it can be seen."""
        y = row - self.scroll_offset.y + self.fixed
        if self.fixed <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    # Keys and mouse ---------------------------------------------------------------------------

    def action_step(self, by: int) -> None:
        self._move(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._move(self._cursor + by * self.page)

    def _move(self, row: int) -> None:
        before = self._cursor
        self.go(row)
        if before != self._cursor and self.present is not None:
            self.post_message(self.Moved(self, self.present))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.x >= self.room:
            return
        if offset.y == 0:
            self._heading_at(offset.x)
        elif (row := offset.y - self.fixed + self.scroll_offset.y) < len(self._keys):
            self._move(row)

    def _heading_at(self, x: int) -> None:
        end = -self.scroll_offset.x
        for number, column in enumerate(self._columns):
            end += column.width
            if x < (column.width if self._first_stays and number == 0 else end):
                self.post_message(self.HeadingChosen(column.key))
                return

    def on_mouse_move(self, event: MouseMove) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.fixed or offset.x >= self.room:
            self._hover_over(None)
        else:
            self._hover_over(offset.y - self.fixed + self.scroll_offset.y)

    def on_leave(self) -> None:
        self._hover_over(None)

    def _hover_over(self, row: int | None) -> None:
        before, self._hover = self._hover, row
        if before != row:
            for one in (before, row):
                if one is not None:
                    self.redraw_row(one)

    # Drawing ----------------------------------------------------------------------------------

    def draw_line(self, y: int, width: int, style: Style) -> Strip:
        if y == 0:
            heads = [column.heading for column in self._columns]
            return self._line(heads, self.get_component_rich_style("table--head"), None)
        row = y - self.fixed + self.scroll_offset.y
        if row >= len(self._keys):
            self._drawn.pop(y - self.fixed, None)
            return Strip.blank(width, style)
        line = self._line_of(row)
        assert line is not None
        self._drawn[y - self.fixed] = line
        here = row == self._cursor
        first = self.get_component_rich_style(f"table--first{'-cursor' * here}")
        if here:
            style = self.get_component_rich_style("table--cursor")
        elif row == self._hover:
            style = self.get_component_rich_style("table--hover")
        return self._line(line[1], style, first if self._first_stays else None, here)

    def _line_of(self, row: int) -> tuple[str, tuple[Cell, ...]] | None:
        if row >= len(self._keys):
            return None
        key = self._keys[row]
        return key, self._cells(key)

    def _cells(self, key: str) -> tuple[Cell, ...]:
        if key not in self._made:
            self._made[key] = tuple(self._words(key))
        return self._made[key]

    def _line(
        self, cells: Sequence[Cell], style: Style, first: Style | None, cursor: bool = False
    ) -> Strip:
        """One line in ``style``; under the cursor its colour wins over that of the cells."""
        drawn = []
        for number, (cell, column) in enumerate(zip(cells, self._columns, strict=False)):
            base = first if first is not None and number == 0 else style
            look = base + cell.style + base if cursor else base + cell.style
            drawn.append(Strip([Segment(cell.text, look)]).adjust_cell_length(column.width, base))
        left = self.scroll_offset.x
        stays = [drawn.pop(0)] if self._first_stays and drawn else []
        moves = Strip.join(drawn).crop(left) if left else Strip.join(drawn)
        return Strip.join([*stays, moves]).adjust_cell_length(self.size.width, style)
