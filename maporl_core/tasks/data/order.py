"""The endless order in which problems come: every epoch all of them once, shuffled anew.

In: a number of rows, a position and a seed.  Out: row numbers.  A pure function of its arguments,
so a resumed run reads on exactly where it stopped.
"""

from __future__ import annotations

import random
from array import array
from functools import lru_cache


def rows_at(size: int, start: int, count: int, seed: int, key: str = "") -> list[int]:
    """Row numbers at positions start … start+count−1; ``key`` sets orders of one seed apart.

    Positions e·size … (e+1)·size−1 are epoch e and hold every row once.  ``size`` must be
    positive.
    """
    return [
        _epoch(size, position // size, seed, key)[position % size]
        for position in range(start, start + count)
    ]


@lru_cache(maxsize=8)
def _epoch(size: int, epoch: int, seed: int, key: str) -> array[int]:
    rows = array("L", range(size))
    random.Random(f"order/{key}/{seed}/{epoch}").shuffle(rows)
    return rows
