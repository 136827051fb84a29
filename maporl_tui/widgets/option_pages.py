"""Lists of options, and the command palette, that can be asked to page before they are laid out.

In and out: as Textual's own.  Neighbours: ``app`` opens the palette, Launch and the dialogs use the
list.

Textual's list looks up the line of its cursor when it pages; in a terminal too small to show the
list, or right after it opened, no lines are known yet and the look-up would end the app.
"""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.widgets import OptionList


class PagedOptions(OptionList):
    """An option list that stays where it is while it has no lines to page through."""

    # Room for a letter, its padding and the scrollbar: text cannot be wrapped at no width at all.
    DEFAULT_CSS = "PagedOptions { min-width: 6; }"

    def action_page_up(self) -> None:
        with suppress(KeyError):
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        with suppress(KeyError):
            super().action_page_down()  # type: ignore[no-untyped-call]


class Palette(CommandPalette):
    """The command palette, with the same patience, and none for keys when it is half gone."""

    def _watch__list_visible(self) -> None:
        with suppress(NoMatches):
            super()._watch__list_visible()

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError, NoMatches):
            super()._action_command_list(action)

    def _action_cursor_down(self) -> None:
        with suppress(NoMatches):
            super()._action_cursor_down()
