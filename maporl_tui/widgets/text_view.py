"""Any text of any length, drawn row by row.

In: text as a model wrote it, and marks (offset ranges with a style).  Out: what fits on the screen.
Neighbours: the Debate and Compare screens and the dialogs that show whole texts.

Only rows that were scrolled to are ever cut (``rows.wrap_rows``), so a message of 10 MB opens at
once.  Control codes are taken out and markup is never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from maporl_tui.drawing.rows import Row, wrap_rows
from maporl_tui.drawing.text import safe
from maporl_tui.widgets.line_view import LineView

_AHEAD = 400
"""Rows cut beyond the last one that is shown."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Characters [start, end) of the safe text, drawn in the style of a component class.

    ``kind`` is one of "hit", "now", "added", "removed", "answer".
    """

    start: int
    end: int
    kind: str


class TextLines(LineView):
    """A window over one text, for widgets that show more than the text."""

    COMPONENT_CLASSES = {
        "text-view--hit",
        "text-view--now",
        "text-view--added",
        "text-view--removed",
        "text-view--answer",
    }
    DEFAULT_CSS = """
    TextLines { height: 1fr; }
    TextLines > .text-view--hit { background: $warning; color: $on-color; }
    TextLines > .text-view--now { background: $accent; color: $on-color; text-style: bold; }
    TextLines > .text-view--added { color: $success; text-style: bold; }
    TextLines > .text-view--removed { color: $error; text-style: strike; }
    TextLines > .text-view--answer { text-style: bold underline; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._given = self._text = ""
        self._marks: tuple[Mark, ...] = ()
        self._rows: list[Row] = []
        self._more: Iterator[Row] | None = None
        self._width = 0

    @property
    def text(self) -> str:
        """The text that is shown, without control codes; marks are offsets into it."""
        return self._text

    def show_text(self, text: str, marks: Sequence[Mark] = ()) -> None:
        """Show another text; the scroll position is kept where the new text begins like the old."""
        if text == self._given:  # cleaning megabytes takes a second
            text = self._text
        else:
            self._given, text = text, safe(text)
        grown = text.startswith(self._text)
        if text == self._text and tuple(marks) == self._marks:
            return
        self._text, self._marks = text, tuple(sorted(marks, key=lambda mark: mark.start))
        self._cut_anew()
        if not grown:
            self.scroll_to(0, 0, animate=False)
        self.refresh()

    def reveal(self, offset: int) -> None:
        """Scroll so that the character at ``offset`` is in the middle."""
        while self._more is not None and (not self._rows or self._rows[-1][1] < offset):
            self._cut(len(self._rows) + _AHEAD)
        row = next((i for i, (_, end) in enumerate(self._rows) if offset <= end), 0)
        self.scroll_to(y=max(0, row - self.page // 2), animate=False)

    def on_resize(self) -> None:
        if self.room != self._width:
            self._cut_anew()
            self.refresh()  # what was drawn before the first layout was nothing

    def draw_line(self, y: int, width: int, style: Style) -> Strip:
        if width != self._width:
            self._cut_anew()  # drawn before it was told of its new size
        row = y - self.fixed + self.scroll_offset.y
        if self._more is not None and row + _AHEAD // 2 > len(self._rows):
            self._cut(row + _AHEAD)
        if row >= len(self._rows):
            return Strip.blank(width, style)
        return Strip(self._segments(*self._rows[row], style))

    def scroll_end(self, **options: object) -> None:
        """Cut all rows first, so that the end is the end."""
        while self._more is not None:
            self._cut(len(self._rows) + 50 * _AHEAD)
        super().scroll_end(**options)  # type: ignore[arg-type]

    def _cut_anew(self) -> None:
        self._width = self.room
        self._rows = []
        self._more = wrap_rows(self._text, self._width) if self._width else None
        self._cut(max(_AHEAD, self.scroll_offset.y + _AHEAD))

    def _cut(self, wanted: int) -> None:
        while self._more is not None and len(self._rows) < wanted:
            row = next(self._more, None)
            if row is None:
                self._more = None
            else:
                self._rows.append(row)
        self.set_count(len(self._rows), self._width)

    def _segments(self, start: int, end: int, style: Style) -> list[Segment]:
        segments, position = [], start
        for mark in self._marks:
            first, last = max(mark.start, position), min(mark.end, end)
            if first >= last:
                continue
            if first > position:
                segments.append(Segment(self._text[position:first], style))
            own = self.get_component_rich_style(f"text-view--{mark.kind}", partial=True)
            segments.append(Segment(self._text[first:last], style + own))
            position = last
        segments.append(Segment(self._text[position:end], style))
        return segments


class TextView(TextLines):
    """A window over one text."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None):
        super().__init__(id=id, classes=classes)
        self.show(text)

    def show(self, text: str, marks: Sequence[Mark] = ()) -> None:
        """Show another text, as ``show_text`` says."""
        self.show_text(text, marks)
