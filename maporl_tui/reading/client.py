"""Reads one run's store for the app, away from the thread that draws.

In: questions (functions of a ``StoreReader``).  Out: their answers, or StoreError.  Neighbours:
``app`` polls it, screens ask it; nothing else in the app opens a file or a database.

One thread per run does all the reading, so that a slow disk never holds up the screen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from maporl_core.config.load import load_stored
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, MaporlError, StoreError
from maporl_core.store.reader import (
    LiveDiscussion,
    RequestWriter,
    RunDir,
    RunSummary,
    StoreReader,
    list_runs,
)
from maporl_tui.reading.view import News, RunView

Answer = TypeVar("Answer")

_LOG_LINES = 8
_ENDED_BADLY = ("failed", "died")


class StoreClient:
    """The store of one run."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"store-{run.name}")
        self._reader: StoreReader | None = None
        self._closed = False

    async def ask(self, question: Callable[[StoreReader], Answer]) -> Answer:
        """The answer to a question, read in the client's thread.  Raises StoreError."""

        def read() -> Answer:
            return question(self._open())

        return await self._in_thread(read)

    async def first_look(self) -> RunView:
        """An empty view with the run's config."""
        run = self.run

        def read() -> tuple[RunConfig | None, str | None]:
            try:
                return load_stored(run.config), None
            except MaporlError as error:
                return None, str(error)

        config, problem = await self._in_thread(read)
        return RunView(run.name, str(run.path), config=config, config_problem=problem)

    async def look(self, view: RunView) -> News:
        """What changed since ``view``.  Raises StoreError when the store cannot be read."""
        return await self.ask(lambda reader: read_news(reader, view))

    async def request(self, command: str) -> int:
        """Leave a request for the trainer and return its id.  Raises StoreError, ConfigError."""

        def write() -> int:
            return RequestWriter(self.run).add(command)

        return await self._in_thread(write)

    def close(self) -> None:
        """Let go of the store; a question that is being answered is not waited for."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            self._thread.submit(reader.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        """What ``work`` returns.  Raises StoreError after ``close``: somebody was still asking."""
        if self._closed:
            raise StoreError(f"{self.run.name} is no longer looked at")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> StoreReader:
        if self._reader is None:
            self._reader = StoreReader(self.run)
        return self._reader


def read_news(reader: StoreReader, view: RunView) -> News:
    """One look at the store: only the trainer's state while nothing was committed."""
    status, now = reader.status(), time.time()
    changed = reader.changed()
    ended_badly = status.state in _ENDED_BADLY and status.state != view.status.state
    log_tail = reader.run.log_tail(_LOG_LINES) if ended_badly else ()
    # After a look that failed, what it had found may never have arrived.
    if not changed and view.generation >= 0 and view.problem is None:
        return News(status, view.generation, log_tail=log_tail, time=now)
    meta = reader.meta()
    generation = int(meta.get("generation", "0"))
    start_over = generation != view.generation
    event = 0 if start_over or not view.events else view.events[-1].id
    open_requests = [request.id for request in view.waiting]
    request = 0 if start_over else min(open_requests, default=max(view.requests, default=0) + 1) - 1
    written = reader.last_written()
    new_step = start_over or written != view.last_written
    return News(
        status=status,
        generation=generation,
        start_over=start_over,
        meta=meta,
        events=reader.last_events(1000) if event == 0 else reader.events_since(event),
        metrics=reader.latest_metrics() if new_step else None,
        metric_names=reader.metric_names() if new_step else None,
        parts=reader.reward_parts() if new_step else None,
        last_written=written,
        live=_live(reader, view),
        evaluations=reader.evaluations(),
        requests=reader.requests_since(request),
        log_tail=log_tail,
        time=now,
    )


def _live(reader: StoreReader, view: RunView) -> LiveDiscussion | None:
    found = reader.live()
    return None if found == view.live else found


async def read_runs(root: Path) -> tuple[RunSummary, ...]:
    """Every run below ``root``; none when there is no such folder.

    Raises ConfigError when ``root`` is a file, StoreError when it cannot be read.
    """
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is not a folder: name the folder that holds the runs")
    return await asyncio.to_thread(list_runs, root)
