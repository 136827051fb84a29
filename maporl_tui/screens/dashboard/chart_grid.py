"""As many charts side by side as there is room for; the others are pages away.

In: how many charts there are, which one is chosen.  Out: which ones are visible, and the widgets
that show them.  Neighbours: ``chart`` draws one, ``screens.dashboard_charts`` fills them.
"""

from __future__ import annotations

from textual.containers import Container
from textual.message import Message
from textual.reactive import var

from maporl_tui.drawing.charts import TONES
from maporl_tui.screens.dashboard.chart import Chart

LEAST_WIDTH, LEAST_HEIGHT = 38, 9
"""Cells that a chart needs to be read."""


class ChartGrid(Container, can_focus=True):
    """Charts 0 … count − 1, one of them chosen."""

    COMPONENT_CLASSES = {f"chart--{tone}" for tone in range(1, TONES + 1)}
    DEFAULT_CSS = """
    ChartGrid { layout: grid; height: 1fr; width: 1fr; }
    ChartGrid > .chart--1 { color: $agent-1; }
    ChartGrid > .chart--2 { color: $agent-2; }
    ChartGrid > .chart--3 { color: $agent-3; }
    ChartGrid > .chart--4 { color: $agent-4; }
    ChartGrid > .chart--5 { color: $agent-5; }
    ChartGrid > .chart--6 { color: $agent-6; }
    ChartGrid > .chart--7 { color: $foreground; }
    ChartGrid > .chart--8 { color: $text-muted; }
    """

    count: var[int] = var(0)
    chosen: var[int] = var(0)
    zoomed: var[bool] = var(False)

    class Changed(Message):
        """Other charts are visible, another one is chosen, or they have another size."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ChartGrid.Changed)

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.columns, self.rows = 1, 1
        self._charts: list[Chart] = []

    @property
    def visible_range(self) -> range:
        """Numbers of the charts that can be seen."""
        if self.zoomed:
            return range(self.chosen, min(self.count, self.chosen + 1))
        size = self.columns * self.rows
        first = self.chosen // size * size
        return range(first, min(self.count, first + size))

    @property
    def chart_width(self) -> int:
        """Cells that each visible chart is wide."""
        return self.size.width // (1 if self.zoomed else self.columns)

    def placed(self) -> list[tuple[int, Chart]]:
        """Each visible chart's number and its widget."""
        return list(zip(self.visible_range, self._charts, strict=False))

    def style_of(self, tone: int) -> str:
        """The style of a curve of this tone in the present theme."""
        return str(self.get_component_rich_style(f"chart--{tone}", partial=True))

    def notify_style_update(self) -> None:
        """Another theme: the curves are drawn in its colours."""
        super().notify_style_update()
        for chart in self._charts:
            self.call_later(chart.draw)

    def on_resize(self) -> None:
        self._arrange()

    def watch_count(self) -> None:
        self._arrange()

    def watch_chosen(self) -> None:
        self._arrange()

    def watch_zoomed(self) -> None:
        self._arrange()

    def move(self, columns: int, rows: int) -> None:
        """Choose a neighbour; beyond the edge of a page is the next one."""
        if self.count:
            by = columns + rows * (1 if self.zoomed else self.columns)
            self.chosen = min(self.count - 1, max(0, self.chosen + by))

    def on_chart_chosen(self, message: Chart.Chosen) -> None:
        message.stop()
        self.focus()
        for number, chart in self.placed():
            if chart is message.chart:
                self.chosen = number

    def _arrange(self) -> None:
        width, height = self.size
        if not self.is_mounted or not width:
            return
        columns = max(1, min(width // LEAST_WIDTH, self.count))
        rows = max(1, min(height // LEAST_HEIGHT, -(-self.count // columns)))
        if not self.zoomed:
            self.columns, self.rows = columns, rows
        across, down = (1, 1) if self.zoomed else (columns, rows)
        if (self.styles.grid_size_columns, self.styles.grid_size_rows) != (across, down):
            self.styles.grid_size_columns, self.styles.grid_size_rows = across, down
        seen = len(self.visible_range)
        missing = [Chart(self.style_of) for _ in range(seen - len(self._charts))]
        if missing:
            self._charts += missing
            self.mount(*missing)
        for place, chart in enumerate(self._charts):
            chart.display = place < seen
        self.post_message(self.Changed())
