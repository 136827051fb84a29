"""A dialog that lets one of a few named things be chosen.

In: (value, what it is) pairs.  Out: the value; None when left with escape.  Neighbour: the Launch
screen, for its presets.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from maporl_tui.widgets.option_pages import PagedOptions


class Choose(ModalScreen[str | None]):
    """One of several."""

    BINDINGS = [Binding("escape", "leave", "Back", id="dialog.leave")]
    CSS_PATH = "../dialogs.tcss"
    DEFAULT_CSS = """
    Choose { align: center middle; background: $background 60%; }
    Choose OptionList { height: auto; max-height: 14; border: none; }
    """

    def __init__(self, question: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question, self._choices = question, tuple(choices)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), markup=False)
            yield PagedOptions(
                *(
                    Option(Content.assemble((value, "bold"), f"  {meaning}"), id=str(number))
                    for number, (value, meaning) in enumerate(self._choices)
                )
            )
            yield Label("enter chooses, escape leaves", classes="dialog-hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][0])

    def action_leave(self) -> None:
        self.dismiss(None)
