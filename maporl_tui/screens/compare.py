"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class CompareScreen(RunScreen):
    NAME = "compare"

    def compose_body(self) -> ComposeResult:
        yield Static("compare", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_swap(self, *_: object) -> None: ...

    def action_lock(self, *_: object) -> None: ...

    def action_flips(self, *_: object) -> None: ...

    def action_diff(self, *_: object) -> None: ...

    def action_ask(self, *_: object) -> None: ...
