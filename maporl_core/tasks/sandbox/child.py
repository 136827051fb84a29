"""The process in which things run that must not run in the trainer, under hard limits.

Started by ``bounded``.  In: one JSON request per line on stdin, with ``limit`` in seconds of CPU
time.  Out: one JSON reply per line on stdout, ``{"value": …}`` or ``{"error": kind, "detail":
text}`` with the kinds "time", "died" and "failed".  Neighbours: ``maths``, ``gym`` and
``verifiers`` answer the requests.

The first process loads the libraries once and stays clean.  A forked worker answers; one that
runs out of time or memory is killed and the next one is forked in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MEMORY = 768 * 2**20  # bytes a worker may add to what the libraries take
WORKER_REQUESTS = 500  # then a fresh worker, so that library caches cannot pile up
MAX_REPLY = 4 * 2**20  # bytes
WALL_FACTOR, WALL_EXTRA = 4.0, 5.0  # wall time allowed for a CPU limit, seconds

Handler = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """``memory`` as ``MEMORY``; ``files`` may be written where nothing a model wrote is seen."""

    memory: int = MEMORY
    files: bool = False


STRICT = Limits()
LOADING = Limits(memory=16 * 2**30, files=True)  # data sets are downloaded, and mapped whole


def limit_worker(limits: Limits) -> None:
    """No more memory than allowed, no files, no core dumps; dies with its parent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not limits.files:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 - not a path of a user
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limits.memory,) * 2)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, ValueError, AttributeError):  # not Linux: the time limit still holds
        pass


def work(handler: Handler, requests: int, replies: int, limits: Limits) -> None:
    """Answers requests until there are none; every failure becomes a reply."""
    limit_worker(limits)
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            # CPU time: an answer must not be wrong because other processes were busy.  The
            # signal's default action ends the worker, whatever it is in the middle of.
            signal.setitimer(signal.ITIMER_PROF, request["limit"])
            try:
                reply: dict[str, Any] = {"value": handler(request)}
            except MemoryError:
                os._exit(1)  # caches may be broken
            except Exception as error:  # noqa: BLE001 - third-party code on hostile text
                reply = {"error": "failed", "detail": f"{type(error).__name__}: {error}"[:500]}
            signal.setitimer(signal.ITIMER_PROF, 0)
            send(replies, reply)


def send(fd: int, reply: Mapping[str, Any]) -> None:
    write_all(fd, json.dumps(reply).encode() + b"\n")


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


class Worker:
    """A forked child and the two pipes to it; ``closed`` are descriptors it must not keep."""

    def __init__(self, handler: Handler, closed: tuple[int, ...], limits: Limits = STRICT) -> None:
        request_read, self.requests = os.pipe()
        self.replies, reply_write = os.pipe()
        self.served = 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for fd in (self.requests, self.replies, *closed):
                    os.close(fd)
                work(handler, request_read, reply_write, limits)
            finally:
                os._exit(0)
        os.close(request_read)
        os.close(reply_write)

    def ask(self, line: bytes, seconds: float) -> bytes | str:
        """The reply as bytes, or the kind of failure; after a failure the worker is gone."""
        self.served += 1
        deadline = time.monotonic() + WALL_FACTOR * seconds + WALL_EXTRA
        try:
            write_all(self.requests, line)
        except BrokenPipeError:
            return self.end("died")
        reply = b""
        while not reply.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.replies], [], [], left)[0]:
                return self.end("time")
            chunk = os.read(self.replies, 65536)
            if not chunk or len(reply) > MAX_REPLY:
                return self.end("died")
            reply += chunk
        return reply

    def end(self, kind: str = "") -> str:
        """Kills what is left of it; says "time" where the CPU limit was what ended it."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.replies)
        timed_out = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        return "time" if timed_out else kind


def load(kind: str) -> Handler:
    """The handler of this kind.  Raises ImportError when its library is missing."""
    if kind == "maths":
        from maporl_core.tasks.sandbox.maths import Maths

        return Maths()
    if kind in ("tasksets", "verifiers"):
        from maporl_core.tasks.sandbox.verifiers import Tasksets

        return Tasksets()
    from maporl_core.tasks.sandbox.gym import Gym

    return Gym()


def main(kind: str) -> None:
    """Answers requests until the end of input."""
    replies = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # whatever the libraries print must not look like a reply
    os.dup2(null, 2)
    sys.setrecursionlimit(3000)
    try:
        handler = load(kind)
    except ImportError as error:
        send(replies, {"error": "failed", "detail": f"{type(error).__name__}: {error}"})
        return
    send(replies, {"value": "ready"})
    limits = LOADING if kind == "tasksets" else STRICT
    worker: Worker | None = None
    for line in sys.stdin.buffer:
        limit = float(json.loads(line)["limit"])
        if worker is not None and worker.served >= WORKER_REQUESTS:
            worker.end()
            worker = None
        if worker is None:
            worker = Worker(handler, (0, replies), limits)
        reply = worker.ask(line, limit)
        if isinstance(reply, bytes):
            write_all(replies, reply)
            continue
        worker = None
        send(replies, {"error": reply, "detail": f"after {limit:g} s"})
    if worker is not None:
        worker.end()
