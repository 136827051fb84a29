"""Marks on the axes of a chart: round numbers, few enough to be read.

In: the range of an axis and how many marks have room.  Out: (position, label) pairs.  Pure.
Neighbours: ``charts`` makes the ranges, ``widgets.chart`` draws the marks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Ticks = tuple[tuple[float, str], ...]


def interval(span: float, count: int) -> float:
    """The smallest of 1, 2, 5 times a power of ten that cuts ``span`` into at most ``count``."""
    if not (math.isfinite(span) and span > 0):
        return 1.0
    least = span / max(1, count)
    power = math.floor(math.log10(least))
    for factor in (1.0, 2.0, 5.0, 10.0):
        found = factor * 10.0**power
        if found >= least * (1 - 1e-9):
            return found
    return 10.0 ** (power + 1)


def step_ticks(low: float, high: float, width: int) -> Ticks:
    """Whole steps, as many as fit below a chart of ``width`` cells without touching."""
    longest = len(str(int(max(abs(low), abs(high), 1))))
    gap = max(1, round(interval(high - low, max(1, width // (longest + 3)))))
    start = math.ceil(low / gap)
    return tuple((float(k * gap), str(k * gap)) for k in range(start, math.floor(high / gap) + 1))


def value_ticks(low: float, high: float, count: int) -> Ticks:
    """Round values within the range."""
    gap = interval(high - low, count)
    first, last = math.ceil(low / gap - 1e-9), math.floor(high / gap + 1e-9)
    values = [k * gap for k in range(first, min(last, first + 50) + 1)]
    found: dict[str, float] = {}  # of marks that would read alike, only the first
    for value, label in zip(values, labels(values, gap), strict=True):
        found.setdefault(label, value)
    return tuple((value, label) for label, value in found.items())


def log_ticks(low: float, high: float, count: int) -> Ticks:
    """Powers of ten within the range (ends and positions as logarithms), round values where few."""
    decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(decades) >= 2:
        every = math.ceil(len(decades) / max(1, count))
        return tuple((float(d), _short(10.0**d)) for d in decades[::every])
    found = value_ticks(10.0**low, 10.0**high, count)
    return tuple((math.log10(value), label) for value, label in found if value > 0)


def labels(values: Sequence[float], gap: float) -> list[str]:
    """Labels of at most six cells, all with the same number of decimals where they have some."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest >= 1e4 or (largest and gap < 1e-3):
        return [_short(value) for value in values]
    decimals = max(0, -math.floor(math.log10(gap) + 1e-9))
    return [f"{value + 0.0:.{decimals}f}" for value in values]


def _short(value: float) -> str:
    """At most six cells: 0.02, 31k, 1.5M, 2e-5."""
    if value == 0:
        return "0"
    size = abs(value)
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if limit <= size < 1e12:
            unit = 1e3 if suffix == "k" else limit
            return f"{value / unit:.3g}{suffix}"
    if 1e-3 <= size < 1e4:
        return f"{value:.3g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
