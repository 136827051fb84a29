"""One trainer per run: a lock that a dead process does not keep.

In: the path of ``trainer.lock``.  Out: a held ``RunLock`` or a StoreError naming the holder.
Neighbours: ``paths`` makes it, ``train`` holds it, ``status`` asks who holds it.

The kernel drops an ``flock`` with the process that took it, however that process ended.  A forked
child would share the lock and keep it alive after its parent, so children close it at once.  The
file's modification time is the trainer's heartbeat.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from maporl_core.errors import StoreError
from maporl_core.store.failures import store_errors

HEARTBEAT_LIMIT = 600.0
"""Seconds without a heartbeat after which a trainer that cannot be seen directly counts as dead."""

_ATTEMPTS = 8  # a reader's look holds the lock for microseconds; a trainer holds it for good
_PAUSE = 0.03
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a run; ``quiet`` is seconds since its last heartbeat, never negative."""

    pid: int | None
    host: str | None
    quiet: float


class RunLock:
    """The exclusive right to train one run; use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def acquire(self) -> Self:
        """Take the lock, or raise StoreError that names the process holding it."""
        with store_errors("lock", self.path):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._take(fd)
                os.ftruncate(fd, 0)
                note = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
                os.pwrite(fd, json.dumps(note).encode(), 0)
            except BaseException:
                os.close(fd)
                raise
        self._fd = fd
        _held.add(self)
        return self

    def _take(self, fd: int) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt + 1 < _ATTEMPTS:
                    time.sleep(_PAUSE)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                # A file system without locks: the note in the file has to do.
                holder = read_holder(self.path)
                if holder is None or not _seems_alive(holder):
                    return
                break
            else:
                return
        raise StoreError(_refusal(self.path))

    def beat(self) -> None:
        """Say that the trainer is alive; costs one system call."""
        if self._fd is not None:
            with store_errors("touch", self.path):
                os.utime(self._fd)

    def release(self) -> None:
        """Give the lock back and wipe the note, so that nobody takes it for a living trainer."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            self.forget()

    def forget(self) -> None:
        """Close this process's handle only; a parent that holds the lock keeps it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def holder(path: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does.  Never blocks a trainer that starts."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_holder(path) or Holder(None, None, 0.0)
    except OSError:
        noted = read_holder(path)
        return noted if noted is not None and _seems_alive(noted) else None
    finally:
        os.close(fd)
    noted = read_holder(path)
    # A lock taken on another machine may not be seen here; its heartbeat is.
    if noted and noted.host not in (None, socket.gethostname()) and _seems_alive(noted):
        return noted
    return None


def read_holder(path: Path) -> Holder | None:
    """The note of the last holder, whether or not it still lives."""
    try:
        note = json.loads(path.read_text())
        quiet = max(0.0, time.time() - path.stat().st_mtime)
        return Holder(int(note["pid"]), str(note["host"]), quiet)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _seems_alive(noted: Holder) -> bool:
    if noted.host == socket.gethostname() and noted.pid is not None:
        if noted.pid == os.getpid():
            return False
        try:
            os.kill(noted.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    return noted.quiet < HEARTBEAT_LIMIT


def _refusal(path: Path) -> str:
    run = path.parent.name
    noted = read_holder(path)
    who = f"process {noted.pid} on {noted.host}" if noted else "another process"
    return f"run {run!r} is being trained by {who}: stop it first, or choose another --set name"


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
