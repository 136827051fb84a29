"""The footer: keys of the screen, drawn anew only when they are others.

In: the screen's bindings and the width of the terminal.  Out: one line of whole entries; what has
no room is left out, help and leaving last.  Neighbour: every screen has one.  Textual's own footer
makes all its widgets anew whenever the focus moves, which is most of the work of such a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.screen import Screen
from textual.widgets import Footer

ALWAYS = ("app.help", "app.detach")
"""Ids of the bindings that stay as long as anything does, the last one longest."""


class KeyLine(Footer):
    """Textual's footer without needless work and without half an entry."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._drawn: tuple[object, ...] | None = None
        self._kept: tuple[str, ...] = ()

    def bindings_changed(self, screen: Screen[Any]) -> None:
        if not (screen.app.app_focus and self.is_attached and screen is self.screen):
            super().bindings_changed(screen)
            return
        shown = tuple(
            (active.binding.key, active.binding.description, active.binding.action, active.enabled)
            for active in self._shown()
        )
        if shown != self._drawn:
            self._drawn = shown
            super().bindings_changed(screen)

    def on_resize(self) -> None:
        if self._drawn is not None and self._fitting() != self._kept:
            self.call_after_refresh(self.recompose)

    def compose(self) -> ComposeResult:
        self._kept = self._fitting()
        for entry in super().compose():
            if getattr(entry, "action", None) in self._kept:
                yield entry

    def _shown(self) -> Iterable[ActiveBinding]:
        bindings = self.screen.active_bindings.values()
        return (active for active in bindings if active.binding.show)

    def _fitting(self) -> tuple[str, ...]:
        """Actions of the entries that have room."""
        entries = []
        for active in self._shown():
            binding = active.binding
            # " key description "
            width = cell_len(self.app.get_key_display(binding)) + cell_len(binding.description) + 3
            entries.append((binding.action, width, binding.id in ALWAYS))
        return fitting(entries, self.app.size.width + 1)  # the last blank needs no room


def fitting(entries: Sequence[tuple[str, int, bool]], width: int) -> tuple[str, ...]:
    """Which of the entries (name, cells, whether it always stays) to show in ``width`` cells.

    Those that always stay go last of all, from the left; the others go from the right.
    """
    kept = list(entries)
    while kept and sum(cells for _, cells, _ in kept) > width:
        others = [entry for entry in kept if not entry[2]]
        kept.remove(others[-1] if others else kept[0])
    return tuple(name for name, _, _ in kept)
