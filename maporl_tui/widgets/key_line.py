"""The footer: keys of the screen, drawn anew only when they are others.

In: the screen's bindings.  Out: one line.  Neighbour: every screen has one.  Textual's own footer
makes all its widgets anew whenever the focus moves, which is most of the work of such a key.
"""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widgets import Footer


class KeyLine(Footer):
    """Textual's footer without needless work."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._drawn: tuple[object, ...] | None = None

    def bindings_changed(self, screen: Screen[Any]) -> None:
        if not (screen.app.app_focus and self.is_attached and screen is self.screen):
            super().bindings_changed(screen)
            return
        shown = tuple(
            (active.binding.key, active.binding.description, active.binding.action, active.enabled)
            for active in screen.active_bindings.values()
            if active.binding.show
        )
        if shown != self._drawn:
            self._drawn = shown
            super().bindings_changed(screen)
