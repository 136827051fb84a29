"""Processes for what must not run in the trainer: limits hold, and callers never notice."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from maporl_core.errors import DataError
from maporl_core.tasks.sandbox import child as bounded_child
from maporl_core.tasks.sandbox.bounded import BoundedPool, Patience
from maporl_core.tasks.sandbox.child import Worker


def ask_worker(handler: Callable[[Mapping[str, Any]], Any], limit: float) -> bytes | str:
    worker = Worker(handler, ())
    reply = worker.ask(b'{"limit": %g}\n' % limit, limit)
    if isinstance(reply, bytes):
        worker.end()
    return reply


@pytest.fixture(scope="module")
def pool() -> Iterator[BoundedPool]:
    pool = BoundedPool("maths")
    yield pool
    pool.close()


def test_a_worker_gets_no_more_memory_than_allowed() -> None:
    assert ask_worker(lambda _: len(bytearray(2**32)), 20.0) == "died"
    assert ask_worker(lambda _: len(bytearray(2**20)), 20.0) == b'{"value": 1048576}\n'


def test_a_worker_that_computes_too_long_is_ended_by_its_cpu_limit() -> None:
    def spin(_: Mapping[str, Any]) -> None:
        while True:
            pass

    start = time.monotonic()
    assert ask_worker(spin, 0.1) == "time"
    assert time.monotonic() - start < 30


def test_a_worker_that_sleeps_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_child, "WALL_EXTRA", 0.1)
    start = time.monotonic()
    assert ask_worker(lambda _: time.sleep(60), 0.1) == "time"
    assert time.monotonic() - start < 30


def test_a_worker_cannot_write_files(tmp_path: Any) -> None:
    target = tmp_path / "written"

    def write(_: Mapping[str, Any]) -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        target.write_text("x")
        return "written"

    reply = ask_worker(write, 5.0)
    assert isinstance(reply, bytes)
    assert b"failed" in reply
    assert not target.exists() or target.read_text() == ""


def test_a_failure_inside_becomes_a_reply() -> None:
    reply = ask_worker(lambda request: request["nothing"], 5.0)
    assert reply == b'{"error": "failed", "detail": "KeyError: \'nothing\'"}\n'


def test_a_killed_process_is_replaced_without_notice(pool: BoundedPool) -> None:
    assert pool.ask({"gold": "x", "answer": "x"}, 5.0).value is True
    child = pool._idle[0].process
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert pool.ask({"gold": "x+y", "answer": "y+x"}, 5.0).value is True


def test_replies_to_threads_are_kept_apart(pool: BoundedPool) -> None:
    results: dict[int, bool] = {}

    def ask(n: int) -> None:
        answer = "y+x" if n % 2 else "y-x"
        for _ in range(5):
            results[n] = pool.ask({"gold": "x+y", "answer": answer}, 5.0).value

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: False, 1: True}


def test_a_forked_process_does_not_share_the_pipes_of_its_parent(pool: BoundedPool) -> None:
    assert pool.ask({"gold": "x+y", "answer": "y+x"}, 5.0).value is True
    assert pool._idle
    child = os.fork()
    if child == 0:
        os._exit(0 if not pool._idle else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.ask({"gold": "x-y", "answer": "-y+x"}, 5.0).value is True


def test_a_machine_without_the_engine_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DataError, match="no maths process for grading"):
        BoundedPool("maths").ask({"gold": "x", "answer": "x"}, 1.0)


def test_patience_is_full_again_after_a_while() -> None:
    patience = Patience(most=1.0, least=0.1, budget=3.0, refill=1000.0)
    assert patience.limit() == 1.0
    for _ in range(4):
        patience.spent(1.0)
    time.sleep(0.01)
    assert patience.limit() == 1.0


def test_quick_requests_do_not_use_up_patience() -> None:
    patience = Patience(most=1.0, least=0.1, budget=3.0, refill=0.0)
    for _ in range(1000):
        patience.spent(0.02)
    assert patience.limit() == 1.0


def test_a_storm_of_slow_requests_costs_little_more_than_the_budget() -> None:
    patience = Patience(most=1.0, least=0.1, budget=3.0, refill=0.0)
    spent = 0.0
    for _ in range(64):
        limit = patience.limit()
        patience.spent(limit)
        spent += limit
    assert spent < 3.0 + 64 * 0.15
