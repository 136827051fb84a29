"""The reliability diagram of a verifier as text: how right it is where it says how sure it is.

In: the bins of a verifier's card, and a console.  Out: lines that need no colour; fewer columns
where the terminal is narrow, ASCII where its encoding has nothing else.  Neighbours:
``verifier_card`` prints it between tables, ``verifier.pages`` draws the same as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from maporl_core.judging.verifier.calibration import Bin

ROWS = 11  # one for each tenth of share right, 0 and 1 included
BARS = 3  # lines of the bars
COLUMNS = 6  # of one bin, where there is room
FEW = 10
"""Answers below which a bin's share right is mostly chance: a hollow point."""
MARGIN = 6  # left of the plot: "0.8 ┤ "
_OVER = 2  # the last number of the scale stands out over the plot
_NAMES = 9  # right of the plot: what the numbers are, where there is room
_LEAST_FOR_COUNTS = 4


@dataclass(frozen=True, slots=True)
class _Signs:
    point: str
    hollow: str
    ideal: str
    tick: str
    line: str
    corner: str
    floor: str
    blocks: str  # of a bar, from an eighth to whole


_UNICODE = _Signs("●", "○", "·", "┤", "│", "└", "─", "▁▂▃▄▅▆▇█")
_ASCII = _Signs("@", "o", ".", "+", "|", "+", "-", "_____###")


def reliability_lines(
    bins: Sequence[Bin], width: int, ascii_only: bool = False, count: int = 10
) -> list[Text]:
    """Lines of the plot for bins of equal width 1/``count``; empty bins may be left out.

    A point stands over the mean score of its bin at the height of the share right.  Points on the
    dotted diagonal are calibrated, above it the verifier says too little, below too much.  Bars
    below are the number of answers, on a linear scale; no bin with answers is without a bar.
    """
    signs = _ASCII if ascii_only else _UNICODE
    wide = min(COLUMNS, max(1, (width - MARGIN - _OVER) // count))
    names = width >= MARGIN + wide * count + _NAMES
    body = [
        *_field(bins, wide * count, signs),
        _floor(wide * count, signs),
        _scale(wide, count, names),
        *_bars(bins, wide, count, signs),
    ]
    if wide >= _LEAST_FOR_COUNTS:
        body.append(_counts(bins, wide, count, names))
    legend = (
        f"{signs.point} share right at a mean score, {signs.hollow} of fewer than {FEW} answers   "
        f"{signs.ideal} calibrated"
    )
    return [Text("share right", "dim"), *body, Text(legend, "dim")]


def _field(bins: Sequence[Bin], columns: int, signs: _Signs) -> list[Text]:
    cells = [[" "] * columns for _ in range(ROWS)]
    for column in range(0, columns, 3):
        cells[_row((column + 0.5) / columns)][column] = signs.ideal
    for b in bins:
        column = min(columns - 1, int(b.mean_score * columns))
        cells[_row(b.share_right)][column] = signs.point if b.count >= FEW else signs.hollow
    lines = []
    for row in reversed(range(ROWS)):
        label = f"{row / (ROWS - 1):.1f} {signs.tick} " if row % 2 == 0 else f"    {signs.line} "
        line = Text(label, "dim")
        for sign in "".join(cells[row]).rstrip():
            line.append(sign, "bold cyan" if sign in (signs.point, signs.hollow) else "not dim")
        lines.append(line)
    return lines


def _row(share: float) -> int:
    return round(share * (ROWS - 1))


def _floor(columns: int, signs: _Signs) -> Text:
    return Text(" " * (MARGIN - 2) + signs.corner + signs.floor * (columns + 1), "dim")


def _scale(wide: int, count: int, names: bool) -> Text:
    """Scores under the edges of bins: every second one where that fits, else the ends."""
    every = 2 if wide * 2 >= 4 else count
    line = " " * (MARGIN - 1)
    for edge in range(0, count + 1, every):
        line = line.ljust(MARGIN - 1 + edge * wide) + f"{edge / count:.1f}"
    return Text(line + ("  score" if names else ""), "dim")


def _bars(bins: Sequence[Bin], wide: int, count: int, signs: _Signs) -> list[Text]:
    most = max((b.count for b in bins), default=0)
    steps = BARS * len(signs.blocks)
    heights = {_place(b, count): max(1, round(b.count / most * steps)) for b in bins if b.count > 0}
    lines = []
    for level in reversed(range(BARS)):
        line = " " * MARGIN
        for place in range(count):
            above = heights.get(place, 0) - level * len(signs.blocks)
            sign = signs.blocks[min(above, len(signs.blocks)) - 1] if above > 0 else " "
            line += sign * (wide - 1) + " " if wide > 1 else sign
        lines.append(Text(line.rstrip(), "cyan"))
    return lines


def _counts(bins: Sequence[Bin], wide: int, count: int, names: bool) -> Text:
    labels = {_place(b, count): _short(b.count, wide - 1) for b in bins}
    line = "".join(labels.get(place, "").center(wide - 1) + " " for place in range(count))
    return Text(" " * MARGIN + line.rstrip() + ("  answers" if names else ""), "dim")


def _place(b: Bin, count: int) -> int:
    return min(count - 1, round(b.low * count))


def _short(number: int, width: int) -> str:
    """At most ``width`` ≥ 3 characters; thousands and more are rounded where they must be."""
    text = str(number)
    for unit in ("k", "M", "G", "T"):
        if len(text) <= width:
            break
        number = round(number / 1000)
        text = f"{number}{unit}"
    return text if len(text) <= width else "#" * width


def print_reliability(console: Console, bins: Sequence[Bin], whose: str) -> None:
    """The plot under a title; lines are never wrapped in the middle of the plot."""
    console.print(Text(f"Reliability on {whose}: {sum(b.count for b in bins):,} answers", "bold"))
    for line in reliability_lines(bins, console.width, console.options.ascii_only):
        console.print(line)
