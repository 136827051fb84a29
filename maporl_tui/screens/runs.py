"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class RunsScreen(RunScreen):
    NAME = "runs"

    def compose_body(self) -> ComposeResult:
        yield Static("runs", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_attach(self, *_: object) -> None: ...

    def action_mark(self, *_: object) -> None: ...

    def action_compare(self, *_: object) -> None: ...

    def action_delete(self, *_: object) -> None: ...
