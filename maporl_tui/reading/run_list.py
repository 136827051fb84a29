"""All runs below a folder, read again only where something changed; and one run in short.

In: the folder of runs.  Out: ``RunRow`` for a line of a list, ``Overview`` of one run.  Neighbour:
the Runs screen calls this in a thread.  No Textual in here.

Opening a store takes milliseconds, so a thousand of them take seconds: the newest come first, what
is known by now can be asked for at any time, and a run whose files look as they did is not opened
again.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maporl_core.config.load import load_stored
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, MaporlError, StoreError
from maporl_core.store.reader import Evaluation, Event, RunDir, StoreReader
from maporl_core.types import EvalSummary

DATABASE = "run.db"
SPARK_POINTS = 8
BATCH_SECONDS = 1.0
"""So often the list says how far it is while many runs are being read."""
FIRST_SECONDS = 0.1
"""When it says so first: a screenful of runs is read by then."""
_WATCHED = ("running", "paused")
_EVENTS = 6
_LOG_LINES = 6
_NO_MARK = (0, 0, 0)

Mark = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the list.

    ``rewards`` is the mean total reward over steps, oldest first; ``accuracy`` that of the last
    turn in the last step; ``written`` when the last step was written, or the run made (seconds
    since 1970).  ``problem`` says why an unreadable run is unreadable.
    """

    run: RunDir
    state: str
    step: int = 0
    steps: int | None = None
    algorithm: str = ""
    task: str = ""
    rewards: tuple[float, ...] = ()
    accuracy: float | None = None
    created: float = 0.0
    written: float = 0.0
    pid: int | None = None
    reason: str | None = None
    problem: str | None = None

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def is_live(self) -> bool:
        """Whether a trainer holds it."""
        return self.pid is not None or self.state in _WATCHED


@dataclass(frozen=True, slots=True)
class Overview:
    """One run in short; what cannot be read is empty and ``config_problem`` or ``problem`` says so.

    ``checkpoints`` are names of folders, oldest first; ``size`` is bytes on the disk.
    """

    row: RunRow
    config: RunConfig | None = None
    config_problem: str | None = None
    before: EvalSummary | None = None
    after: EvalSummary | None = None
    events: tuple[Event, ...] = ()
    checkpoints: tuple[str, ...] = ()
    size: int = 0
    log_tail: tuple[str, ...] = ()
    problem: str | None = None


class RunLister:
    """Follows the runs below one folder.  Any thread may ask; one is answered at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[Mark, RunRow]] = {}
        self._turn = threading.Lock()
        self.opened = 0
        """Stores opened so far."""

    def names(self) -> tuple[str, ...]:
        """Names of the runs there are now, last written first; none without such a folder.

        Raises ConfigError when it is a file, StoreError when it cannot be listed.
        """
        try:
            with os.scandir(self.root) as entries:
                folders = [entry.name for entry in entries if not entry.name.startswith(".")]
        except FileNotFoundError:
            return ()
        except NotADirectoryError:
            raise ConfigError(
                f"{self.root} is not a folder: name the folder that holds the runs"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot list {self.root}: {error.strerror}") from error
        times = {name: _written(f"{self.root}/{name}/{DATABASE}") for name in folders}
        found = [name for name in sorted(folders) if times[name] is not None]
        found.sort(key=lambda name: times[name] or 0, reverse=True)
        with self._turn:
            self._known = {name: self._known[name] for name in found if name in self._known}
        return tuple(found)

    def look(self, names: tuple[str, ...]) -> Iterator[int]:
        """Read what changed; how many of ``names`` are done, soon and then every second."""
        since, wait = time.monotonic(), FIRST_SECONDS
        for done, name in enumerate(names, 1):
            with self._turn:
                self._read(name)
            if time.monotonic() - since > wait:
                yield done
                since, wait = time.monotonic(), BATCH_SECONDS

    def rows(self) -> dict[str, RunRow]:
        """What is known by now, by name; a row that did not change is the same object."""
        with self._turn:
            return {name: row for name, (_, row) in self._known.items()}

    def _read(self, name: str) -> None:
        mark = _mark(f"{self.root}/{name}")
        known = self._known.get(name)
        if known is not None and known[0] == mark and known[1].state not in _WATCHED:
            return
        self.opened += 1
        row = read_row(RunDir(self.root / name))
        self._known[name] = (mark, known[1] if known is not None and known[1] == row else row)


def read_row(run: RunDir) -> RunRow:
    """One line of the list; a run that cannot be read is a row that says why."""
    try:
        with StoreReader(run) as reader:
            meta = reader.meta()
            status = reader.status()
            metrics = reader.latest_metrics()
            created = float(meta.get("created", "0"))
            return RunRow(
                run=run,
                state=status.state,
                step=status.step,
                steps=status.steps,
                algorithm=meta.get("algorithm", ""),
                task=meta.get("task", ""),
                rewards=reader.series("reward/total", SPARK_POINTS).means[-SPARK_POINTS:],
                accuracy=last_accuracy(metrics),
                created=created,
                written=reader.last_written() or created,
                pid=status.pid,
                reason=status.reason,
            )
    except (StoreError, ValueError) as error:
        return RunRow(run, "unreadable", problem=str(error))


def last_accuracy(metrics: dict[str, float]) -> float | None:
    """Accuracy of the last turn in one step's metrics."""
    prefix = "accuracy/turn_"
    turns = {
        int(name[len(prefix) :]): value
        for name, value in metrics.items()
        if name.startswith(prefix) and name[len(prefix) :].isdecimal()
    }
    return turns[max(turns)] if turns else None


def read_overview(row: RunRow) -> Overview:
    """One run in short; raises nothing."""
    run = row.run
    config: RunConfig | None = None
    config_problem = problem = None
    evaluations: tuple[Evaluation, ...] = ()
    events: tuple[Event, ...] = ()
    try:
        config = load_stored(run.config)
    except MaporlError as error:
        config_problem = str(error)
    try:
        with StoreReader(run) as reader:
            evaluations = tuple(e for e in reader.evaluations() if e.origin == "run")
            events = reader.last_events(_EVENTS)
    except StoreError as error:
        problem = str(error)
    summaries = [evaluation.summary for evaluation in evaluations]
    base = [s for s in summaries if s.policy_state == "base"]
    trained = [s for s in summaries if s.policy_state != "base"]
    return Overview(
        row=row,
        config=config,
        config_problem=config_problem,
        before=base[0] if base else None,
        after=trained[-1] if trained else None,
        events=events,
        checkpoints=_folders(run.checkpoints),
        size=disk_size(run.path),
        log_tail=run.log_tail(_LOG_LINES) if row.state in ("failed", "died") else (),
        problem=problem,
    )


def disk_size(folder: Path) -> int:
    """Bytes of all files below a folder; what cannot be looked at counts nothing."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(place) / name).lstat().st_size
            except OSError:
                continue
    return total


def _folders(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(p.name for p in folder.iterdir() if p.name.startswith("step-")))
    except OSError:
        return ()


def _mark(path: str) -> Mark:
    """Tells one state of a run's files from another."""
    return (
        _file_mark(f"{path}/{DATABASE}"),
        _file_mark(f"{path}/{DATABASE}-wal", empty_counts=False),
        _file_mark(f"{path}/trainer.lock"),
    )


def _file_mark(path: str, empty_counts: bool = True) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of these: a Path costs more than the call
    except OSError:
        return _NO_MARK
    if not found.st_size and not empty_counts:  # a reader leaves an empty log behind
        return _NO_MARK
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _written(database: str) -> int | None:
    """When a store's file was last written, in nanoseconds; None if there is no such file."""
    try:
        found = os.stat(database)  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None
