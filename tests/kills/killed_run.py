"""One training process that says which phase it is in, to be killed by ``kill_resume``.

In: the words of a ``maporl`` command and a pipe.  Out: one message on the pipe whenever the phase
changes, sent before the phase's first and after its last instruction.  Started by a fork server
that has the libraries loaded, so that a kill costs no start-up; all else is the command itself.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import datasets  # noqa: F401 - loaded here once instead of in every process

import maporl_core.runs.session
import maporl_core.train
from maporl_core.cli.main import main
from maporl_core.learning.updater import Updater
from maporl_core.store.writer import StoreWriter

LOADING, MODELS, BETWEEN = "loading", "loading models", "between steps"
EVALUATION, ROLLOUT, UPDATE = "evaluation", "rollout", "update"
STORE, CHECKPOINT, FINAL = "store write", "checkpoint write", "final adapters"
PHASES = (LOADING, EVALUATION, ROLLOUT, UPDATE, STORE, CHECKPOINT, FINAL)


class Marks:
    """The phases a process is in, innermost last."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._inside = [LOADING]
        self._tell()

    def _tell(self) -> None:
        self._pipe.send_bytes(self._inside[-1].encode())

    def during(self, phase: str, owner: Any, name: str) -> None:
        """Every call of ``owner.name`` is this phase."""
        call: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(call)
        def marked(*args: Any, **options: Any) -> Any:
            self._inside[0] = BETWEEN
            self._inside.append(phase)
            self._tell()
            try:
                return call(*args, **options)
            finally:
                self._inside.pop()
                self._tell()

        setattr(owner, name, marked)


def attempt(words: list[str], pipe: Connection, log: Path) -> None:
    """Run a command to its end, or until somebody kills this process."""
    with log.open("ab", buffering=0) as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    marks = Marks(pipe)
    marks.during(MODELS, sys.modules["maporl_core.train"], "assemble")
    marks.during(EVALUATION, maporl_core.runs.session, "evaluate")
    marks.during(
        ROLLOUT, sys.modules["maporl_core.train"], "one_step"
    )  # its other phases are marked inside
    marks.during(UPDATE, Updater, "update")
    marks.during(STORE, StoreWriter, "write_step")
    marks.during(STORE, StoreWriter, "write_evaluation")
    marks.during(CHECKPOINT, maporl_core.runs.session, "save")
    marks.during(FINAL, maporl_core.runs.session, "save_policies")
    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.close()
    os._exit(code)
