"""A window over many lines of which only those on the screen are drawn, with a bar of its own.

In: lines, one at a time, from what is derived from it.  Out: rows of a screen, the bar beside them.
Neighbours: texts, messages, lists and tables.

Textual's own scrollbars are widgets: one more for each window to arrange and draw, and each of them
is drawn once more after every layout.  Here the bar is the last column of what is drawn anyway, and
another number of lines is no reason to arrange the screen anew.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.events import MouseDown, MouseMove, MouseUp
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

BAR = 1
"""Cells that the bar takes at the right edge, also where there is nothing to scroll."""


class LineView(ScrollView, can_focus=True):
    """Lines 0 … count − 1 below ``fixed`` lines that do not scroll."""

    DEFAULT_CSS = "LineView { overflow-x: hidden; overflow-y: scroll; scrollbar-size: 0 0; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.fixed = 0
        self._bar: list[Segment] = []
        self._style = Style()
        self._grip: tuple[int, float] | None = None

    def draw_line(self, y: int, width: int, style: Style) -> Strip:
        """Line ``y`` of the window, the fixed ones come first; cut at ``width`` cells or filled."""
        raise NotImplementedError

    @property
    def room(self) -> int:
        """Cells that a line may take."""
        return max(0, self.size.width - BAR)

    @property
    def page(self) -> int:
        """Lines that can be seen at a time, without the fixed ones."""
        return max(1, self.size.height - self.fixed)

    @property
    def allow_vertical_scroll(self) -> bool:
        return super().allow_vertical_scroll and self.scrolls

    @property
    def scrolls(self) -> bool:
        """Whether there is more than can be seen, and room to see it."""
        return self.max_scroll_y > 0 and self.size.height > self.fixed

    def set_count(self, count: int, width: int = 0) -> None:
        """How many lines there are, and how wide the widest is where that is of interest."""
        size = Size(width, count + self.fixed)
        if size != self.virtual_size:
            self.set_reactive(LineView.virtual_size, size)
            self._lines_changed()

    def _lines_changed(self) -> None:
        """Scroll back into what is there."""
        if self.scroll_y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False)
        self.refresh()

    def reveal_line(self, line: int) -> None:
        """Scroll so far that a line can be seen."""
        top = self.scroll_offset.y
        if line < top:
            self.scroll_to(y=line, animate=False)
        elif line >= top + self.page:
            self.scroll_to(y=line - self.page + 1, animate=False)

    def scroll_page_up(self, **options: object) -> None:
        self.scroll_to(y=self.scroll_y - self.page, **options)  # type: ignore[arg-type]

    def scroll_page_down(self, **options: object) -> None:
        self.scroll_to(y=self.scroll_y + self.page, **options)  # type: ignore[arg-type]

    # Drawing ----------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        # Once for all lines: it walks up the tree to blend backgrounds.
        self._style = self.rich_style
        self._bar = self._drawn_bar() if self.scrolls else []
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, style = self.room, self._style
        strip = self.draw_line(y, width, style)
        if y >= len(self._bar):
            return strip.adjust_cell_length(self.size.width, style)
        return Strip([*strip.adjust_cell_length(width, style), self._bar[y]], width + BAR)

    def _drawn_bar(self) -> list[Segment]:
        styles, height = self.styles, self.size.height
        back = self.background_colors[0] + styles.scrollbar_background
        bar = ScrollBarRender.render_bar(
            size=height,
            virtual_size=self.virtual_size.height,
            window_size=height,
            position=self.scroll_y,
            thickness=BAR,
            back_color=back.rich_color,
            bar_color=(back + styles.scrollbar_color).rich_color,
        )
        # Its pieces carry what a click does to Textual's own bar.
        return [
            Segment(piece.text, piece.style.clear_meta_and_links() if piece.style else None)
            for piece in bar.segments
        ]

    # The mouse on the bar ---------------------------------------------------------------------

    def on_mouse_down(self, event: MouseDown) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.x < self.room or not self.scrolls:
            return
        event.stop()
        height = self.size.height
        begin = self.scroll_y / self.virtual_size.height * height
        if begin - 1 < offset.y < begin + height * height / self.virtual_size.height:
            self._grip = (event.screen_y, self.scroll_y)
            self.capture_mouse()
        elif offset.y < begin:
            self.scroll_page_up(animate=False)
        else:
            self.scroll_page_down(animate=False)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._grip is not None:
            row, top = self._grip
            lines = (event.screen_y - row) * self.virtual_size.height / max(1, self.size.height)
            self.scroll_to(y=top + lines, animate=False)

    def on_mouse_up(self, event: MouseUp) -> None:
        if self._grip is not None:
            event.stop()
            self._grip = None
            self.release_mouse()
