"""Many lines with a cursor, of which only those on the screen are ever made.

In: how many lines there are and a function that words one.  Out: ``Moved`` when the cursor rests on
another line.  Neighbour: the Compare screen lists thousands of questions in it.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.binding import Binding
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

Words = Callable[[int, int], tuple[str, str, str | None]]
"""(line, cells) → (head, rest, look of the head: "gained", "lost" or None)"""


class ItemList(ScrollView, can_focus=True):
    """A list of lines."""

    COMPONENT_CLASSES = {"items--gained", "items--lost", "items--cursor"}
    DEFAULT_CSS = """
    ItemList { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }
    ItemList > .items--gained { color: $right; text-style: bold; }
    ItemList > .items--lost { color: $wrong; text-style: bold; }
    ItemList > .items--cursor { text-style: reverse; }
    """
    BINDINGS = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "step(-1000000000)", show=False),
        Binding("end", "step(1000000000)", show=False),
    ]

    cursor: var[int] = var(0)

    class Moved(Message):
        """The cursor is on another line."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ItemList.Moved)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._count = 0
        self._words: Words | None = None
        self._nothing = ""

    def show(self, count: int, words: Words, cursor: int = 0, nothing: str = "") -> None:
        """Show other lines; ``nothing`` is said where there are none."""
        self._count, self._words, self._nothing = count, words, nothing
        self.virtual_size = Size(0, count)
        self.set_reactive(ItemList.cursor, max(0, min(cursor, count - 1)))
        self._reveal()
        self.refresh()

    def go(self, line: int) -> None:
        """Put the cursor on a line; outside the list on its first or last one."""
        self.cursor = max(0, min(line, self._count - 1))

    def action_step(self, by: int) -> None:
        self.go(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.go(self.cursor + by * max(1, self.scrollable_content_region.height - 1))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < self._count:
            self.go(offset.y + self.scroll_offset.y)

    def watch_cursor(self) -> None:
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, max(1, self.scrollable_content_region.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        line = y + self.scroll_offset.y
        if line >= self._count or self._words is None:
            words = self._nothing if y == 0 and not self._count else ""
            return Strip([Segment(words, style)]).adjust_cell_length(width, style)
        head, rest, look = self._words(line, width)
        head_style = style
        if look is not None:
            head_style += self.get_component_rich_style(f"items--{look}", partial=True)
        if line == self.cursor:
            chosen = self.get_component_rich_style("items--cursor", partial=True)
            style, head_style = style + chosen, head_style + chosen
        segments = [Segment(head, head_style), Segment(rest, style)]
        return Strip(segments).adjust_cell_length(width, style)
