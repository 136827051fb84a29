"""How long all charts of a run take: for measuring, on any run and without a screen.

In: a run's folder, the size of a chart.  Out: seconds.  Neighbours: ``charts``, ``curves`` and
``braille`` do here what they do on the Dashboard; what Textual adds is not in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from maporl_core.store.reader import RunDir, StoreReader
from maporl_tui.drawing.braille import braille_cells
from maporl_tui.drawing.charts import charts_of
from maporl_tui.drawing.curves import Look, picture


@dataclass(frozen=True, slots=True)
class ChartCost:
    """What was drawn, and the seconds that reading and drawing took."""

    charts: int
    curves: int
    read: float
    drawn: float


def chart_cost(run: RunDir, width: int = 30, height: int = 8) -> ChartCost:
    """Read and draw every chart of ``run`` once, each ``width`` × ``height`` cells of curves.

    Raises StoreError when the run cannot be read.
    """
    with StoreReader(run) as reader:
        names, last = reader.metric_names(), reader.status().step
        specs = charts_of(names, declared=[part.name for part in reader.reward_parts()])
        metrics = dict.fromkeys(one.metric for spec in specs for one in spec.series)
        start = time.perf_counter()
        series = {name: reader.series(name, 2 * width) for name in metrics}
        middle = time.perf_counter()
    curves = 0
    for spec in specs:
        found = picture(spec, series, Look(), (1, max(1, last)))
        (left, right), (low, high) = found.x_range, found.y_range
        for line in found.lines:
            curves += 1
            for piece in line.raw:
                xs = [(x - left) / (right - left) * width for x, _ in piece]
                ys = [(high - y) / (high - low) * height for _, y in piece]
                for _ in braille_cells(xs, ys, width, height):
                    pass
    return ChartCost(len(specs), curves, middle - start, time.perf_counter() - middle)
