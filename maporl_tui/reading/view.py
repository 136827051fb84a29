"""What the app knows of the run it looks at, and how news change it.

In: ``News`` that the client read from the store.  Out: a new ``RunView``.  Pure: no screen, no
file.  Neighbours: ``client`` reads the news, ``app`` keeps the view, screens show it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from maporl_core.config.schema import RunConfig
from maporl_core.kit.plain_text import one_line
from maporl_core.store.reader import Evaluation, Event, LiveDiscussion, Request, RunStatus
from maporl_core.types import Part

KEPT_EVENTS = 1000
_STAGE = "stage"
"""The named fact that the trainer keeps it under (``maporl_core.kit.progress``; docs/store.md)."""
LIVE_STATES = ("running", "paused", "new")
QUIET_LIMIT = 120.0
"""Seconds without a heartbeat after which a running trainer's data is shown as stale."""


@dataclass(frozen=True, slots=True)
class News:
    """What one look at the store found; None where nothing changed since the last look.

    ``events`` and ``requests`` are only the new ones, unless ``start_over``: rows were taken back
    (the run resumed from an earlier step) and these are all there are.
    """

    status: RunStatus
    generation: int
    start_over: bool = False
    meta: Mapping[str, str] | None = None
    events: tuple[Event, ...] = ()
    metrics: Mapping[str, float] | None = None
    metric_names: tuple[str, ...] | None = None
    parts: tuple[Part, ...] | None = None
    last_written: float | None = None
    live: LiveDiscussion | None = None
    evaluations: tuple[Evaluation, ...] | None = None
    requests: tuple[Request, ...] = ()
    log_tail: tuple[str, ...] = ()
    time: float = 0.0  # when it was looked, in seconds since 1970


@dataclass(frozen=True, slots=True)
class Stage:
    """What a trainer does within or between steps: so many units done, of ``total`` if known."""

    name: str
    done: int = 0
    total: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.done:,}/{self.total:,}" if self.total else self.name


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as the screens show it.

    ``config`` is None when the stored one cannot be read (``config_problem`` says why).
    ``problem`` is why the store cannot be read just now; everything else is then the last that was
    known.  ``changes`` counts looks that found something new: redraw when it differs.
    ``log_tail``: the last lines of the log of a run that failed or died.  ``moved``: when its
    trainer was last seen to get on with a stage, in seconds since 1970.
    """

    name: str
    path: str
    config: RunConfig | None = None
    config_problem: str | None = None
    status: RunStatus = field(default_factory=lambda: RunStatus(state="new", step=0, steps=None))
    generation: int = -1
    meta: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    metric_names: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()  # of the reward, as the run declares them
    last_written: float | None = None
    live: LiveDiscussion | None = None
    evaluations: tuple[Evaluation, ...] = ()
    requests: Mapping[int, Request] = field(default_factory=dict)
    log_tail: tuple[str, ...] = ()
    problem: str | None = None
    moved: float = 0.0
    changes: int = 0

    @property
    def step(self) -> int:
        return self.status.step

    @property
    def is_live(self) -> bool:
        """Whether a trainer is at work on it (or about to be)."""
        return self.status.state in LIVE_STATES or self.is_held

    @property
    def is_held(self) -> bool:
        """Whether a process holds the run's lock: a trainer that works, loads or saves."""
        return self.status.pid is not None

    @property
    def created(self) -> float:
        """When the run was made, in seconds since 1970; 0 where that is not known."""
        try:
            return float(self.meta.get("created", "0"))
        except ValueError:
            return 0.0

    @property
    def last_heard(self) -> float:
        """When anything was last heard of the run: an event, a step, a stage that got on; or 0."""
        last_event = self.events[-1].time if self.events else 0.0
        return max(last_event, self.last_written or 0.0, self.moved)

    @property
    def stale(self) -> bool:
        """Whether what is shown may no longer be true."""
        if self.problem is not None:
            return True
        quiet = self.status.quiet
        return self.status.state == "running" and quiet is not None and quiet > QUIET_LIMIT

    @property
    def stage(self) -> Stage | None:
        """What its trainer does just now, as it noted itself; None while nobody trains."""
        if self.status.state != "running":
            return None
        try:
            facts = json.loads(self.meta.get(_STAGE, ""))
            name, done, total = facts["name"], int(facts["done"]), facts["total"]
            return Stage(one_line(str(name), 60), done, None if total is None else int(total))
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def samples(self) -> int:
        """Discussions of one problem in a step [G]."""
        return int(getattr(self.config.method, "samples", 1)) if self.config is not None else 1

    @property
    def waiting(self) -> tuple[Request, ...]:
        """Requests that the trainer has not answered yet."""
        return tuple(r for r in self.requests.values() if r.acknowledged is None)

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the last step's time; None when it cannot be known or nothing runs."""
        steps, times = self.status.steps, self.metrics
        spent = sum(value for name, value in times.items() if name.startswith("time/"))
        if self.status.state != "running" or steps is None or not spent:
            return None
        return max(0, steps - self.step) * spent


def apply_news(view: RunView, news: News) -> RunView:
    """The view after one look at the store."""
    events = news.events if news.start_over else (*view.events, *news.events)
    requests = {} if news.start_over else dict(view.requests)
    requests.update({request.id: request for request in news.requests})
    after = replace(
        view,
        status=_coarse(news.status),
        generation=news.generation,
        meta=view.meta if news.meta is None else news.meta,
        events=events[-KEPT_EVENTS:],
        metrics=view.metrics if news.metrics is None else news.metrics,
        metric_names=view.metric_names if news.metric_names is None else news.metric_names,
        parts=view.parts if news.parts is None else news.parts,
        last_written=view.last_written if news.last_written is None else news.last_written,
        live=view.live if news.live is None else news.live,
        evaluations=view.evaluations if news.evaluations is None else news.evaluations,
        requests=requests,
        log_tail=news.log_tail or view.log_tail,
        problem=None,
    )
    if view.generation >= 0 and after.stage is not None and after.stage != view.stage:
        after = replace(after, moved=news.time)
    return after if after == view else replace(after, changes=view.changes + 1)


def _coarse(status: RunStatus) -> RunStatus:
    """The status without the seconds that pass in a healthy run: they are no news."""
    quiet = status.quiet
    if quiet is None or quiet <= QUIET_LIMIT:
        return replace(status, quiet=None)
    return replace(status, quiet=quiet // 10 * 10)


def apply_problem(view: RunView, problem: str) -> RunView:
    """The view after a look that failed: everything known stays."""
    if view.problem == problem:
        return view
    return replace(view, problem=problem, changes=view.changes + 1)
