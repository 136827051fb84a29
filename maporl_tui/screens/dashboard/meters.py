"""Processor, memory and GPUs, looked at in a thread while a trainer is at work.

In: whose machine, and the trainer's process.  Out: a few lines, drawn again only when they differ.
Neighbours: ``machine`` looks, the Dashboard owns one.
"""

from __future__ import annotations

import asyncio
import time

from textual import work
from textual.content import Content
from textual.widgets import Static

from maporl_tui.drawing.text import safe
from maporl_tui.processes.machine import Machine, load_lines
from maporl_tui.reading.view import RunView

_SECONDS = 2.0
_IDLE_SECONDS = 60.0
"""Between two looks while nobody trains: nothing on the screen moves by itself then."""


class Meters(Static):
    """The machine panel."""

    DEFAULT_CSS = "Meters { height: auto; }"

    def __init__(self, machine: Machine | None = None, *, id: str) -> None:
        super().__init__(markup=False, id=id)
        self._machine = machine or Machine()
        self._view: RunView | None = None
        self._shown = ""
        self._due = 0.0
        self._looks = 0

    def on_mount(self) -> None:
        self.set_interval(_SECONDS, self._tick)

    def show(self, view: RunView | None) -> None:
        """Whose trainer to look at."""
        first = self._view is None and view is not None
        self._view = view
        if first:
            self._due, self._looks = 0.0, 0
            self._tick()

    def _tick(self) -> None:
        view, now = self._view, time.monotonic()
        if view is None or not self.screen.is_current or now < self._due:
            return
        working = view.is_live and view.status.pid is not None
        self._looks += 1  # the first look has nothing to compare with
        self._due = now + (_SECONDS * 0.9 if working or self._looks < 2 else _IDLE_SECONDS)
        self._look()

    @work(exclusive=True, group="meters")
    async def _look(self) -> None:
        view = self._view
        if view is None:
            return
        status = view.status
        load = await asyncio.to_thread(self._machine.look, status.pid, status.host)
        peaks = view.metrics.get("memory/peak_resident"), view.metrics.get("memory/peak_gpu")
        text = safe("\n".join(load_lines(load, peaks)))
        if text != self._shown and self._view is not None:
            self._shown = text
            self.update(Content(text))
