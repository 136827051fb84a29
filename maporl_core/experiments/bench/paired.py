"""Two or more ways of doing one thing, timed in turns, so that what else a machine does hits all.

In: sides, each a function that does the whole thing once.  Out: ``Timed``, seconds per side and
round, and the ratios of sides, taken within each round.
Neighbours: the benches that compare; docs/benchmarks.md says what makes a comparison fair.

The first rounds are thrown away.  Every other round goes through the sides backwards, so that
neither drift nor what a side leaves behind in the caches favours one.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maporl_core.kit.progress import Progress, Silent

WARM_UPS = 2
REPEATS = 5
"""At least so many rounds count; fewer say nothing about their spread."""

Side = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of each side, one per round that counts."""

    seconds: Mapping[str, Sequence[float]]

    def median(self, side: str) -> float:
        return statistics.median(self.seconds[side])

    def ratios(self, over: str, under: str) -> list[float]:
        """How many times as long ``over`` took as ``under``, round by round."""
        pairs = zip(self.seconds[over], self.seconds[under], strict=True)
        return [slow / fast for slow, fast in pairs]

    def ratio(self, over: str, under: str) -> float:
        """The median of the rounds' ratios."""
        return statistics.median(self.ratios(over, under))

    def told(self) -> dict[str, Any]:
        """All of it, ready for JSON: per side the median, the spread and every round."""
        return {
            side: {"median": self.median(side), "spread": spread(values), "rounds": list(values)}
            for side, values in self.seconds.items()
        }


def spread(values: Sequence[float]) -> float:
    """Half of what the middle half of the values spans, as a share of their median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle


def paired(
    sides: Mapping[str, Side],
    repeats: int = REPEATS,
    warm_ups: int = WARM_UPS,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Timed:
    """Time every side ``repeats`` times, in turns, after ``warm_ups`` rounds that do not count."""
    told = progress or Silent()
    told.stage(f"timing {', '.join(sides)} in turns", warm_ups + repeats)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warm_ups + repeats):
        order = list(sides)
        for name in order if number % 2 == 0 else reversed(order):
            gc.collect()  # one side's garbage is not the other's to clear away
            start = clock()
            sides[name]()
            taken = clock() - start
            if number >= warm_ups:
                seconds[name].append(taken)
        told.advance(1)
    return Timed(seconds)
