"""Numbers as sums print them: enough decimals, real signs, and whether the print adds up.

In: floats.  Out: text.  Neighbours: reward schemes explain what they paid with it, and the app
shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

_MOST_DIGITS = 6


def digits_for(values: Sequence[float]) -> int:
    """Decimals with which no number but 0 is printed as 0; 3 to 6."""
    digits = 3
    small = [abs(value) for value in values if value and math.isfinite(value)]
    while digits < _MOST_DIGITS and any(not _printed(value, digits) for value in small):
        digits += 1
    return digits


def adds_up(values: Sequence[float], total: float, digits: int) -> bool:
    """Whether the numbers as printed give the total as printed."""
    if not all(map(math.isfinite, (*values, total))):
        return False
    return sum(_printed(value, digits) for value in values) == _printed(total, digits)


def _printed(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits}f}")


def figure(value: float, digits: int = 3, sign: bool = False) -> str:
    """A number with a real minus sign, and a plus where ``sign`` is asked for."""
    text = f"{abs(value):.{digits}f}"
    if value < 0:
        return f"−{text}"
    return f"+{text}" if sign else text


def short(value: float) -> str:
    """A weight or coefficient as people write it: 1, 0.3, 1.39."""
    return f"{value:.4g}".replace("-", "−")
