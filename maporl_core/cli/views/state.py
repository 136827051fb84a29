"""What a run has told so far: the one state behind the live view and the plain lines.

In: the calls of ``Progress``.  Out: histories, rates and estimates, ready to draw.  Neighbours:
``live`` and ``lines`` draw it.  No drawing in here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from maporl_core.kit.plain_text import one_line
from maporl_core.types import EvalSummary, PairedGain, StepReport

HISTORY = 240  # steps kept per metric for sparklines
SMOOTH = 10  # steps behind a "now" value: one step's accuracy is too noisy to read


@dataclass(frozen=True, slots=True)
class Event:
    clock: str  # HH:MM:SS
    level: str
    text: str


@dataclass(slots=True)
class RunState:
    """Mutable on purpose: it follows a run.  ``now`` is a monotonic clock in seconds."""

    steps: int
    turns: int
    now: Callable[[], float] = time.monotonic
    step: int = 0
    stage: str = "starting"
    stage_total: int | None = None
    stage_done: int = 0
    before: EvalSummary | None = None
    latest: EvalSummary | None = None
    gain: PairedGain | None = None
    history: dict[str, deque[float]] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=100))
    started: float = 0.0
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=20))

    def __post_init__(self) -> None:
        self.started = self.now()

    def recall(
        self, step: int, before: EvalSummary | None, history: Mapping[str, Sequence[float]]
    ) -> None:
        """Take over what a resumed run had told up to ``step``."""
        self.step, self.before = step, before
        for name, values in history.items():
            self.history[name] = deque(values, maxlen=HISTORY)

    def begin_stage(self, name: str, total: int | None) -> None:
        self.stage, self.stage_total, self.stage_done = one_line(name, 80), total, 0

    def advance(self, count: int) -> None:
        self.stage_done += count

    def step_done(self, report: StepReport) -> None:
        self.step, self.steps = report.step, report.steps
        self._seconds.append(report.seconds)
        for name, value in report.metrics.items():
            self.history.setdefault(name, deque(maxlen=HISTORY)).append(value)

    def evaluated(self, summary: EvalSummary) -> None:
        if summary.policy_state == "base" and self.before is None:
            self.before = summary
        self.latest = summary

    def log(self, level: str, text: str) -> Event:
        event = Event(time.strftime("%H:%M:%S"), level, one_line(text, 500))
        self.events.append(event)
        return event

    @property
    def elapsed(self) -> float:
        return self.now() - self.started

    @property
    def eta(self) -> float | None:
        """Seconds left in training steps at the pace of the last ones; evaluations not counted."""
        if not self._seconds:
            return None
        return (self.steps - self.step) * sum(self._seconds) / len(self._seconds)

    def values(self, metric: str) -> list[float]:
        return list(self.history.get(metric, ()))

    def recent(self, metric: str) -> float | None:
        """Mean of the last few steps; None before the first."""
        values = self.values(metric)[-SMOOTH:]
        return sum(values) / len(values) if values else None

    def accuracy(self, turn: int) -> list[float]:
        """Accuracy of rollouts in a turn (0-based), step by step."""
        return self.values(f"accuracy/turn_{turn + 1}")
