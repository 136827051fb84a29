"""Who watches a run from inside the process: the terminal, plain lines, JSON, or nobody.

In: what ``train`` and ``evaluate`` report as they go.  Neighbours: ``cli`` implements it; ``train``
keeps the stage in the store as well, for who watches from outside.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from maporl_core.types import EvalSummary, PairedGain, StepReport


class Progress(Protocol):
    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins ("loading models", "evaluating before training", "step 12: rollout").

        ``total`` is its number of units, if it can be counted; a new stage ends the old one.
        """

    def advance(self, count: int = 1) -> None:
        """So many more units of the stage are done."""

    def step_done(self, report: StepReport) -> None: ...

    def evaluated(self, summary: EvalSummary) -> None: ...

    def gained(self, gain: PairedGain) -> None:
        """Before and after training, side by side: the last thing a run shows."""

    def log(self, level: str, text: str) -> None:
        """One line; level is "info", "warning" or "error"."""


class Silent:
    """A Progress that says nothing."""

    def stage(self, name: str, total: int | None = None) -> None: ...

    def advance(self, count: int = 1) -> None: ...

    def step_done(self, report: StepReport) -> None: ...

    def evaluated(self, summary: EvalSummary) -> None: ...

    def gained(self, gain: PairedGain) -> None: ...

    def log(self, level: str, text: str) -> None: ...


STAGE = "stage"
"""Key of the stage among a run's named facts: JSON with ``name``, ``done`` and ``total``."""
_SECONDS = 1.0
"""Between two notes of how far a stage is."""


class KeptStage:
    """A Progress that hands everything on, and keeps its stage where others can read it.

    ``keep`` takes named facts of the run; it is called when a stage begins, and at most once a
    second while it goes on.
    """

    def __init__(self, progress: Progress, keep: Callable[[Mapping[str, str]], None]) -> None:
        self._progress, self._keep = progress, keep
        self._name, self._done = "loading", 0
        self._total: int | None = None
        self._note()

    def _note(self) -> None:
        self._noted = time.monotonic()
        facts = {"name": self._name, "done": self._done, "total": self._total}
        self._keep({STAGE: json.dumps(facts)})

    def stage(self, name: str, total: int | None = None) -> None:
        self._name, self._done, self._total = name, 0, total
        self._note()
        self._progress.stage(name, total)

    def advance(self, count: int = 1) -> None:
        self._done += count
        if time.monotonic() - self._noted >= _SECONDS:
            self._note()
        self._progress.advance(count)

    def step_done(self, report: StepReport) -> None:
        self._progress.step_done(report)

    def evaluated(self, summary: EvalSummary) -> None:
        self._progress.evaluated(summary)

    def gained(self, gain: PairedGain) -> None:
        self._progress.gained(gain)

    def log(self, level: str, text: str) -> None:
        self._progress.log(level, text)
