"""Writes a run's store: whole steps, evaluations, events, the watched discussion, answers.

In: records and numbers from ``train`` and ``evaluate``.  Out: committed rows; every failure is a
StoreError and leaves what was committed before whole.  Neighbours: ``rows`` turns records into
rows, ``database`` opens the file, ``reader`` looks at it from other processes.

One step is one transaction, so a killed run ends at a whole step.  Safe to call from several
threads.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from maporl_core.errors import StoreError
from maporl_core.store.database import network_file_system, open_for_writing, transaction
from maporl_core.store.evaluation_rows import (
    delete_evaluations,
    insert_evaluation,
    next_generation,
)
from maporl_core.store.failures import store_errors
from maporl_core.store.live import LiveWriter
from maporl_core.store.lock import holder
from maporl_core.store.metric_rows import delete_metrics, insert_metrics
from maporl_core.store.parts import declare
from maporl_core.store.paths import RunDir
from maporl_core.store.records import Paid, Request
from maporl_core.store.rows import Decode, delete_discussions, insert_discussion
from maporl_core.store.run_records import STATES
from maporl_core.store.values import get_text, put_text
from maporl_core.types import EvalSummary, Part

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the run's story, to be written; ``step``: the training step it is about."""

    level: Level
    kind: str
    text: str
    step: int | None = None


class StoreWriter:
    """The store of one existing run, open for writing.

    ``decode`` turns ids into text to keep what each agent read; without it prompts are not kept.
    ``keep_tokens`` keeps token ids and log-probabilities of every message.
    """

    def __init__(
        self, run: RunDir, *, decode: Decode | None = None, keep_tokens: bool = True
    ) -> None:
        self.run = run
        self._decode = decode
        self._keep_tokens = keep_tokens
        self._mutex = threading.RLock()
        self._connection = open_for_writing(run.database, self._may_migrate)
        self._identity = self._file_identity()
        self.live = LiveWriter(self._write)
        kind = network_file_system(run.database)
        if kind is not None:
            self.event("info", "store", f"run.db is on {kind}: rollback journal instead of WAL")

    def set_decode(self, decode: Decode) -> None:
        """Keep from now on what each agent read, as text."""
        self._decode = decode

    # Steps ----------------------------------------------------------------------------------

    def write_step(
        self, step: int, discussions: Sequence[Paid], metrics: Mapping[str, float]
    ) -> tuple[int, ...]:
        """Store one training step whole, in place of what was stored for it before.

        ``step`` counts finished steps (1-based).  Returns the ids of the discussions.
        """
        with self._write() as connection:
            replaced = delete_discussions(connection, "step = ? AND split = 'train'", (step,))
            replaced += delete_metrics(connection, step, step)
            if replaced:
                next_generation(connection)
            keys = tuple(
                insert_discussion(
                    connection, paid, step, "train", None, self._decode, self._keep_tokens
                )
                for paid in discussions
            )
            insert_metrics(connection, step, metrics, time.time())
        return keys

    def write_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add metrics to a step, e.g. those of an evaluation after it."""
        with self._write() as connection:
            insert_metrics(connection, step, metrics, time.time())

    def write_evaluation(
        self,
        step: int,
        summary: EvalSummary,
        discussions: Sequence[Paid],
        origin: Literal["run", "command"] = "run",
        metrics: Mapping[str, float] | None = None,
        lines: Sequence[Line] = (),
    ) -> int:
        """Store an evaluation of the policies as they were after ``step``; returns its id.

        One of the same kind that the run made at the same step before is replaced: a resumed run
        evaluates again.  Those made by commands are kept side by side.  ``metrics`` (of the step)
        and ``lines`` are there when the evaluation is, and not when it is not.
        """
        with self._write() as connection:
            key = insert_evaluation(connection, step, origin, summary)
            for paid in discussions:
                insert_discussion(
                    connection, paid, step, "eval", key, self._decode, self._keep_tokens
                )
            if metrics:
                insert_metrics(connection, step, metrics, time.time())
            for line in lines:
                self._add_line(connection, line)
        return key

    def truncate_after(self, step: int) -> int:
        """Forget everything the run stored after ``step``, before it goes on from there.

        Evaluations made by commands stay, and so does every event that is not about one of these
        steps.  Returns how many steps went.
        """
        with self._write() as connection:
            gone = delete_metrics(connection, step + 1)
            gone_too = delete_discussions(connection, "step > ? AND split = 'train'", (step,))
            gone_too += delete_evaluations(connection, "step > ? AND origin = 'run'", (step,))
            gone_too += connection.execute("DELETE FROM events WHERE step > ?", (step,)).rowcount
            if gone or gone_too:
                next_generation(connection)
        return gone

    # The run itself ---------------------------------------------------------------------------

    def set_state(self, state: str, reason: str = "") -> None:
        """Say what the run is doing: one of ``run_records.STATES``."""
        if state not in STATES:
            raise ValueError(f"unknown state {state!r}: one of {', '.join(STATES)}")
        self.set_meta({"state": state, "reason": reason})

    def set_meta(self, facts: Mapping[str, str]) -> None:
        """Keep named facts about the run (task, steps, versions, device)."""
        with self._write() as connection:
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?) "
                "ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                [(key, put_text(value)) for key, value in facts.items()],
            )

    def declare_parts(self, parts: Sequence[Part]) -> None:
        """Say which parts the run's rewards have, in their order, and what each of them says."""
        with self._write() as connection:
            declare(connection, parts)

    def event(self, level: Level, kind: str, text: str, step: int | None = None) -> int:
        """Add one line to the run's story, in the store and in log.txt; returns its id.

        One about a ``step`` goes from the store when that step is taken back; log.txt keeps all.
        """
        with self._write() as connection:
            return self._add_line(connection, Line(level, kind, text, step))

    def _add_line(self, connection: sqlite3.Connection, line: Line) -> int:
        """In log.txt before the transaction ends: a kill may double it there, never lose it."""
        now = time.time()
        cursor = connection.execute(
            "INSERT INTO events(time, level, kind, text, step) VALUES (?, ?, ?, ?, ?)",
            (now, line.level, line.kind, put_text(line.text), line.step),
        )
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        head = f"{stamp} {line.level} {line.kind}: "
        with (
            store_errors("write", self.run.log),
            self.run.log.open("a", encoding="utf-8", errors="backslashreplace") as log,
        ):
            log.write(head + "\n    ".join(line.text.splitlines() or [""]) + "\n")
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    # Requests -------------------------------------------------------------------------------

    def poll_requests(self) -> tuple[Request, ...]:
        """Requests nobody has answered yet, oldest first.  Cheap; takes no write lock."""
        with self._mutex, store_errors("read", self.run.database):
            rows = self._connection.execute(
                "SELECT id, time, command, args FROM requests WHERE acknowledged IS NULL "
                "ORDER BY id"
            ).fetchall()
        return tuple(
            Request(key, when, get_text(command), json.loads(args))
            for key, when, command, args in rows
        )

    def acknowledge(self, request: int, result: str) -> None:
        """Answer one request; ``result`` is a line for whoever asked."""
        with self._write() as connection:
            connection.execute(
                "UPDATE requests SET acknowledged = ?, result = ? "
                "WHERE id = ? AND acknowledged IS NULL",
                (time.time(), put_text(result), request),
            )

    def expire_requests(self, result: str) -> int:
        """Answer all open requests: those meant for a trainer that has ended; returns how many."""
        with self._write() as connection:
            return connection.execute(
                "UPDATE requests SET acknowledged = ?, result = ? WHERE acknowledged IS NULL",
                (time.time(), put_text(result)),
            ).rowcount

    # Plumbing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file.  Committed rows need no closing to be safe."""
        with self._mutex:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction on a file that is still the one that was opened."""
        with self._mutex, store_errors("write", self.run.database):
            if self._file_identity() != self._identity:
                raise StoreError(
                    f"{self.run.database} was removed or replaced while the run was using it: "
                    "put it back, or start again under another name"
                )
            with transaction(self._connection):
                yield self._connection

    def _may_migrate(self) -> None:
        """Not while another process trains the run: it may be the maporl that made the store."""
        trainer = holder(self.run.lock_file)
        if trainer is not None and trainer.pid != os.getpid():
            raise StoreError(
                f"run {self.run.name!r} is trained by process {trainer.pid}, perhaps of an older "
                "maporl: wait until it ends; its store is brought up to date after that"
            )

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            status = self.run.database.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
