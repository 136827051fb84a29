"""Placeholder."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from maporl_tui.screens.base import RunScreen
from maporl_tui.view import RunView


class DebateScreen(RunScreen):
    NAME = "debate"

    def compose_body(self) -> ComposeResult:
        yield Static("debate", id="x")

    def show_view(self, view: RunView | None) -> None:
        self.query_one("#x", Static).update(str(view and view.step))

    def action_previous_debate(self, *_: object) -> None: ...

    def action_next_debate(self, *_: object) -> None: ...

    def action_agent(self, *_: object) -> None: ...

    def action_turn(self, *_: object) -> None: ...

    def action_open_whole(self, *_: object) -> None: ...

    def action_raw_prompt(self, *_: object) -> None: ...

    def action_only(self, *_: object) -> None: ...
