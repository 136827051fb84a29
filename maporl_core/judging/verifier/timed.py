"""Any verifier, with the seconds it takes: its share of a step is a metric.

In and out: what the verifier inside takes and gives.  Neighbours: ``assembly`` wraps every run's
verifier in one, ``train`` reads the clock once per step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from maporl_core.judging.verifier.base import Verifier
from maporl_core.types import Judged


class TimedVerifier:
    def __init__(self, inside: Verifier) -> None:
        self.inside = inside
        self._seconds = 0.0

    @property
    def settings(self) -> Mapping[str, object]:
        return self.inside.settings

    @property
    def needs_gold(self) -> bool:
        return self.inside.needs_gold

    def score(self, items: Sequence[Judged]) -> Sequence[float | None]:
        """As ``inside`` scores; raises what it raises."""
        started = time.perf_counter()
        try:
            return self.inside.score(items)
        finally:
            self._seconds += time.perf_counter() - started

    def take_seconds(self) -> float:
        """Seconds of scoring since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds
