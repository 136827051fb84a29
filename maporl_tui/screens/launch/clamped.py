"""Plain text in at most so many rows; what has no room ends in an ellipsis.

In: a text.  Out: its rows at the present width, the last one with … where there was more.
Neighbour: the Launch screen has its lines in them.
"""

from __future__ import annotations

from rich.cells import set_cell_size
from textual.content import Content
from textual.widgets import Static


class Clamped(Static):
    """One text."""

    def __init__(self, rows: int, *, id: str) -> None:
        super().__init__("", markup=False, id=id)
        self._rows = rows
        self._text = ""

    def show(self, text: str) -> None:
        """Show another text (safe to print)."""
        self._text = text
        self._write()

    def on_resize(self) -> None:
        self._write()

    def _write(self) -> None:
        width = self.size.width
        shown = clamped(self._text, width, self._rows) if width else self._text
        if shown != self.content:
            self.update(shown)


def clamped(text: str, width: int, rows: int) -> str:
    """``text`` as at most ``rows`` rows of ``width`` cells."""
    lines = [line.plain.rstrip() for line in Content(text).wrap(width)]
    if len(lines) <= rows:
        return text
    last = f"{lines[rows - 1]} …"
    if len(Content(last).wrap(width)) > 1:
        last = set_cell_size(lines[rows - 1], width - 1).rstrip() + "…"
    return "\n".join([*lines[: rows - 1], last])
