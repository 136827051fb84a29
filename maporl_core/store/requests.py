"""Asks a running trainer for something, through its store.

In: a command of ``records.COMMANDS``.  Out: a row that the trainer finds within one step and
answers.  Neighbours: ``writer.poll_requests`` and ``writer.acknowledge`` are the other end,
``reader.request`` shows the answer.  A request is on disk before ``add`` returns, so it survives
whoever made it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from maporl_core.errors import ConfigError, StoreError
from maporl_core.kit.nearest import nearest
from maporl_core.store.database import open_for_requests, transaction
from maporl_core.store.failures import store_errors
from maporl_core.store.lock import holder
from maporl_core.store.paths import RunDir
from maporl_core.store.records import COMMANDS
from maporl_core.store.values import put_json


class RequestWriter:
    """Writes requests to one run; keeps no connection open between them."""

    def __init__(self, run: RunDir) -> None:
        self.run = run

    def add(
        self, command: str, args: Mapping[str, Any] | None = None, require_trainer: bool = True
    ) -> int:
        """Leave a request and return its id.

        Raises ConfigError for an unknown command, and StoreError when no trainer lives to answer
        it (unless ``require_trainer`` is off) or the store cannot be written.
        """
        if command not in COMMANDS:
            near = nearest(command, COMMANDS)
            hint = f"did you mean {near!r}?" if near else f"one of {', '.join(COMMANDS)}"
            raise ConfigError(f"unknown request {command!r}: {hint}")
        if require_trainer and holder(self.run.lock_file) is None:
            raise StoreError(
                f"run {self.run.name!r} has no living trainer to {command}: "
                f"start it with `maporl resume {self.run.name}`"
            )
        connection = open_for_requests(self.run.database)
        try:
            with store_errors("write", self.run.database), transaction(connection):
                cursor = connection.execute(
                    "INSERT INTO requests VALUES (NULL, ?, ?, ?, NULL, NULL)",
                    (time.time(), command, put_json(dict(args or {}))),
                )
        finally:
            connection.close()
        assert cursor.lastrowid is not None
        return cursor.lastrowid
