"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class DashboardScreen(RunScreen):
    NAME = "dashboard"

    def compose_body(self) -> ComposeResult:
        yield Static("dashboard", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_zoom(self, *_: object) -> None: ...

    def action_crosshair(self, *_: object) -> None: ...

    def action_log_axis(self, *_: object) -> None: ...

    def action_smooth(self, *_: object) -> None: ...
