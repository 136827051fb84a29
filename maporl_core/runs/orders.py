"""What people ask a running trainer for: pause, go on, save, stop.

In: the requests in a run's store, and the flag of its signals.  Out: each is answered in the store;
a pause is waited out.  Neighbours: ``session`` lets it look between steps and in evaluations,
``store.requests`` is the other end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from maporl_core.kit.signals import StopFlag
from maporl_core.store.lock import RunLock
from maporl_core.store.records import Request
from maporl_core.store.writer import StoreWriter

PAUSE_POLL = 0.2
"""Seconds between two looks at the requests while paused."""


class Orders:
    """Hears and answers; ``say`` writes a line of the log, ``checkpoint`` saves after a step."""

    def __init__(
        self,
        store: StoreWriter,
        lock: RunLock,
        stop: StopFlag,
        say: Callable[[str, str, str], None],
        checkpoint: Callable[[int], None],
    ) -> None:
        self._store, self._lock, self._stop = store, lock, stop
        self._say, self._checkpoint = say, checkpoint

    def attend(self, step: int) -> float:
        """Answer what was asked after ``step`` steps; returns the seconds spent paused.

        Returns at once when the run was asked to stop: the stop flag is up then.
        """
        self._lock.beat()
        started, paused, waited = time.perf_counter(), False, 0.0
        while True:
            for request in self._store.poll_requests():
                paused = self._answer(request, step, paused)
            if self._stop.raised or not paused:
                return waited
            self._lock.beat()
            time.sleep(PAUSE_POLL)
            waited = time.perf_counter() - started

    def _answer(self, request: Request, step: int, paused: bool) -> bool:
        """Whether the run is paused from now on."""
        if request.command == "pause":
            if not paused:
                self._store.set_state("paused")
                self._say("info", "request", f"paused after step {step}")
            self._store.acknowledge(request.id, f"paused after step {step}")
            return True
        if request.command == "resume":
            if paused:
                self._store.set_state("running")
                self._say("info", "request", "going on")
            self._store.acknowledge(request.id, "going on" if paused else "was not paused")
            return False
        if request.command == "checkpoint":
            self._checkpoint(step)
            self._store.acknowledge(request.id, f"saved after step {step}")
            return paused
        if request.command == "stop":
            self._stop.signal = "a stop request"
            self._store.acknowledge(request.id, f"stopping after step {step}")
            return False
        self._store.acknowledge(request.id, f"unknown command {request.command!r}")
        return paused
