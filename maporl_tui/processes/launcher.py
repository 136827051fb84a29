"""Starts a trainer as a process of its own, which goes on without the app and without a terminal.

In: a command of ``maporl`` (``run …`` or ``resume …``).  Out: the run's folder as soon as its store
is there, or the one line with which the child refused.  Neighbours: the Launch screen and
``__main__`` call it.  No Textual in here.

The child has a session of its own, no terminal, and nothing to read; what it prints goes into a
file beside the run, and into the run's folder once there is one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from maporl_core.config.load import load_config
from maporl_core.errors import ConfigError, MaporlError, StoreError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import free_name
from maporl_core.store.reader import RunDir, StoreReader

LOG_NAME = "output.txt"
"""What the trainer printed, in its run's folder."""
POLL = 0.1
"""Seconds between two looks at a child that starts."""
_TAIL = 20_000  # bytes of output that are looked through for the reason of an end


class LaunchError(MaporlError):
    """The trainer ended before its run began; ``exit_code`` is the child's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Order:
    """One run to be trained: its folder and the words after ``maporl``."""

    run: RunDir
    words: tuple[str, ...]
    resumes: bool = False


def run_order(
    source: str | None, changes: Sequence[str], root: Path, name: str | None = None
) -> Order:
    """A new run.  ``name`` None: after its source, with a number if that is taken.

    Raises ConfigError when the description is wrong, or a name that was asked for is taken (with a
    free one to take instead).
    """
    config = load_config(source, changes, name=name)
    own = name is not None or any(change.split("=")[0].strip() == "name" for change in changes)
    free = free_name(root, config.name)
    if own and free != config.name:
        raise ConfigError(
            f"name: {config.name!r} is taken in {root}; take another, such as {free!r}"
        )
    words = ["run", *([source] if source is not None else [])]
    for change in changes:
        words += ["--set", change]
    words += ["--name", free, "--root", str(root)]
    return Order(RunDir(root / free), tuple(words))


def resume_order(text: str, changes: Sequence[str], root: Path) -> Order:
    """A run that goes on.  Raises ConfigError when there is none, StoreError while it trains."""
    run = RunDir.find(root, text)
    with StoreReader(run) as reader:
        status = reader.status()
    if status.pid is not None:
        raise StoreError(f"run {run.name!r} is being trained already, by process {status.pid}")
    words = ["resume", str(run.path)]
    for change in changes:
        words += ["--set", change]
    return Order(run, tuple(words), resumes=True)


class Trainer:
    """One started child.  It goes on whatever becomes of this object and of this process."""

    def __init__(self, order: Order) -> None:
        """Start it.  Raises StoreError when its output has nowhere to go."""
        self.order = order
        run = order.run
        self._log = run.path.parent / f".{run.name}.output-{os.getpid()}.txt"
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            # Kept open: the child's last words can be read when its folder is gone.
            self._output = self._log.open("w+b")
        except OSError as error:
            raise StoreError(f"cannot write {self._log}: {error.strerror or error}") from error
        self._child = subprocess.Popen(
            [sys.executable, "-m", "maporl_core", *order.words],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._began = time.monotonic()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._began

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def ready(self) -> bool:
        """Whether the run can be looked at.  Raises LaunchError when the child has ended instead.

        A new run is there with its store; one that goes on, when the child holds it.
        """
        here = self._holds() if self.order.resumes else self.order.run.database.is_file()
        if here:
            self._move_log()
            return True
        if self.ended:
            code = self._child.returncode
            with suppress(OSError):
                self._log.unlink(missing_ok=True)
            if code == 0:  # a finished run that had nothing left to do
                raise LaunchError(self.last_words() or "nothing was left to do", 2)
            raise LaunchError(self.last_words() or _silent(code), code if code > 0 else 1)
        return False

    def failure(self) -> str | None:
        """Why a run that began has gone again (its model or data could not be loaded), or None."""
        if not self.ended or not self._child.returncode or self.order.run.database.is_file():
            return None
        return self.last_words() or _silent(self._child.returncode)

    def last_words(self) -> str:
        """The child's error, or the last line that it printed; empty when it said nothing."""
        size = os.fstat(self._output.fileno()).st_size
        data = os.pread(self._output.fileno(), _TAIL, max(0, size - _TAIL))
        lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line]
        begins = [i for i, line in enumerate(lines) if line.startswith("maporl: ")]
        if begins:
            return one_line(" · ".join(lines[begins[-1] :]).removeprefix("maporl: "), 400)
        return one_line(lines[-1], 400) if lines else ""

    def _holds(self) -> bool:
        try:
            with StoreReader(self.order.run) as reader:
                return reader.status().pid == self.pid
        except StoreError:
            return False

    def _move_log(self) -> None:
        folder = self.order.run.path
        with suppress(OSError):  # it only stays where it was
            self._log.replace(folder / LOG_NAME)


def start_and_wait(order: Order, say: Callable[[str], None]) -> Trainer:
    """Start a trainer and wait for its run; ``say`` gets one line now and then.

    Raises LaunchError, StoreError; blocks: the app uses ``Trainer`` itself.
    """
    trainer = Trainer(order)
    said = -5.0
    while not trainer.ready():
        if trainer.seconds - said >= 5:
            said = trainer.seconds
            say(waiting_line(trainer))
        time.sleep(POLL)
    return trainer


def waiting_line(trainer: Trainer) -> str:
    """How far a start is, in one line."""
    words = trainer.last_words()
    doing = f": {words}" if words else ""
    return f"starting {trainer.order.run.name}, {trainer.seconds:.0f} s{doing}"


def _silent(code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the trainer {how} and said nothing"
