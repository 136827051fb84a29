"""``maporl verifier data`` as processes of their own that say which phase they are in.

In: the words of a command.  Out: its phases on a pipe, its exit code and output.  A fork server
holds the libraries, so that a command costs no start-up.  A phase is told before its first
instruction; within ``WHOLE`` a file is filled and on disk and does not have its name yet.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import datasets  # noqa: F401 - loaded here once instead of in every process
import pyarrow.parquet  # noqa: F401 - as above

import maporl_core.runs.verifier.sampling as data
from maporl_core.assembly import Assembly, assemble
from maporl_core.cli.main import main
from maporl_core.config.load import load_config
from maporl_core.judging.verifier import files
from maporl_core.kit.progress import Silent

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.verifier_commands"])  # as seen from the root
PATIENCE = 240.0  # seconds; a busy machine is no fault of the product

LOADING, SETTINGS, SAMPLING, PART = "loading", "settings", "sampling", "part"
BALANCING, TABLE, PAGE, CARD, WHOLE = "balancing", "table", "page", "card", "whole"
PHASES = (LOADING, SETTINGS, SAMPLING, PART, BALANCING, TABLE, PAGE, CARD, WHOLE)

if __name__ == "tests.verifier_commands":  # in the fork server
    assemble(load_config("pocket"), Silent())  # fills caches that every process then starts with


At = tuple[str, int, int]
"""A phase, its how-manieth time in the process, and the signal that comes as it is entered."""


def attempt(
    words: list[str], pipe: Connection, log: Path, largest: int | None, at: At | None
) -> None:
    """Run a command to its end, or until it is killed; no file over ``largest`` bytes."""
    with log.open("ab", buffering=0) as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    entered: Counter[str] = Counter()

    def told(phase: str, owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(call)
        def marked(*args: Any, **options: Any) -> Any:
            pipe.send_bytes(phase.encode())
            entered[phase] += 1
            if at is not None and (phase, entered[phase]) == at[:2]:
                os.kill(os.getpid(), at[2])
            return call(*args, **options)

        setattr(owner, name, marked)

    data.PART_ANSWERS = 40  # more parts of less work
    pipe.send_bytes(LOADING.encode())
    told(SETTINGS, data, "begin")
    told(SAMPLING, Assembly, "hold")
    told(PART, files, "write_part")
    told(BALANCING, data, "select")
    told(TABLE, files, "write_examples")
    told(PAGE, data, "data_page")
    told(CARD, files, "write_json")
    told(WHOLE, files, "flush")
    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.close()
    os._exit(code)


class Command:
    """One command under way."""

    def __init__(
        self, words: list[str], folder: Path, *, largest: int | None = None, at: At | None = None
    ) -> None:
        self.log = folder / f"output-{len(list(folder.glob('output-*')))}.txt"
        self._pipe, its = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=attempt, args=(words, its, self.log, largest, at))
        self._process.start()
        its.close()

    def until(self, phase: str, times: int = 1) -> Self:
        """Wait until it enters this phase for the so-manieth time, or has ended."""
        while times and self._pipe.poll(PATIENCE):
            try:
                times -= self._pipe.recv_bytes().decode() == phase
            except EOFError:
                break
        return self

    def after(self, seconds: float) -> Self:
        time.sleep(seconds)
        return self

    def signal(self, number: int) -> Self:
        assert self._process.pid is not None
        if self._process.exitcode is None:
            os.kill(self._process.pid, number)
        return self

    def end(self) -> tuple[int | None, str]:
        """Its exit code, and all that it wrote."""
        try:
            while self._pipe.poll(PATIENCE):
                self._pipe.recv_bytes()
        except EOFError:
            pass
        self._process.join(PATIENCE)
        if self._process.exitcode is None:
            self._process.kill()
        return self._process.exitcode, self.log.read_text("utf-8", "replace")


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
