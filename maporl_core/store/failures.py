"""Turns what SQLite and the file system say into one StoreError line that says what to do.

In: sqlite3.Error and OSError from any store operation.  Out: ``StoreError``.  Neighbours: every
module of the store wraps its file and database work in ``store_errors``.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maporl_core.errors import StoreError

_TOO_LARGE = "the file size limit of this process is reached: raise it (ulimit -f) and resume"
_DISK_FULL = "the disk is full: free some space and resume; everything written before is kept"
_SQLITE_REASONS = {
    "SQLITE_FULL": _DISK_FULL,
    "SQLITE_BUSY": "another process holds the store locked: close it and try again",
    "SQLITE_LOCKED": "another process holds the store locked: close it and try again",
    "SQLITE_NOTADB": "it is not a maporl store: name the folder of a run",
    "SQLITE_CORRUPT": "the file is damaged: restore run.db from a copy or remove the run",
    "SQLITE_READONLY": "the file or folder is read-only: change its permissions or copy the run",
    "SQLITE_CANTOPEN": "check that its folder is there and that you may read and write it",
    "SQLITE_PERM": "permission denied: check who owns the folder",
    "SQLITE_IOERR": "the disk reports an error: check disk, mount and file size limit (ulimit -f)",
    "SQLITE_TOOBIG": "a text is longer than a store can hold (1 GB)",
    "SQLITE_NOMEM": "out of memory",
}
_OS_REASONS = {
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: "the disk quota is used up: free some space and resume",
    errno.EFBIG: _TOO_LARGE,
    errno.EROFS: "the file system is read-only: choose another runs folder",
    errno.EACCES: "permission denied: check who owns the folder",
    errno.EPERM: "permission denied: check who owns the folder",
    errno.ENOENT: "it is not there any more: it was moved or removed",
    errno.EIO: "the disk reports an error: check the disk or the mount",
}


@contextmanager
def store_errors(doing: str, path: Path) -> Iterator[None]:
    """Raise StoreError for database and file errors of the block, as "cannot <doing> <path>: …".

    Misuse of sqlite3 (ProgrammingError, IntegrityError) is a bug and passes through.
    """
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
        raise
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot {doing} {path}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why, in words; one line."""
    if isinstance(error, OSError):
        known = _OS_REASONS.get(error.errno or 0)
        return known or (error.strerror or str(error))
    name = sqlite_code(error)
    for prefix, text in _SQLITE_REASONS.items():
        if name.startswith(prefix):
            return text
    text = " ".join(str(error).split())
    if text.startswith(("no such table", "no such column")):
        return f"it is not a whole maporl store ({text})"
    return text


def sqlite_code(error: BaseException) -> str:
    """The symbolic SQLite result code, e.g. "SQLITE_FULL"; "" where there is none."""
    return str(getattr(error, "sqlite_errorname", "") or "")


def os_error(error: BaseException) -> OSError | None:
    """What the operating system said, however the library that met it words it; else None."""
    if isinstance(error, OSError):
        return error
    said = re.search(r"\bos error (\d+)", str(error))  # as libraries written in Rust put it
    if said is not None:
        return OSError(int(said[1]), str(error))
    full = sqlite_code(error) == "SQLITE_FULL" or "No space left on device" in str(error)
    return OSError(errno.ENOSPC, str(error)) if full else None
