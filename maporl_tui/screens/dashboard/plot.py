"""A plot of curves as braille dots, on textual-plot's widget.

In: a ``Picture`` of pieces of curves.  Out: a canvas with marks on its axes.  Neighbours: ``chart``
adds the title, the legend and the crosshair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rich.style import Style
from textual.app import ComposeResult
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual_hires_canvas import Canvas
from textual_plot import AxisFormatter, HiResMode, PlotWidget
from textual_plot.plot_widget import LinePlot, ScatterPlot

from maporl_tui.drawing.braille import braille_cells
from maporl_tui.drawing.charts import TONES
from maporl_tui.drawing.curves import Picture, Points
from maporl_tui.drawing.ticks import Ticks, log_ticks, step_ticks, value_ticks

_MARK = "◆"
_AXIS_STYLES = ("plot--axis", "plot--tick")
_LEAST = (10, 4)
"""Cells (width, height) below which nothing but the title is drawn."""


class _Axis(AxisFormatter):
    """Ticks by one of this app's own rules."""

    def __init__(self, make: Callable[[float, float], Ticks]) -> None:
        self._make = make
        self._labels: dict[float, str] = {}

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        del max_ticks  # the rule knows how much room there is
        self._labels = dict(self._make(min_, max_))
        return list(self._labels)

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [self._labels.get(tick, "") for tick in ticks]


class _Canvas(Canvas):
    """A canvas all of whose cells have a style, before its first picture too: Textual's filter for
    ``NO_COLOR`` stops at a piece that has none."""

    def __init__(self, id: str) -> None:
        super().__init__(1, 1, id=id)
        self._base: Style | None = None

    @property
    def rich_style(self) -> Style:
        return super().rich_style if self._base is None else self._base

    def render_lines(self, crop: Region) -> list[Strip]:
        # Once for all lines: it walks up the tree to blend backgrounds.
        self._base = super().rich_style
        try:
            return super().render_lines(crop)
        finally:
            self._base = None

    def render_line(self, y: int) -> Strip:
        styled = Strip([segment for segment in super().render_line(y) if segment.text])
        return styled.adjust_cell_length(self.size.width, self.rich_style)


class Plot(PlotWidget, can_focus=False, inherit_bindings=False):
    """textual-plot's widget, its margins kept small; the keyboard is the dashboard's own."""

    margin_top = reactive(0)
    margin_bottom = reactive(1)
    margin_left = reactive(7)
    DEFAULT_CSS = """
    Plot { layout: grid; grid-size: 2 2; grid-columns: 7 1fr; grid-rows: 1fr 1; }
    Plot #margin-bottom { column-span: 2; }
    Plot > .plot--axis { color: $surface-lighten-3; }
    Plot > .plot--tick { color: $text-muted; text-style: none; }
    """

    def __init__(self) -> None:
        super().__init__(allow_pan_and_zoom=False)
        self._log = False
        self._looks: tuple[str, ...] = ()
        self._canvases = {name: _Canvas(name) for name in ("margin-left", "plot", "margin-bottom")}
        self.set_x_formatter(_Axis(self._x_marks))
        self.set_y_formatter(_Axis(self._y_marks))

    def compose(self) -> ComposeResult:
        yield from self._canvases.values()

    def notify_style_update(self) -> None:
        Widget.notify_style_update(self)
        self.call_later(self._look_again)

    def _look_again(self) -> None:
        # Textual looks up all styles again whenever a screen is shown; textual-plot would draw all
        # curves again for it.
        looks = tuple(str(self.get_component_rich_style(name)) for name in _AXIS_STYLES)
        if looks != self._looks:
            self._looks = looks
            PlotWidget.notify_style_update(self)

    # Charts have their titles and legends outside the curves; what textual-plot would draw for
    # them is left out, and with it half of its widgets.

    def _update_margin_sizes(self) -> None: ...

    def _update_legend(self) -> None: ...

    def _position_legend(self) -> None: ...

    def _render_x_label(self) -> None: ...

    def _render_y_label(self) -> None: ...

    def _x_marks(self, low: float, high: float) -> Ticks:
        return step_ticks(low, high, self._scale_rectangle.width)

    def _y_marks(self, low: float, high: float) -> Ticks:
        make = log_ticks if self._log else value_ticks
        return make(low, high, max(3, self._scale_rectangle.height // 2))

    def draw(self, picture: Picture, style_of: Callable[[int], str], line_at: float | None) -> None:
        """Draw ``picture``; ``style_of`` gives a tone's style, ``line_at`` the crosshair's step."""
        self._log = picture.log
        self.clear()
        self.set_xlimits(*picture.x_range)
        self.set_ylimits(*picture.y_range)
        for line in picture.lines:
            style = style_of(line.spec.tone)
            self._draw_pieces(line.raw, f"{style} dim" if line.smooth else style)
            self._draw_pieces(line.smooth, style)
        for spec, points in picture.marks:
            if points:
                self.scatter(*_split(points), marker=_MARK, marker_style=style_of(spec.tone))
        for line in picture.lines:
            if line.end is not None:
                style = f"{style_of(line.spec.tone)} bold"
                self.scatter(*_split((line.end,)), marker=line.spec.key, marker_style=style)
        if line_at is not None:
            self.add_v_line(line_at, style_of(TONES))
        # At once: when it is drawn, its canvases would be drawn a second time after it.
        self.render()

    def _draw_pieces(self, pieces: Sequence[Points], style: str) -> None:
        for piece in pieces:
            self.plot(*_split(piece), line_style=style, hires_mode=HiResMode.BRAILLE)

    def _render_plot(self) -> None:
        with ExitStack() as stack:
            for canvas in self._canvases.values():  # one repaint, not one per cell
                stack.enter_context(canvas.batch_refresh())
            size = self._canvases["plot"].size
            if size.width < _LEAST[0] or size.height < _LEAST[1]:
                for canvas in self._canvases.values():
                    canvas.reset()
            else:
                super()._render_plot()

    def _render_line_plot(self, dataset: LinePlot) -> None:
        # textual-plot goes from dot to dot in Python; a screen of charts would take too long.
        xs, ys = self.get_hires_pixel_from_coordinate(dataset.x, dataset.y)  # type: ignore[arg-type]
        canvas = self._canvases["plot"]
        width, height = canvas.size
        for x, y, char in braille_cells(xs, ys, width, height):  # type: ignore[arg-type]
            canvas.set_pixel(x, y, char, dataset.line_style)

    def _render_scatter_plot(self, dataset: ScatterPlot) -> None:
        for x, y in zip(dataset.x.tolist(), dataset.y.tolist(), strict=True):
            column, row = self.get_pixel_from_coordinate(x, y)
            self._canvases["plot"].set_pixel(column, row, dataset.marker, dataset.marker_style)


def _split(points: Points) -> tuple[tuple[float, ...], tuple[float, ...]]:
    xs, ys = zip(*points, strict=True)
    return xs, ys
