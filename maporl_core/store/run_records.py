"""Frozen records of a run as a whole: its state, its story and its metrics; no SQL in here.

Neighbours: ``reader`` gives them; ``records`` has those of discussions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RUNNING_STATES = ("running", "paused")
"""Stored states that need a living trainer; without one the run has died."""
STATES = ("new", *RUNNING_STATES, "finished", "interrupted", "failed")
"""Stored states; a reader adds "died" and "unreadable"."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the run's story; ``step``: the training step it is about, if it is about one."""

    id: int
    time: float
    level: str
    kind: str
    text: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class MetricBatch:
    """Metric values written since a cursor, and the cursor to ask with next time."""

    cursor: int
    rows: tuple[tuple[int, str, float], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric over steps, at most about as many points as asked for.

    Each point stands for ``counts`` finite values from ``steps`` (its first step) on: their mean
    and extremes.  Steps whose value is not finite are left out.
    """

    steps: tuple[int, ...] = ()
    means: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """``state`` is a stored state, or "died": stored as running with no trainer alive.

    ``quiet`` is seconds since the trainer's last heartbeat.
    """

    state: str
    step: int
    steps: int | None
    pid: int | None = None
    host: str | None = None
    quiet: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of a list of runs; ``problem`` says why an unreadable one is unreadable."""

    name: str
    status: RunStatus
    task: str
    created: float
    age: float  # seconds since the last step was written, or since it was made
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the last step
    problem: str | None = None
