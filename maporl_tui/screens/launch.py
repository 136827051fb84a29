"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class LaunchScreen(RunScreen):
    NAME = "launch"

    def compose_body(self) -> ComposeResult:
        yield Static("launch", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_save(self, *_: object) -> None: ...

    def action_start(self, *_: object) -> None: ...
