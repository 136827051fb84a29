"""One chart: title, legend with values, and curves.

In: a ``Picture`` and the readings of its curves.  Out: braille curves with a letter at each one's
end, so that they can be told apart without colour.  Neighbours: ``curves`` makes pictures,
``chart_grid`` arranges charts.  Drawn by textual-plot, and only when the picture has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from maporl_tui.drawing.charts import TONES
from maporl_tui.drawing.curves import Picture, Reading
from maporl_tui.drawing.text import amount, one_line
from maporl_tui.screens.dashboard.plot import Plot

_MARK = "◆"


class Chart(Vertical):
    """One chart of the grid; ``style_of`` gives the style of a tone."""

    DEFAULT_CSS = """
    Chart { height: 1fr; width: 1fr; padding: 0 1 0 0; }
    Chart > Static { height: 2; text-wrap: nowrap; text-overflow: ellipsis; }
    Chart.-large > Static { height: auto; max-height: 5; text-wrap: wrap; }
    Chart > Plot { height: 1fr; }
    """

    class Chosen(Message):
        """Somebody clicked on the chart."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

    def __init__(self, style_of: Callable[[int], str]) -> None:
        super().__init__()
        self._style_of = style_of
        self._caption = Static(markup=False)
        self._plot = Plot()
        self._written = Content("")
        self._picture: Picture | None = None
        self._line_at: float | None = None
        self._drawn: tuple[object, ...] = ()
        self._large = False
        self._again: Callable[[], None] | None = None

    def compose(self) -> ComposeResult:
        yield self._caption
        yield self._plot

    def on_mount(self) -> None:
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        """The caption is as wide as the chart: write it anew."""
        if self._again is not None:
            self._again()

    def show(
        self,
        picture: Picture,
        readings: Sequence[Reading],
        crosshair: int | None = None,
        line: bool = False,
        selected: bool = False,
        large: bool = False,
    ) -> None:
        """Show a picture, with the values of ``readings`` in the legend.

        ``crosshair`` is the step they were taken at; ``line``: it is drawn too.
        """
        self._again = partial(self.show, picture, readings, crosshair, line, selected, large)
        self.set_class(large, "-large")
        title = " · ".join([("▶ " if selected else "  ") + picture.spec.title, *picture.notes])
        caption = Content.assemble(
            (title.ljust(self.size.width), "bold $background on $primary" if selected else "bold"),
            "\n",
            self._legend_of(picture, readings, crosshair),
        )
        if caption != self._written:
            self._written = caption
            self._caption.update(caption, layout=large or self._large)
        self._large = large
        self._picture = picture
        self._line_at = _middle(readings, crosshair) if crosshair is not None and line else None
        self.draw()

    def draw(self) -> None:
        """Draw the curves if they or their colours have changed."""
        if self._picture is None or not self._plot.is_mounted:
            return
        styles = {tone: self._style_of(tone) for tone in range(1, TONES + 1)}
        drawn = (self._picture, self._line_at, tuple(styles.values()))
        if drawn != self._drawn:
            self._drawn = drawn
            self._plot.draw(self._picture, styles.__getitem__, self._line_at)

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Chosen(self))

    def _legend_of(
        self, picture: Picture, readings: Sequence[Reading], crosshair: int | None
    ) -> Content:
        width = self.size.width - 1
        begin = "" if crosshair is None else f"{_where(readings, crosshair)}  "
        wide = [
            (r, f"{r.spec.key} {one_line(r.spec.label, 24)} {amount(r.value)}") for r in readings
        ]
        short = [(r, f"{r.spec.key} {amount(r.value)}") for r in readings]
        fits = len(begin) + sum(len(text) + 2 for _, text in wide) <= width
        pieces = wide if fits or self.has_class("-large") else short
        parts: list[Content | str | tuple[str, str]] = [(begin, "bold")] if begin else []
        for reading, text in pieces:
            parts += [(text, f"${_variable(reading.spec.tone)}"), "  "]
        if any(points for _, points in picture.marks):
            parts.append((f"{_MARK} held-out", "$text-muted"))
        if picture.empty:
            parts.append(("no values", "$text-muted"))
        return Content.assemble(*parts)


def _variable(tone: int) -> str:
    return {7: "foreground", 8: "text-muted"}.get(tone, f"agent-{tone}")


def _covering(readings: Sequence[Reading], crosshair: int) -> tuple[int, int]:
    found = [r for r in readings if r.value is not None]
    return (
        min((r.first for r in found), default=crosshair),
        max((r.last for r in found), default=crosshair),
    )


def _middle(readings: Sequence[Reading], crosshair: int) -> float:
    first, last = _covering(readings, crosshair)
    return (first + last) / 2


def _where(readings: Sequence[Reading], crosshair: int) -> str:
    """Which steps the values are of: one, or the mean over several."""
    first, last = _covering(readings, crosshair)
    return f"step {first}" if first == last else f"steps {first}–{last}"
