"""Bars of reward parts as rows of characters: parts stacked over steps, and a histogram.

In: means per step, or the values of many messages.  Out: rows of (text, look) pieces, at most as
wide and high as asked.  Pure.  Neighbours: the Rewards screen reads the values, ``widgets.painted``
gives every look its colour.

Each part has a character of its own, so that a stack can be read without colours.  textual-plot's
bars are filled by colour alone, start at zero and cannot be stacked, hence these.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Piece = tuple[str, str]
"""(text, look): a part's name, the same after "-" for faint, "right", "wrong" or "axis"."""
Rows = list[list[Piece]]

GLYPHS = "█▓▒░#+x/o%=*"
"""Characters of parts in their order; those of more parts are the same again."""
_MARGIN = 7
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MOST_BINS = 30


@dataclass(frozen=True, slots=True)
class Point:
    """Mean of every part per message over some steps from ``step`` on."""

    step: int
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How the values of one part are spread; ``counts[k]`` lie in [(first + k), +1) × ``width``.

    Exact zeros are no bar where most values are 0 (``zeros_apart``): nothing else could be seen.
    """

    count: int = 0
    mean: float = math.nan
    median: float = math.nan
    positive: float = 0.0  # share
    negative: float = 0.0
    first: int = 0
    width: float = 1.0
    counts: tuple[int, ...] = ()
    zeros_apart: bool = False


def spread(values: Sequence[float]) -> Histogram:
    """The histogram of the finite ones of ``values``."""
    every = np.asarray(values, dtype=float)
    finite = every[np.isfinite(every)]
    count = len(finite)
    if not count:
        return Histogram()
    others = finite[finite != 0.0]
    drawn = others if 2 * (count - len(others)) > count else finite
    first, width, counts = _bins(drawn)
    return Histogram(
        count=count,
        mean=math.fsum(finite.tolist()) / count,
        median=float(np.median(finite)),
        positive=int(np.count_nonzero(finite > 0)) / count,
        negative=int(np.count_nonzero(finite < 0)) / count,
        first=first,
        width=width,
        counts=counts,
        zeros_apart=len(drawn) < count,
    )


def _bins(values: np.ndarray) -> tuple[int, float, tuple[int, ...]]:
    """(first bin, width, counts): edges are multiples of a round width, so that 0 is one."""
    if not len(values):
        return 0, 1.0, ()
    width = _round_width(float(values.max() - values.min()))
    places = np.floor(values / width + 1e-9).astype(np.int64)
    first = int(places.min())
    return first, width, tuple(np.bincount(places - first).tolist())


def _round_width(span: float) -> float:
    """1, 2 or 5 times a power of ten that cuts ``span`` into at most ``_MOST_BINS`` pieces."""
    if span <= 0:
        return 0.1
    least = span / (_MOST_BINS - 1)
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= least * (1 - 1e-9))


def histogram_rows(found: Histogram, columns: int, lines: int) -> Rows:
    """Bars of a histogram over an axis of values; empty when there is no room or nothing to draw.

    Bars left of zero have the look "wrong", the others "right".
    """
    room, height = columns - _MARGIN, lines - 1
    if room < 4 or height < 1 or not found.counts:
        return []
    together = math.ceil(len(found.counts) / room)
    start = found.first - found.first % together  # 0 stays an edge
    padded = [0] * (found.first - start) + list(found.counts)
    bars = [sum(padded[k : k + together]) for k in range(0, len(padded), together)]
    bars = bars[:room]
    each = max(1, min(6, room // len(bars)))
    most = max(bars) or 1
    rows: Rows = []
    for row in range(height):
        label = f"{most:,}" if row == 0 else ""
        pieces: list[Piece] = [(f"{label:>{_MARGIN - 1}}│"[-_MARGIN:], "axis")]
        for k, count in enumerate(bars):
            eighths = max(round(8 * height * count / most), 1 if count else 0)
            glyph = _EIGHTHS[min(8, max(0, eighths - 8 * (height - 1 - row)))]
            negative = start + k * together < 0
            pieces.append((glyph * each, "wrong" if negative else "right"))
        rows.append(pieces)
    low, high = start * found.width, (start + len(bars) * together) * found.width
    zero = -start // together * each if start < 0 < start + len(bars) * together else None
    rows.append([(" " * _MARGIN + _axis(low, high, zero, each * len(bars), room), "axis")])
    return rows


def _axis(low: float, high: float, zero: int | None, width: int, room: int) -> str:
    """The ends of the axis below a histogram, and where 0 is if that has room."""
    left, right = f"{low:.3g}", f"{high:.3g}"
    line = left + " " * max(1, width - len(left) - len(right)) + right
    if zero is not None and len(left) < zero < width - len(right) - 1:
        line = line[:zero] + "0" + line[zero + 1 :]
    return line[:room]


def glyph(name: str, parts: Sequence[str]) -> str:
    """The character of a part, by its place among them."""
    return GLYPHS[parts.index(name) % len(GLYPHS)]


def stack_rows(
    points: Sequence[Point], parts: Sequence[str], chosen: str, columns: int, lines: int
) -> Rows:
    """Means of all ``parts`` as stacked bars, negative ones below zero; one bar per point.

    A ``chosen`` part lies next to zero and the others are faint; "total" chooses none.
    """
    room, height = columns - _MARGIN, lines - 1
    if room < 4 or height < 2 or not points:
        return []
    order = sorted(parts, key=lambda name: name != chosen)
    first, last = f"{points[0].step}", f"{points[-1].step}"
    points = _merged(points, math.ceil(len(points) / room), parts)
    tops = [sum(max(0.0, _of(point, name)) for name in order) for point in points]
    floors = [sum(min(0.0, _of(point, name)) for name in order) for point in points]
    high, low = max(0.0, *tops), min(0.0, *floors)
    if high == low:
        high = 1.0
    each = max(1, min(8, room // len(points)))
    gap = 1 if each > 2 else 0
    unit = (high - low) / height
    zero_row = min(height - 1, int(high / unit)) if low < 0 else None
    rows: Rows = []
    for row in range(height):
        value = high - (row + 0.5) * unit
        label = f"{high:.2f}" if row == 0 else _end(low) if row == height - 1 else ""
        if row == zero_row and not label:
            label = "0"
        pieces: list[Piece] = [(f"{label:>{_MARGIN - 1}}│"[-_MARGIN:], "axis")]
        for point in points:
            name = _part_at(point, order, value)
            if name is None:
                pieces.append((" " * each, "axis"))
                continue
            look = name if chosen in ("total", name) else f"-{name}"
            pieces.append((glyph(name, parts) * (each - gap) + " " * gap, look))
        rows.append(pieces)
    width = each * len(points) - gap
    between = " " * max(1, width - len(first) - len(last))
    steps = f"{first}{between}{last}" if len(points) > 1 else first
    rows.append([("  step ", "axis"), (steps[:room], "axis")])
    return rows


def _end(value: float) -> str:
    """A label of the axis; penalties too small to print are no "-0.00"."""
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _merged(points: Sequence[Point], together: int, parts: Sequence[str]) -> Sequence[Point]:
    """Means of so many neighbours each."""
    if together == 1:
        return points
    groups = [points[k : k + together] for k in range(0, len(points), together)]
    return [
        Point(
            group[0].step,
            {name: statistics.fmean(_of(p, name) for p in group) for name in parts},
        )
        for group in groups
    ]


def _of(point: Point, name: str) -> float:
    value = point.means.get(name, 0.0)
    return value if math.isfinite(value) else 0.0


def _part_at(point: Point, order: Sequence[str], value: float) -> str | None:
    """The part whose piece of the stack covers ``value``; None beyond the stack."""
    reached = 0.0
    for name in order:
        piece = _of(point, name)
        if piece * value <= 0:
            continue
        reached += piece
        if abs(value) <= abs(reached):
            return name
    return None


def legend(points: Sequence[Point], parts: Sequence[str]) -> list[tuple[str, str]]:
    """(text, part) of every part that is not 0 somewhere, with its last mean."""
    found = []
    for name in parts:
        if any(_of(point, name) for point in points):
            value = _of(points[-1], name)
            number = f"{value:+.3f}" if not value or abs(value) >= 5e-4 else f"{value:+.1e}"
            found.append((f"{glyph(name, parts)} {name} {number}".replace("-", "−"), name))
    return found


def stack_and_legend(
    points: Sequence[Point], parts: Sequence[str], chosen: str, columns: int, lines: int
) -> Rows:
    """``stack_rows`` below its legend, where both have room."""
    rows: Rows = []
    used = columns
    entries = [("mean per message, by step:", "axis"), *legend(points, parts)] if points else []
    for text, name in entries:
        if used + len(text) + 2 > columns:
            rows.append([])
            used = 0
        rows[-1].append((f" {text} ", name))
        used += len(text) + 2
    if len(rows) > lines // 2 or any(len(text) + 2 > columns for text, _ in entries):
        rows = []
    return rows + stack_rows(points, parts, chosen, columns, lines - len(rows))
