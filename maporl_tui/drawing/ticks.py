"""Marks on the axes of a chart: round numbers, few enough to be read.

In: the range of an axis and how many marks have room.  Out: (position, label) pairs.  Pure.
Neighbours: ``charts`` makes the ranges, ``widgets.chart`` draws the marks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_CELLS = 6
"""The longest label that a chart's margin holds."""

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
    """Labels of at most six cells, all with the same number of decimals where these fit."""
    decimals = max(0, -math.floor(math.log10(gap) + 1e-9))
    if decimals <= 6:
        same = [f"{value + 0.0:.{decimals}f}" for value in values]
        if all(len(label) <= _CELLS and abs(float(label)) < 1e4 for label in same):
            return same
    return [_short(value) for value in values]


def _short(value: float) -> str:
    """A number in at most six cells: 0.02, 31k, 1.5M, 2e-5."""
    size = abs(value)
    for limit, unit, suffix in ((999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (9999.5, 1e3, "k")):
        if limit <= size < 999.5e9:
            return f"{value / unit:.3g}{suffix}"
    text = f"{value:.4g}" if 1e-3 <= size < 1e4 or value == 0 else ""
    for digits in (1, 0):
        if 0 < len(text) <= _CELLS:
            break
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return text
