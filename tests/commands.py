"""``maporl`` commands as processes of their own that say which phase they are in.

A fork server holds the libraries, so that a command costs no start-up; the rest is the command.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Self

from kills.killed_run import attempt

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["kills.killed_run"])
PATIENCE = 240.0  # seconds; a busy machine is no fault of the product

TINY = """
[discussion]
turns = 2
style = "compact"
max_new_tokens = 8
[verifier]
kind = "noisy"
[train]
steps = 4
problems_per_step = 2
[update]
epochs = 1
lr = 1e-3
[eval]
questions = 2
every = 2
[checkpoint]
every = 2
[[agents]]
name = "Ada"
[[agents]]
name = "Bo"
"""


def tiny(folder: Path) -> Path:
    """A file that describes a run of four quick steps."""
    path = folder / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


class Command:
    """One command under way."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.log = folder / f"output-{len(list(folder.glob('output-*')))}.txt"
        self._pipe, its = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=attempt, args=(words, its, self.log))
        self._process.start()
        its.close()

    def until(self, phase: str, times: int = 1) -> Self:
        """Wait until it enters this phase for the so-manieth time."""
        while times:
            assert self._pipe.poll(PATIENCE), f"never came to {phase}"
            times -= self._pipe.recv_bytes().decode() == phase
        return self

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def signal(self, number: int) -> Self:
        os.kill(self.pid, number)
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


def command(folder: Path, *words: object) -> tuple[int | None, str]:
    """Run one command to its end."""
    return Command([str(word) for word in words], folder).end()
