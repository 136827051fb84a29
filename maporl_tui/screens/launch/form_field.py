"""One field of the Launch form: its name, a switch, select or input, what it means, what is wrong.

In: a ``Field`` and its value.  Out: ``FieldRow.Edited`` with the new value.  Neighbours: ``form``
knows the values, the Launch screen puts rows into a ``FieldList``.
"""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Select, Static, Switch

from maporl_tui.drawing.text import one_line, safe
from maporl_tui.screens.launch.form import Field
from maporl_tui.screens.launch.form_values import parse, show, takes
from maporl_tui.widgets.line_input import LineInput

Control = Input | Select[str] | Switch


class FieldList(VerticalScroll, can_focus=False, inherit_bindings=False):
    """The fields of a section; up and down go from one to the next."""

    BINDINGS = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
    ]

    def action_step(self, by: int) -> None:
        if by > 0:
            self.screen.focus_next(".control")
        else:
            self.screen.focus_previous(".control")

    @on(Input.Submitted)
    def _next(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_step(1)


class FieldRow(Vertical):
    """One field."""

    class Edited(Message):
        """The user gave it another value."""

        def __init__(self, field: Field, value: Any) -> None:
            super().__init__()
            self.field, self.value = field, value

    def __init__(self, field: Field, value: Any, long_label: bool = False) -> None:
        super().__init__()
        self.field = field
        self._what = takes(field.path)
        self._name = field.key if long_label else field.label
        self._state: tuple[bool, str | None] | None = None
        self._label = Static("", markup=False, classes="field-label")
        self._note = Static("", markup=False, classes="field-note")
        self._word = Static(_on(value), markup=False, classes="field-word")
        self._hostile = False
        self._control = self._make(value)
        self._control.add_class("control")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="field-line"):
            yield self._label
            yield self._control
            if isinstance(self._control, Switch):
                yield self._word
        yield self._note

    def focus_control(self) -> None:
        self._control.focus()

    def put(self, value: Any) -> None:
        """Show another value."""
        if isinstance(self._control, Switch):
            self._control.value = bool(value)
        elif isinstance(self._control, Select):
            if value in self._what.choices:
                self._control.value = str(value)
        else:
            self._control.value = self._text(value)

    def tell(self, changed: bool, problem: str | None) -> None:
        """Mark it as changed, and say what is wrong with it."""
        if self._state == (changed, problem):
            return
        self._state = (changed, problem)
        name = one_line(self._name)
        self._label.update(Content(f"● {name}" if changed else f"  {name}"))
        self.set_class(changed, "-changed")
        self.set_class(problem is not None, "-wrong")
        self._note.update(Content(f"✗ {one_line(problem, 300)}" if problem else self._meaning()))

    def _meaning(self) -> str:
        fact = self.field.fact
        default = f"default {fact.default}" if fact.default else "no default"
        if not fact.default and "default" in fact.meaning:  # it depends: the meaning says on what
            default = ""
        if self._hostile:
            return "has characters that no field can show: change it in the file"
        parts = [fact.meaning, fact.takes if self._what.kind != "switch" else "", default]
        return "; ".join(part for part in parts if part)

    def _make(self, value: Any) -> Control:
        what = self._what
        if what.kind == "switch":
            return Switch(bool(value), animate=False)
        if what.kind == "select" and value in what.choices:
            options = [(choice, choice) for choice in what.choices]
            return Select(options, value=str(value), allow_blank=False, compact=True)
        text = self._text(value)
        box = LineInput(text, compact=True, select_on_focus=False)
        box.disabled = self._hostile
        return box

    def _text(self, value: Any) -> str:
        text = show(self.field.path, value)
        shown = safe(text).replace("\n", " ")
        self._hostile = shown != text
        return shown

    @on(Input.Changed)
    @on(Switch.Changed)
    @on(Select.Changed)
    def _edited(self, event: Input.Changed | Switch.Changed | Select.Changed) -> None:
        event.stop()
        if self._hostile:
            return
        value = event.value
        if isinstance(event, Switch.Changed):
            self._word.update(_on(value))
        if isinstance(event, Input.Changed):
            value = parse(self.field.path, event.value)
        self.post_message(self.Edited(self.field, value))


def _on(value: Any) -> str:
    return "true" if value else "false"
