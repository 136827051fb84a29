"""What is drawn in a chart: curves cut at gaps, smoothed, on a linear or a log axis.

In: a ``ChartSpec``, decimated ``Series`` of the reader, how to look at them (``Look``).  Out:
``Picture`` with ranges of both axes and notes for the title; ``Reading``: the numbers under the
crosshair.  Pure: no screen, no file.  Neighbours: ``charts`` says which curves there are, ``ticks``
labels the axes, ``widgets.chart`` draws a picture.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mode

from maporl_core.store.reader import Evaluation, Series
from maporl_tui.drawing.charts import ChartSpec, SeriesSpec

SMOOTHINGS = (0.0, 0.6, 0.9)
"""Weights of the running mean that the smoothing key goes through."""


@dataclass(frozen=True, slots=True)
class Look:
    """How all charts are looked at; ``smoothing`` is the weight of the past in a running mean."""

    log: bool = False
    smoothing: float = 0.0


Points = tuple[tuple[float, float], ...]
"""(step, value as drawn: its logarithm to base 10 on a log axis)"""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve as drawn: pieces of it between gaps, raw and smoothed, and its last point."""

    spec: SeriesSpec
    raw: tuple[Points, ...]
    smooth: tuple[Points, ...]
    end: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn in one chart.  Ranges are (low, high), those of y as drawn."""

    spec: ChartSpec
    lines: tuple[Line, ...]
    marks: tuple[tuple[SeriesSpec, Points], ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool
    notes: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not any(line.raw for line in self.lines) and not any(p for _, p in self.marks)


@dataclass(frozen=True, slots=True)
class Reading:
    """One curve's value at a step: the mean over ``first`` … ``last``; None where it has none."""

    spec: SeriesSpec
    value: float | None
    first: int
    last: int


def picture(
    spec: ChartSpec,
    series: Mapping[str, Series],
    look: Look,
    steps: tuple[int, int],
    evaluations: Sequence[Evaluation] = (),
) -> Picture:
    """One chart over the steps ``steps`` (first, last), both included.

    Values that are NaN, infinite or not written are gaps, and counted in the notes; on a log axis
    so are values of 0 and less.
    """
    first, last = steps
    shown = [one for one in spec.series if not (spec.hide_zero and _zero(series.get(one.metric)))]
    lines, missing, left_out = [], 0, 0
    for one in shown:
        data = series.get(one.metric, Series())
        missing += max(0, last - first + 1 - sum(data.counts))
        raw, below = _pieces(data, data.means, look.log)
        left_out += below
        smooth: tuple[Points, ...] = ()
        if look.smoothing:
            smooth, _ = _pieces(data, smoothed(data.means, look.smoothing), look.log)
        end = (smooth or raw)[-1][-1] if raw else None
        lines.append(Line(one, raw, smooth, end))
    marks = tuple(_marks(spec, evaluations, look.log, first, last))
    notes = []
    if missing:
        notes.append(f"{missing} NaN or missing")
    if look.log:
        notes.append(f"log, {left_out} ≤ 0 left out" if left_out else "log")
    if look.smoothing:
        notes.append(f"EMA {look.smoothing:g}")
    # The smooth curve lies within the raw one, so the raw one gives the range.
    ys = [y for line in lines for piece in line.raw for _, y in piece]
    ys += [y for _, points in marks for _, y in points]
    return Picture(
        spec,
        tuple(lines),
        marks,
        _x_range(first, last, any(x < first for _, points in marks for x, _ in points)),
        _y_range(ys),
        look.log,
        tuple(notes),
    )


def smoothed(values: Sequence[float], weight: float) -> tuple[float, ...]:
    """Running mean with ``weight`` on the past, without the pull of its start towards 0.

    s_i = (w · w_sum · s + x) over the same sum of weights: the correction Adam makes too.
    """
    total, weights, found = 0.0, 0.0, []
    for value in values:
        total = weight * total + value
        weights = weight * weights + 1.0
        found.append(total / weights)
    return tuple(found)


def stride(series: Series) -> int:
    """Steps from one point to the next where there is no gap."""
    widest = max(series.counts, default=1)
    if widest == 1 or len(series.steps) < 2:
        return widest
    return max(widest, mode(b - a for a, b in pairwise(series.steps)))


def _zero(series: Series | None) -> bool:
    return series is not None and bool(series.steps) and not any((*series.lows, *series.highs))


def _pieces(series: Series, values: Sequence[float], log: bool) -> tuple[tuple[Points, ...], int]:
    """The curve between its gaps, and how many points have no logarithm."""
    pieces: list[list[tuple[float, float]]] = []
    width, before, below = stride(series), None, 0
    for step, count, value in zip(series.steps, series.counts, values, strict=True):
        if log and value <= 0:
            below += 1
            before = None
            continue
        if before is None or step - before > width:
            pieces.append([])
        pieces[-1].append((step + (count - 1) / 2, math.log10(value) if log else value))
        before = step
    return tuple(tuple(piece) for piece in pieces), below


def _marks(
    spec: ChartSpec, evaluations: Sequence[Evaluation], log: bool, first: int, last: int
) -> Iterable[tuple[SeriesSpec, Points]]:
    """Evaluations made by the trainer; that of the untrained agents stands at step 0."""
    for one in spec.markers:
        turn = int(one.metric.rpartition("_")[2]) - 1
        found = []
        for evaluation in evaluations:
            accuracy = evaluation.summary.accuracy_T
            at_start = evaluation.step == 0 and first == 1
            if evaluation.origin != "run" or turn >= len(accuracy):
                continue
            if not (at_start or first <= evaluation.step <= last):
                continue
            value = accuracy[turn].mean
            if math.isfinite(value) and (value > 0 or not log):
                found.append((float(evaluation.step), math.log10(value) if log else value))
        yield one, tuple(found)


def _x_range(first: int, last: int, with_zero: bool) -> tuple[float, float]:
    room = max(0.5, (last - first) * 0.01)
    return (0.0 if with_zero else first) - room, max(first, last) + room


def _y_range(values: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest value with a little room, never empty."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    room = 0.06 * (high - low)
    if not math.isfinite(room):  # a span beyond the largest number
        return low, high
    if high == low:
        room = 0.05 * abs(high) or 0.5
    room = max(room, 1e-6 * max(abs(low), abs(high)))
    return low - room, high + room


# Under the crosshair -------------------------------------------------------------------------


def places(spec: ChartSpec, series: Mapping[str, Series]) -> tuple[int, ...]:
    """First steps of all points of a chart: where the crosshair can stand."""
    return tuple(sorted({s for one in spec.series for s in series.get(one.metric, Series()).steps}))


def readings(
    spec: ChartSpec, series: Mapping[str, Series], step: int | None
) -> tuple[Reading, ...]:
    """The raw value of every curve at ``step``; None: the last value of each."""
    return tuple(
        _reading(one, series.get(one.metric, Series()), step)
        for one in spec.series
        if not (spec.hide_zero and _zero(series.get(one.metric)))
    )


def _reading(one: SeriesSpec, series: Series, step: int | None) -> Reading:
    if not series.steps:
        return Reading(one, None, step or 0, step or 0)
    index = len(series.steps) - 1 if step is None else bisect_right(series.steps, step) - 1
    first = series.steps[max(0, index)]
    last = first + series.counts[index] - 1
    if step is not None and (index < 0 or step >= first + stride(series)):
        return Reading(one, None, step, step)
    return Reading(one, series.means[index], first, last)
