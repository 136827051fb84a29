"""Reads a run's store, live or finished, beside its trainer or on a read-only disk.

In: a run's folder.  Out: records.  Neighbours: ``writer`` fills the store from another process;
``cli``, ``export`` and the terminal app read it here, and find everything else they need of the
store re-exported here; ``view`` holds the file open.  Never writes; safe to call from several
threads.

Follow a live run cheaply: while ``changed()`` is False there is nothing new.  Ask ``metrics_since``
and ``events_since`` with the last cursor.  When ``generation()`` differs from last time, rows were
taken back (a run resumed from an earlier step): start over from cursor 0.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from maporl_core.errors import StoreError
from maporl_core.store import charts, load, queries, story
from maporl_core.store.evaluations import read_evaluations, read_outcomes
from maporl_core.store.lock import holder
from maporl_core.store.parts import read_parts
from maporl_core.store.paths import RunDir, remove_run, runs_below
from maporl_core.store.records import (
    COMMANDS,
    DiscussionFilter,
    DiscussionRow,
    Evaluation,
    LiveDiscussion,
    LiveMessage,
    MessageReward,
    NewPrompt,
    QuestionOutcome,
    Request,
    StoredDiscussion,
)
from maporl_core.store.requests import RequestWriter
from maporl_core.store.run_records import (
    RUNNING_STATES,
    Event,
    MetricBatch,
    RunStatus,
    RunSummary,
    Series,
)
from maporl_core.store.values import get_text
from maporl_core.store.view import View
from maporl_core.types import Part

__all__ = [
    "COMMANDS",
    "DiscussionFilter",
    "DiscussionRow",
    "Evaluation",
    "Event",
    "LiveDiscussion",
    "LiveMessage",
    "MessageReward",
    "MetricBatch",
    "NewPrompt",
    "QuestionOutcome",
    "Request",
    "RequestWriter",
    "RunDir",
    "RunStatus",
    "RunSummary",
    "Series",
    "StoreReader",
    "StoredDiscussion",
    "list_runs",
    "remove_run",
]

_NO_FILTER = DiscussionFilter()


class StoreReader:
    """The store of one existing run, read-only.  Every method raises StoreError when it cannot."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._view = View(run)
        self._read = self._view.read

    # The run --------------------------------------------------------------------------------

    def meta(self) -> dict[str, str]:
        """Named facts: schema, generation, created, name, state, reason, task, steps, …"""
        with self._read() as connection:
            rows = connection.execute("SELECT key, value FROM meta").fetchall()
        return {key: get_text(value) for key, value in rows}

    def status(self) -> RunStatus:
        """What the run is doing, judged by its lock and not only by what it last said."""
        meta = self.meta()
        with self._read() as connection:
            step = connection.execute("SELECT coalesce(max(step), 0) FROM steps").fetchone()[0]
        state = meta.get("state", "new")
        trainer = holder(self.run.lock_file)
        if state in RUNNING_STATES and trainer is None:
            state = "died"
        return RunStatus(
            state=state,
            step=step,
            steps=int(meta["steps"]) if meta.get("steps", "").isdecimal() else None,
            pid=trainer.pid if trainer else None,
            host=trainer.host if trainer else None,
            quiet=trainer.quiet if trainer else None,
            reason=meta.get("reason") or None,
        )

    def changed(self) -> bool:
        """Whether anything was committed since the last call; True the first time."""
        return self._view.changed()

    def unchanging(self) -> AbstractContextManager[None]:
        """Everything read within the block is of one moment, as far as the store allows it."""
        return self._view.unchanging()

    def generation(self) -> int:
        """Grows whenever stored rows were taken back or replaced."""
        return int(self.meta().get("generation", "0"))

    # Metrics --------------------------------------------------------------------------------

    def metric_names(self) -> tuple[str, ...]:
        with self._read() as connection:
            rows = connection.execute("SELECT name FROM metric_names ORDER BY name").fetchall()
        return tuple(name for (name,) in rows)

    def metrics_since(self, cursor: int = 0) -> MetricBatch:
        """Values of all steps written after ``cursor``; NaN where a value is not a number."""
        with self._read() as connection:
            return charts.metrics_since(connection, cursor)

    def series(
        self, name: str, points: int = 400, first: int | None = None, last: int | None = None
    ) -> Series:
        """One metric over steps, decimated to about ``points`` points; empty if unknown."""
        with self._read() as connection:
            return charts.series(connection, name, max(1, points), first, last)

    def latest_metrics(self) -> dict[str, float]:
        """All values of the last step."""
        with self._read() as connection:
            return charts.latest(connection)

    def last_written(self) -> float | None:
        """When the last step was written, in seconds since 1970; None before the first."""
        with self._read() as connection:
            return charts.last_time(connection)

    # Discussions ----------------------------------------------------------------------------

    def page(
        self,
        wanted: DiscussionFilter = _NO_FILTER,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> tuple[DiscussionRow, ...]:
        """Discussions that pass the filter, newest first.

        ``before``: only ids below it (the next page); ``after``: only ids above it, those nearest
        to it (the page before).  Previous and next debate are pages of one.
        """
        with self._read() as connection:
            return queries.page(connection, wanted, before, after, limit)

    def count(self, wanted: DiscussionFilter = _NO_FILTER) -> int:
        with self._read() as connection:
            return queries.count(connection, wanted)

    def discussion(self, key: int) -> StoredDiscussion:
        """One discussion whole.  Raises StoreError when there is none with this id."""
        with self._read() as connection:
            found = load.whole_discussions(connection, [key])
        if not found:
            raise StoreError(f"run {self.run.name!r} has no discussion {key}")
        return found[0]

    def discussions(
        self, wanted: DiscussionFilter = _NO_FILTER, batch: int = 100
    ) -> Iterator[StoredDiscussion]:
        """All discussions that pass the filter, whole, oldest first."""
        after = 0
        while True:
            with self._read() as connection:
                rows = queries.page(connection, wanted, None, after, batch)
                found = load.whole_discussions(connection, [row.id for row in reversed(rows)])
            yield from found
            if not rows:
                return
            after = rows[0].id

    def reward_parts(self) -> tuple[Part, ...]:
        """The parts of a reward that the run declares, in their order."""
        with self._read() as connection:
            return read_parts(connection)

    def reward_values(
        self,
        part: str = "total",
        first_step: int | None = None,
        last_step: int | None = None,
        limit: int = 10_000,
    ) -> tuple[float, ...]:
        """One reward part of every message of these training steps, newest first."""
        with self._read() as connection:
            names = [known.name for known in read_parts(connection)]
            if not names:
                return ()
            if part not in (*names, *queries.SUMS):
                raise StoreError(f"no reward part {part!r}: one of {', '.join((*names, 'total'))}")
            last = last_step if last_step is not None else 1 << 62
            return queries.reward_values(connection, part, (first_step or 0, last), limit)

    # Evaluations ----------------------------------------------------------------------------

    def evaluations(self) -> tuple[Evaluation, ...]:
        """All stored evaluations, oldest first."""
        with self._read() as connection:
            return read_evaluations(connection)

    def outcomes(self, evaluation: int) -> tuple[QuestionOutcome, ...]:
        """How every question of an evaluation went, in the order they were asked.

        Two evaluations with the same task, split, seed and number of questions asked the same
        questions in the same order.
        """
        with self._read() as connection:
            return read_outcomes(connection, evaluation)

    # The story, the watched discussion, requests -----------------------------------------------

    def events_since(self, cursor: int = 0, limit: int = 1000) -> tuple[Event, ...]:
        """Events with ids above ``cursor``, oldest first."""
        with self._read() as connection:
            return story.read_events(connection, "id > ? ORDER BY id", (cursor, limit))

    def last_events(self, limit: int = 100) -> tuple[Event, ...]:
        """The newest events, oldest of them first."""
        with self._read() as connection:
            return story.read_events(connection, "1 ORDER BY id DESC", (limit,))[::-1]

    def live(self) -> LiveDiscussion | None:
        """The watched discussion; None before the first."""
        with self._read() as connection:
            return story.read_live(connection)

    def request(self, key: int) -> Request:
        """One request with its answer, if it has one.  Raises StoreError when unknown."""
        with self._read() as connection:
            found = story.read_requests(connection, "id = ?", (key, 1))
        if not found:
            raise StoreError(f"run {self.run.name!r} has no request {key}")
        return found[0]

    def requests_since(self, cursor: int = 0, limit: int = 1000) -> tuple[Request, ...]:
        """Requests with ids above ``cursor``, oldest first."""
        with self._read() as connection:
            return story.read_requests(connection, "id > ? ORDER BY id", (cursor, limit))

    # Plumbing -------------------------------------------------------------------------------

    def close(self) -> None:
        self._view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def list_runs(root: Path) -> tuple[RunSummary, ...]:
    """Every run below ``root``, by name; one that cannot be read says why instead of failing."""
    return tuple(_summary(run) for run in runs_below(root))


def _summary(run: RunDir) -> RunSummary:
    try:
        with StoreReader(run) as reader:
            meta = reader.meta()
            created = float(meta.get("created", "0"))
            return RunSummary(
                name=run.name,
                status=reader.status(),
                task=meta.get("task", ""),
                created=created,
                age=max(0.0, time.time() - (reader.last_written() or created)),
                metrics=reader.latest_metrics(),
            )
    except StoreError as error:
        status = RunStatus(state="unreadable", step=0, steps=None)
        return RunSummary(run.name, status, "", 0.0, 0.0, problem=str(error))
