"""Who watches a run from inside the process: the terminal, plain lines, JSON, or nobody.

In: what ``train`` and ``evaluate`` report as they go.  Neighbours: ``cli`` implements it.
"""

from __future__ import annotations

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
