"""Text and numbers as the app shows them.

In: model text, numbers, seconds.  Out: strings that are safe to print and short to read.  Every
text that a model, a file or a person wrote goes through ``safe``; widgets show it with markup off.
Neighbours: every screen and widget.
"""

from __future__ import annotations

import math

from maporl_core.kit.plain_text import one_line, printable

__all__ = ["age", "amount", "one_line", "percent", "safe", "signed", "size"]

_TAB = " " * 4


def safe(text: str) -> str:
    """``text`` without control codes, tabs as blanks; newlines stay."""
    return printable(text).replace("\t", _TAB)


def age(seconds: float | None) -> str:
    """A span of time in its largest unit: 5 s, 12 min, 3 h, 2 d; an em dash for None."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    seconds = max(0.0, seconds)
    for limit, unit, length in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def amount(value: float | None, digits: int = 3) -> str:
    """A number of about ``digits`` significant digits; an en dash for None, "nan" as it is."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        places = digits if abs(value) < 10 else max(0, digits - 1 - int(math.log10(abs(value))))
        return f"{value:.{places}f}"
    return f"{value:.{max(0, digits - 1)}e}"


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, for sums: +0.144, -0.100."""
    return f"{value:+.{digits}f}"


def percent(share: float | None) -> str:
    """A share in [0, 1] as a whole percentage."""
    return "–" if share is None or math.isnan(share) else f"{100 * share:.0f}%"


def size(count: float) -> str:
    """A number of bytes: 812 kB, 4.1 GB (decimal units)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            return f"{count:.0f} {unit}" if unit in ("B", "kB", "MB") else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
