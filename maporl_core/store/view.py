"""One run's store held open for reading, whatever happens to the file meanwhile.

In: a run's folder.  Out: read transactions, each one consistent view.  Neighbours: ``reader`` asks
its questions through it, ``database`` opens the file.  Safe to use from several threads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from maporl_core.errors import StoreError
from maporl_core.store import schema
from maporl_core.store.database import open_for_reading
from maporl_core.store.failures import store_errors
from maporl_core.store.paths import RunDir


class View:
    """The store of one existing run, read-only.  Raises StoreError when it cannot be read."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._mutex = threading.RLock()
        self._opened = open_for_reading(run.database)
        self._mark = self._file_mark()
        self._data_version: int | None = None
        self._depth = 0

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the store for the block; a block within a block shares it."""
        with self._mutex, store_errors("read", self.run.database):
            if not self._depth:
                self._begin()
            connection = self._opened.connection
            self._depth += 1
            try:
                yield connection
            finally:
                self._depth -= 1
                if not self._depth and connection.in_transaction:
                    connection.execute("COMMIT")

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Everything read within the block is of one moment, however long it takes.

        Only in WAL mode: with a rollback journal the trainer would have to wait for the reader.
        """
        with self._mutex, store_errors("read", self.run.database):
            mode = self._opened.connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            yield
            return
        with self.read():
            yield

    def changed(self) -> bool:
        """Whether anything was committed since the last call; True the first time."""
        with self.read() as connection:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            fresh = bool(self._data_version != version)
            self._data_version = version
        return fresh

    def close(self) -> None:
        with self._mutex:
            self._opened.close()

    def _begin(self) -> None:
        mark = self._file_mark()
        if mark is None:
            raise StoreError(f"{self.run.database} is gone: the run was moved or removed")
        if mark != self._mark:
            self._reopen()
            self._mark = mark
        self._opened.connection.execute("BEGIN")
        if self._opened.version < schema.SCHEMA_VERSION and self._was_migrated():
            self._reopen()
            self._opened.connection.execute("BEGIN")

    def _was_migrated(self) -> bool:
        """Whether a writer has brought an older store up to date since it was opened."""
        found = schema.stored_version(self._opened.connection, self.run.database)
        return found != self._opened.version

    def _reopen(self) -> None:
        self._opened.close()
        self._opened = open_for_reading(self.run.database)
        self._data_version = None

    def _file_mark(self) -> tuple[int, ...] | None:
        """What tells this store file from another; of a frozen view also from a newer state."""
        try:
            status = self.run.database.stat()
        except OSError:
            return None
        same = (status.st_dev, status.st_ino)
        return (*same, status.st_mtime_ns, status.st_size) if self._opened.frozen else same
