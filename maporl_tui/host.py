"""What screens ask of the app that holds them.

In: any widget of the app.  Out: its ``Host``: the run that is looked at, the message that is
selected, and what can be asked for.  Neighbours: ``app`` is the host, ``screens`` and ``widgets``
ask it; none of them knows ``app``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from textual.await_complete import AwaitComplete
from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import Worker

from maporl_core.store.reader import RunDir
from maporl_core.types import Place
from maporl_tui.processes.launcher import Trainer
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.view import RunView

REFRESH = 0.5
"""Seconds between two looks at a run that is being trained."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says.  ``run`` None: the list of runs; ``trainer``: started with us."""

    root: Path = Path("runs")
    run: RunDir | None = None
    screen: str | None = None
    readonly: bool = False
    theme: str | None = None
    refresh: float = REFRESH
    trainer: Trainer | None = None


class Host(Protocol):
    """The app as its screens see it."""

    options: Options
    client: StoreClient | None
    """Reads the run that is looked at; None while there is none."""
    view: RunView | None
    """What is known of that run."""
    selection: Place | None
    """The message that Debate and Rewards show; ``discussion`` is its row in the store."""
    comparison: tuple[RunDir, RunDir] | None
    """Two runs that were marked to be compared."""

    @property
    def readonly(self) -> bool: ...

    # The run
    def attach(self, run: RunDir) -> Worker[None]: ...
    async def look_now(self) -> None: ...
    def detach_run(self) -> None: ...
    def watch_trainer(self, trainer: Trainer) -> Worker[None]: ...

    # Where to go
    def show_screen(self, name: str) -> None: ...
    def go_back(self) -> None: ...
    def open_message(self, chosen: Place, screen: str = "debate") -> None: ...
    def compare_runs(self, a: RunDir, b: RunDir) -> None: ...
    def push_screen(self, screen: Screen[Any]) -> AwaitComplete: ...
    async def push_screen_wait(self, screen: Screen[Any]) -> Any: ...

    # What to say and to hand out
    def say_problem(self, line: str) -> None: ...
    def copy(self, text: str, what: str = "text") -> None: ...
    def export(self, name: str, text: str | Callable[[Path], str]) -> Worker[None]: ...


def host_of(widget: DOMNode) -> Host:
    """The app that a widget lives in."""
    return cast("Host", widget.app)
