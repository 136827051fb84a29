"""Asks ``child`` processes: symbolic maths and third-party scoring under hard limits.

In: a JSON-able request and a time limit.  Out: a ``Reply``, whatever a request does to its
process; a DataError only where no process can be had at all.  Callers may be any thread of any
process; each call gets a child of its own for as long as it takes.  Children start when first
needed (about a second) and end with this process.  Neighbours: ``maths``, ``gym``
and ``verifiers``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maporl_core.errors import DataError
from maporl_core.kit.plain_text import one_line

# This package comes last on the path: nothing beside it may hide a module of the libraries.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from maporl_core.tasks.sandbox.child import main; main(sys.argv[2])"
)
_ROOT = str(Path(__file__).resolve().parents[3])
_START_SECONDS = 120.0  # importing the libraries on a busy machine
_GRACE_SECONDS = 10.0  # beyond the limit, before the child itself counts as hung
_IDLE_CHILDREN = 2  # kept for the next call


@dataclass(frozen=True, slots=True)
class Reply:
    """``error`` is "" or what happened: "time", "died" (memory) or "failed" (an exception)."""

    value: Any
    error: str = ""
    detail: str = ""
    seconds: float = 0.0  # from request to reply


class _Child:
    def __init__(self, kind: str) -> None:
        environment = {
            **os.environ,
            # One thread per child, and the same order of sets in every process.
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            "PYTHONHASHSEED": "0",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-c", _PROGRAM, _ROOT, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
            start_new_session=True,  # Ctrl-C stops the run in order; it must not kill a grading
        )
        self.buffer = b""
        try:
            reply = self._read(time.monotonic() + _START_SECONDS)
        except OSError as error:
            self.close()
            raise OSError(f"grading process does not start: {error}") from error
        if reply.error:
            self.close()
            raise OSError(reply.detail)

    def ask(self, request: Mapping[str, Any], limit: float) -> Reply:
        """Raises OSError when the child itself is gone or hangs."""
        assert self.process.stdin is not None
        data = memoryview(json.dumps({**request, "limit": limit}).encode() + b"\n")
        while data:
            data = data[self.process.stdin.write(data) :]
        start = time.monotonic()
        reply = self._read(start + 5 * limit + _GRACE_SECONDS)
        return replace(reply, seconds=time.monotonic() - start)

    def _read(self, deadline: float) -> Reply:
        assert self.process.stdout is not None
        while b"\n" not in self.buffer:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise OSError("no reply in time")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise OSError("it ended without a reply")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        found = json.loads(line)
        return Reply(found.get("value"), found.get("error", ""), found.get("detail", ""))

    def close(self) -> None:
        """End of input ends the child and its worker; killing is for one that hangs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class BoundedPool:
    """Children of one kind, as ``child.load`` names them; as many at once as threads ask."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.close)

    def _reset(self) -> None:
        """Children belong to the process that started them: a fork begins with none."""
        self._lock = threading.Lock()
        self._idle: list[_Child] = []

    def ask(self, request: Mapping[str, Any], limit: float) -> Reply:
        """The reply to one request within ``limit`` seconds of CPU time.

        Wall time is bounded by a few times that.  The start of a child is not counted, and one
        that is gone is replaced, once per call.  Raises DataError when that fails as well.
        """
        problem = ""
        for _ in range(2):
            try:
                child = self._take()
            except OSError as error:
                problem = str(error)
                continue
            try:
                reply = child.ask(request, limit)
            except (OSError, ValueError) as error:
                problem = str(error)
                child.close()
                continue
            except BaseException:  # interrupted in between: its next reply would be a stale one
                child.process.kill()
                child.close()
                raise
            self._give_back(child)
            return reply
        raise DataError(
            f"no {self.kind} process for grading answers ({one_line(problem)}); check the "
            "installation with maporl doctor, and free memory"
        )

    def _take(self) -> _Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Child(self.kind)

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_CHILDREN:
                self._idle.append(child)
                return
        child.close()

    def close(self) -> None:
        with self._lock:
            children, self._idle = self._idle, []
        for child in children:
            child.close()


class Patience:
    """How long the next request may take: less, the more time slow ones have cost just now.

    ``budget`` seconds may go to slow requests; it fills up again at ``refill`` seconds per
    second.  So a storm of answers built to hang costs seconds, not minutes, while one slow
    answer among good ones does not cut the others short.  Quick requests cost nothing.
    """

    quick = 0.05  # seconds

    def __init__(self, most: float, least: float, budget: float, refill: float) -> None:
        self.most, self.least, self.budget, self.refill = most, least, budget, refill
        self._left = budget
        self._seen = time.monotonic()
        self._lock = threading.Lock()

    def limit(self) -> float:
        """Seconds for the next request."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self.budget, self._left + (now - self._seen) * self.refill)
            self._seen = now
            return min(self.most, max(self.least, self._left / 3))

    def spent(self, seconds: float) -> None:
        """What the request really took."""
        with self._lock:
            self._left = max(0.0, self._left - max(0.0, seconds - self.quick))
