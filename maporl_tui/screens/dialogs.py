"""Questions that cover the screen: yes or no, one line of text, a whole text, the keys.

In: what to ask or show.  Out: the answer through ``push_screen_wait`` or a callback; None or False
when left with escape.  Neighbours: the app and every screen.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, DataTable, Input, Label, Static

from maporl_tui.widgets.line_input import LineInput
from maporl_tui.widgets.text_view import Mark, TextView

_CLOSE: list[BindingType] = [Binding("escape", "leave", "Back", id="dialog.leave")]


class Confirm(ModalScreen[bool]):
    """Yes or no; ``y`` and ``n`` answer too."""

    BINDINGS = [
        *_CLOSE,
        Binding("y", "answer(True)", "Yes", id="dialog.yes"),
        Binding("n", "answer(False)", "No", id="dialog.no"),
    ]
    CSS_PATH = "dialogs.tcss"

    def __init__(self, question: str, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), markup=False, id="dialog-question")
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content(f"{self._yes} (y)"), variant="primary", id="yes")
                yield Button(Content(f"{self._no} (n)"), id="no")

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def action_leave(self) -> None:
        self.dismiss(False)


class Ask(ModalScreen[str | None]):
    """One line of text."""

    BINDINGS = _CLOSE
    CSS_PATH = "dialogs.tcss"

    def __init__(self, question: str, value: str = "", placeholder: str = "") -> None:
        super().__init__()
        self._question, self._value, self._placeholder = question, value, placeholder

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), markup=False)
            yield LineInput(self._value, placeholder=self._placeholder, id="dialog-input")
            yield Label("enter accepts, escape leaves", classes="dialog-hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class Whole(ModalScreen[None]):
    """A whole text over the screen."""

    BINDINGS = [*_CLOSE, Binding("y", "copy", "Copy", id="dialog.copy")]
    CSS_PATH = "dialogs.tcss"

    def __init__(self, title: str, text: str, marks: Iterable[Mark] = ()) -> None:
        super().__init__()
        self._title, self._text, self._marks = title, text, tuple(marks)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large"):
            yield Static(Content(self._title), markup=False, classes="dialog-title")
            yield TextView(id="whole")
            yield Label("y copies, escape leaves", classes="dialog-hint")

    def on_mount(self) -> None:
        view = self.query_one("#whole", TextView)
        view.show(self._text, self._marks)
        view.focus()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.query_one("#whole", TextView).text)
        self.notify("copied to the terminal's clipboard")

    def action_leave(self) -> None:
        self.dismiss(None)


class Keys(ModalScreen[None]):
    """Every key that works here, made from the bindings themselves."""

    BINDINGS = [*_CLOSE, Binding("question_mark", "leave", "Back", show=False)]
    CSS_PATH = "dialogs.tcss"

    def __init__(self, rows: Iterable[tuple[str, str, str]], title: str) -> None:
        super().__init__()
        self._keys, self._title = tuple(rows), title

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -large"):
            yield Static(Content(self._title), markup=False, classes="dialog-title")
            yield DataTable(cursor_type="row", zebra_stripes=True, id="keys")
            yield Label(
                "another key for a name: see docs/tui.md; escape leaves", classes="dialog-hint"
            )

    def on_mount(self) -> None:
        table: DataTable[Text] = self.query_one("#keys", DataTable)
        table.add_columns("key", "does", "name")
        for row in self._keys:
            table.add_row(*(Text(cell) for cell in row))
        table.focus()

    def action_leave(self) -> None:
        self.dismiss(None)
