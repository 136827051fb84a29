"""Opens ``run.db``: for writing, for reading beside a writer, and on read-only folders.

In: a path.  Out: an sqlite3 connection in autocommit mode, checked to be a current maporl store.
Neighbours: ``paths`` creates stores with it, ``writer``, ``requests`` and ``reader`` open them.

A local store is in WAL mode: readers never wait for the writer nor hold it up.  WAL needs shared
memory, which network file systems lack; a store there uses a rollback journal.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from maporl_core.errors import StoreError
from maporl_core.store import schema
from maporl_core.store.failures import sqlite_code, store_errors
from maporl_core.store.older import adapt, migrate
from maporl_core.store.schema import APPLICATION_ID, create_tables, stored_version

WRITE_PATIENCE = 30.0
"""Seconds a writer waits for another writer before it gives up."""
READ_PATIENCE = 10.0

_NETWORK = {
    "9p", "afs", "afpfs", "autofs", "beegfs", "ceph", "cifs", "davfs", "fuse.beegfs-fuse",
    "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs",
    "panfs", "pvfs2", "smb2", "smb3", "smbfs", "virtiofs", "wekafs",
}  # fmt: skip


@dataclass(slots=True)
class ReadConnection:
    """A read-only connection; ``frozen`` when it shows the file as it was when it was opened.

    ``version`` is the schema that the store had then; an older one is shown through views.
    """

    connection: sqlite3.Connection
    version: int
    frozen: bool = False
    copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def create_database(path: Path, meta: Mapping[str, str]) -> None:
    """Make a new store holding ``meta``; leaves one self-contained file behind."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        _set_journal(connection, network_file_system(path) is not None)
        create_tables(connection)
        facts = {"state": "new", "created": repr(time.time()), **meta}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        connection.execute("COMMIT")
    finally:
        connection.close()


def is_store(path: Path) -> bool:
    """True for a file whose head is that of a maporl store, even if the rest is damaged.

    Not for a store that this process has open: closing a second handle drops SQLite's file locks.
    """
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(b"SQLite format 3\x00") and head[68:] == APPLICATION_ID.to_bytes(4)


def open_for_writing(
    path: Path, may_migrate: Callable[[], None] | None = None
) -> sqlite3.Connection:
    """An existing store, migrated if it is older.  Raises StoreError otherwise.

    ``may_migrate`` is asked before an older store is migrated, and raises if it should not be.
    """
    with store_errors("open", path):
        connection = _open_writable(path)
        try:
            if stored_version(connection, path) < schema.SCHEMA_VERSION and may_migrate is not None:
                may_migrate()
            migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_requests(path: Path) -> sqlite3.Connection:
    """An existing store to leave requests in, whatever its version: its trainer may be an older
    maporl, which a migration would stop.  Raises StoreError otherwise."""
    with store_errors("open", path):
        return _open_writable(path)


def open_for_reading(path: Path) -> ReadConnection:
    """An existing store, read-only; works beside a writer and in folders that cannot be written.

    An older store is left as it is.  Raises StoreError for what cannot be read.
    """
    with store_errors("open", path):
        _must_exist(path)
        return _open_somehow(path)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One write transaction: it takes the write lock at once, so it never has to upgrade."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def network_file_system(path: Path) -> str | None:
    """The type of the file system ``path`` lies on if it is a network one, else None."""
    import psutil

    try:
        real = path.resolve()
        mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    except OSError:
        return None
    for folder in (real, *real.parents):
        if folder in mounts:
            kind = mounts[folder].lower()
            return kind if kind in _NETWORK else None
    return None


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise StoreError(f"no run store at {path}: name the folder of a run")


def _open_writable(path: Path) -> sqlite3.Connection:
    _must_exist(path)
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        # SQLite would open it all the same and complain at the first write.
        raise PermissionError(errno.EACCES, "not writable")
    connection = _connect(path, "mode=rw", WRITE_PATIENCE)
    try:
        stored_version(connection, path)
        _set_journal(connection, network_file_system(path) is not None)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, options: str, patience: float) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=patience, check_same_thread=False
    )
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _set_journal(connection: sqlite3.Connection, network: bool) -> None:
    wanted = "delete" if network else "wal"
    current = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if current != wanted:
        current = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]
    # NORMAL is safe in WAL mode; a rollback journal needs FULL to survive a power cut.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if current == 'wal' else 'FULL'}")


def _open_somehow(path: Path) -> ReadConnection:
    try:
        return _readable(_connect(path, "mode=ro", READ_PATIENCE), path)
    except sqlite3.OperationalError as error:
        if not sqlite_code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
    # The folder cannot be written, so SQLite cannot make the shared memory that WAL mode needs.
    logs = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    logs = [log for log in logs if log.is_file() and log.stat().st_size]
    if not logs:
        return _readable(_connect(path, "immutable=1", READ_PATIENCE), path, frozen=True)
    # A log was left behind by a killed writer: its rows count, so read a copy that can recover.
    folder = tempfile.TemporaryDirectory(prefix="maporl-")
    try:
        copy = Path(folder.name) / path.name
        shutil.copyfile(path, copy)
        for log in logs:
            shutil.copyfile(log, copy.with_name(log.name))
        opened = _readable(_connect(copy, "mode=rw", READ_PATIENCE), path, frozen=True)
    except BaseException:
        folder.cleanup()
        raise
    opened.copy = folder
    return opened


def _readable(connection: sqlite3.Connection, path: Path, frozen: bool = False) -> ReadConnection:
    """The connection, proven able to read and unable to write; ``path`` names it in errors."""
    try:
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        version = adapt(connection, path)
        connection.execute("PRAGMA query_only = 1")
    except BaseException:
        connection.close()
        raise
    return ReadConnection(connection, version, frozen)
