"""A table that loses nothing on a narrow terminal: what does not fit is told row by row.

In: columns and rows as of Rich's Table.  Out: the table where all of it fits, else a few lines per
row that name each value.  Neighbours: every view that prints a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_GAP = 2  # between two columns
_FOLDED = 16  # a long word of a column that may fold needs no more


class FittingTable(Table):
    """Cells are text; the first column names a row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gap = _GAP + bool(self.box)
        wide = sum(map(_least, self.columns)) + gap * len(self.columns)
        wide -= 0 if self.box else gap
        if wide <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield from self._told([_text(cell) for cell in cells])

    def _told(self, cells: list[Text]) -> Iterable[Text]:
        names = [_text(column.header).plain for column in self.columns]
        yield Text(f"{names[0]} ".lstrip(), style="bold").append_text(cells[0])
        for name, cell in zip(names[1:], cells[1:], strict=True):
            if cell.plain:
                yield Text(f"  {name}: ", style="dim").append_text(cell)


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _least(column: Column) -> int:
    """Cells that a column needs at least, without losing a character."""
    texts = [_text(cell).plain for cell in (column.header, *column.cells)]
    if column.no_wrap:
        return max(map(cell_len, texts))
    longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
    return min(longest, _FOLDED) if column.overflow == "fold" else longest
