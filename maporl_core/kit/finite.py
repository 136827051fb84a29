"""Numbers that strict JSON and tables can hold.

In: a number or None.  Out: the same, or None where it is NaN or infinite.  Neighbours: exports of
the store and of the app.
"""

from __future__ import annotations

import math


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
