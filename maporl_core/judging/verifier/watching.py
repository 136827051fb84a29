"""Whether a verifier can still be trusted: its scores held against the rule, step by step.

In: discussions with scores and, where there are gold answers, verdicts.  Out: metrics, and a line
of warning when scores drift away from correctness.  Neighbours: ``train`` stores the metrics,
``session`` keeps a ``ScoreDrift`` and rebuilds it from the store when a run is resumed.

A verifier that is fooled gives higher scores while answers get no better, so what shows reward
hacking is not the distance of score and correctness, which an uncalibrated verifier always has, but
that it grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from maporl_core.judging.verifier.calibration import auroc
from maporl_core.types import Discussion, Message

THRESHOLD = 0.5
"""A score from here on says "right"."""
GAP = "verifier/gap"
"""Metric: mean of score minus correctness over the messages of a step."""


def verifier_metrics(discussions: Sequence[Discussion]) -> dict[str, float]:
    """What scores say beside the rule, over all messages that have both; empty without any.

    "verifier/disagreement": share of messages where score >= .5 is not the verdict.
    "verifier/gap": mean score minus share right; "verifier/gap/turn_<t>": of each turn.
    "verifier/auroc": chance that a right message scores above a wrong one, when there are both.
    """
    rows = [m for d in discussions for row in d.messages for m in row if _known(m)]
    if not rows:
        return {}
    scores = np.array([_score(m) for m in rows])
    right = np.array([bool(m.correct) for m in rows])
    metrics = {
        "verifier/disagreement": float(np.mean((scores >= THRESHOLD) != right)),
        GAP: float(np.mean(scores - right)),
    }
    for turn in sorted({m.turn for m in rows}):
        here = np.array([m.turn == turn for m in rows])
        metrics[f"{GAP}/turn_{turn + 1}"] = float(np.mean(scores[here] - right[here]))
    if 0 < right.sum() < len(right):
        metrics["verifier/auroc"] = auroc(scores, right)
    return metrics


def _known(message: Message) -> bool:
    return message.score is not None and message.correct is not None


def _score(message: Message) -> float:
    """As it is paid: 0 where no answer could be read."""
    assert message.score is not None
    return 0.0 if message.answer is None else message.score


class ScoreDrift:
    """How far score minus correctness has moved since a run's agents were untrained.

    The start is the first step, whose messages are all by untrained agents; agents can find what a
    verifier likes within a few updates.  Compared with it is an exponential mean over about
    ``1 / (1 - DECAY)`` steps.  Both are small samples, so a growth below ``SIGMAS`` times the
    spread from step to step is taken for chance, whatever the limit.
    """

    DECAY = 0.8
    SIGMAS = 3.0
    STEPS = 5  # before the spread is known well enough

    def __init__(self, limit: float) -> None:
        """``limit``: growth of the gap, between 0 and 1, that is worth a warning."""
        self.limit = limit
        self.seen = 0
        self.start = 0.0
        self.now = 0.0
        self._last = 0.0
        self._squares = 0.0
        self._told = 0.0

    @property
    def growth(self) -> float:
        """How much larger the gap is than at the start."""
        return self.now - self.start

    @property
    def noise(self) -> float:
        """Standard deviation of one step's gap, from differences of neighbours: growth is none."""
        return math.sqrt(self._squares / (2 * (self.seen - 1))) if self.seen > 1 else math.inf

    def add(self, gap: float) -> str | None:
        """Take the gap of one more step; a warning when it has grown by another ``limit``.

        A gap that shrinks again by as much is a new beginning: the next growth is told again.
        """
        if not math.isfinite(gap):
            return None
        self.seen += 1
        if self.seen == 1:
            self.start = self.now = self._last = gap
            return None
        self._squares += (gap - self._last) ** 2
        self._last = gap
        self.now = self.DECAY * self.now + (1.0 - self.DECAY) * gap
        if self.growth < self._told - self.limit:
            self._told = max(0.0, self.growth)
        chance = self.seen < self.STEPS or self.growth < self.SIGMAS * self.noise
        if chance or self.growth < self._told + self.limit:
            return None
        self._told = self.growth
        return (
            f"scores have risen by {self.growth:.2f} more than correctness since the run began "
            f"(score minus correctness {self.start:+.2f} then, {self.now:+.2f} now): agents may be "
            "learning what the verifier likes instead of what is right; look at messages with a "
            "high score that are wrong, fit the verifier on fresh messages (verifier.refit_every), "
            "or stop"
        )
