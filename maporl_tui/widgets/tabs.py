"""The first line of every screen: the six screens with their keys, the present one marked.

In: the present screen's name.  Out: one line; a click on a name goes there.  Neighbour: ``app``.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Click
from textual.widgets import Static

TABS = ("runs", "dashboard", "debate", "rewards", "compare", "launch")


class _Tab(Static):
    def __init__(self, number: int, name: str, present: bool) -> None:
        label = Content.assemble((str(number), "bold"), f" {name.capitalize()}")
        super().__init__(label, classes="-present" if present else "")
        self._screen = name

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.run_action(f"app.show('{self._screen}')")


class ScreenTabs(Horizontal):
    """Names of the screens."""

    DEFAULT_CSS = """
    ScreenTabs { height: 1; background: $panel; }
    ScreenTabs _Tab { width: auto; padding: 0 1; color: $text-muted; }
    ScreenTabs _Tab.-present { background: $primary; color: $on-color; text-style: bold; }
    """

    def __init__(self, present: str) -> None:
        super().__init__(id="tabs")
        self._present = present

    def compose(self) -> ComposeResult:
        for number, name in enumerate(TABS, 1):
            yield _Tab(number, name, name == self._present)
