"""A few numbers as a row of bars, one character each.

In: values, oldest first.  Out: text.  Neighbours: live views of the command line and the app's
tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-=+*%#"


def sparkline(
    values: Sequence[float],
    width: int | None = None,
    low: float | None = None,
    high: float | None = None,
    ascii_only: bool = False,
) -> str:
    """The last ``width`` values as bars between ``low`` and ``high`` (default: their own range).

    Values that do not differ are bars of middle height; a blank stands for one that is not finite.
    """
    shown = list(values if width is None else values[-width:] if width > 0 else ())
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    bottom = min(finite) if low is None else low
    span = (max(finite) if high is None else high) - bottom
    bars = []
    for value in shown:
        if not math.isfinite(value):
            bars.append(" ")
            continue
        share = (value - bottom) / span if span > 0 else 0.5
        bars.append(blocks[min(len(blocks) - 1, max(0, int(share * len(blocks))))])
    return "".join(bars)
