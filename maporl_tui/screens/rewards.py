"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class RewardsScreen(RunScreen):
    NAME = "rewards"

    def compose_body(self) -> ComposeResult:
        yield Static("rewards", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_part(self, *_: object) -> None: ...

    def action_to_debate(self, *_: object) -> None: ...

    def action_previous_debate(self, *_: object) -> None: ...

    def action_next_debate(self, *_: object) -> None: ...
