"""A drawing made of characters, as large as the room it has.

In: a function from (columns, lines) to rows of (text, look) pieces.  Out: the drawing in the
theme's colours, made anew only when its size, its theme or itself changes.  Neighbours: ``bars``
makes such rows, the Rewards screen shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from maporl_tui.drawing.bars import Rows

TONES = (*("primary", "secondary", "accent", "foreground", "success", "warning", "error", "error"),)
"""Theme variables of reward parts, by their place; those of more parts are the same again."""


def theme_style(app: App[object], variable: str) -> Style:
    """The colour of a theme variable as a Rich style; no colour where it has none of its own."""
    try:
        return Style(color=Color.parse(app.theme_variables[variable]).rich_color)
    except (KeyError, ColorParseError):
        return Style.null()


def look_style(app: App[object], look: str, parts: Sequence[str]) -> Style:
    """The style of one look: a part, "right", "wrong" or "axis"; looks after "-" are faint."""
    if look == "axis":
        return Style(dim=True)
    name = look.removeprefix("-")
    variable = TONES[parts.index(name) % len(TONES)] if name in parts else name
    style = theme_style(app, variable)
    return style + Style(dim=True) if look.startswith("-") else style


class Painted(Widget):
    """One drawing."""

    DEFAULT_CSS = "Painted { height: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make: Callable[[int, int], Rows] | None = None
        self._strips: list[Strip] | None = None
        self._style = Style()
        self._parts: tuple[str, ...] = ()

    def show(self, make: Callable[[int, int], Rows], parts: Sequence[str] = ()) -> None:
        """Draw what ``make`` gives for the present size; ``parts`` are looks with a tone each."""
        self._make, self._parts = make, tuple(parts)
        self._forget()

    def on_resize(self) -> None:
        self._forget()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget()

    def _forget(self) -> None:
        self._strips = None
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        # Once for all lines: it walks up the tree to blend backgrounds.
        self._style = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self._style
        if self._strips is None:
            self._strips = self._drawn(width, self.size.height, style)
        if y >= len(self._strips):
            return Strip.blank(width, style)
        return self._strips[y].adjust_cell_length(width, style)

    def _drawn(self, width: int, height: int, style: Style) -> list[Strip]:
        looks: dict[str, Style] = {}

        def look_of(look: str) -> Style:
            if look not in looks:
                looks[look] = style + look_style(self.app, look, self._parts)
            return looks[look]

        rows = [] if self._make is None else self._make(width, height)
        return [Strip([Segment(text, look_of(look)) for text, look in pieces]) for pieces in rows]
