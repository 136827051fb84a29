"""What the Launch screen shows: sections and fields of a run description, and what it will take.

In: a ``Form``.  Out: its fields, what is wrong with them, the command, the doctor's forecast.
Neighbours: ``screen`` adds the keys, ``form`` is the description, ``form_field`` draws one key.
"""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from maporl_core.config.load import (
    DEFAULT_PRESET,
    config_warnings,
    is_preset_word,
    preset_summary,
)
from maporl_tui.drawing.text import one_line
from maporl_tui.processes.forecast import Forecast, ask_doctor
from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.launch.clamped import Clamped
from maporl_tui.screens.launch.form import FREE, Field, Form, section_names
from maporl_tui.screens.launch.form_field import FieldList, FieldRow
from maporl_tui.widgets.option_pages import PagedOptions

SETTLE = 1.0
"""Seconds without a change before the doctor is asked."""


class LaunchShowing(RunScreen):
    """The Launch screen without its keys."""

    def __init__(self) -> None:
        super().__init__()
        self._form = Form(DEFAULT_PRESET)
        self._section = section_names()[0]
        self._filter = ""
        self._memory: Forecast | None = None
        self._asked: tuple[str, ...] | None = None
        self._starting = False
        self._lines: dict[str, tuple[str, bool]] = {}

    def compose_body(self) -> ComposeResult:
        yield Clamped(1, id="source")
        with Horizontal(id="form"):
            yield PagedOptions(
                *(Option(name, id=name) for name in section_names()),
                id="sections",
                classes="pane",
                markup=False,
            )
            yield FieldList(id="fields", classes="pane")
        for name, rows in (("problem", 2), ("memory", 2), ("command", 4)):
            yield Clamped(rows, id=name)

    def on_mount(self) -> None:
        self._fill()

    def show_view(self, view: RunView | None) -> None:
        del view  # the form is of no run

    def on_screen_resume(self) -> None:
        self._check()

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "launch-doctor")
        self._asked = None if self._memory is None else self._asked

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("save", "start") and self.maporl.readonly:
            return False
        if action == "find" and isinstance(self.focused, Input):
            return False  # its key is a character of the field's text
        return super().check_action(action, parameters)

    # Fields -------------------------------------------------------------------------------------

    @on(OptionList.OptionHighlighted, "#sections")
    def _section_chosen(self, event: OptionList.OptionHighlighted) -> None:
        name = event.option.id or ""
        if name != self._section or self._filter:
            self._section, self._filter = name, ""
            self._fill()

    @on(OptionList.OptionSelected, "#sections")
    def _into_fields(self) -> None:
        self.focus_next(".control")

    @work(exclusive=True, group="launch-fields")
    async def _fill(self) -> None:
        """The fields of the chosen section, or those that the filter finds; focus stays."""
        pane = self.query_one(FieldList)
        widgets = list(self._widgets())
        held = next((row.field for row in self.query(FieldRow) if row.has_focus_within), None)
        await pane.remove_children()
        if not widgets:
            empty = f"nothing has {self._filter!r}" if self._filter else "no rows: F7 adds one"
            widgets = [Static(Content(empty), classes="empty", markup=False)]
        await pane.mount_all(widgets)
        pane.scroll_home(animate=False)
        for row in self.query(FieldRow):
            if row.field == held:
                row.focus_control()
        title = f"with {one_line(self._filter, 30)}" if self._filter else self._section
        free = not self._filter and self._section in FREE
        pane.border_title = Content(title)
        pane.border_subtitle = Content("F7 adds a row, F8 removes it") if free else ""
        self.set_class(bool(self._filter), "-filtered")
        self._check()

    def _fields(self) -> list[Field]:
        form = self._form
        return list(form.found(self._filter) if self._filter else form.fields(self._section))

    def _widgets(self) -> list[Widget]:
        form, made = self._form, list[Widget]()
        long = bool(self._filter)
        row: object = None
        for field in self._fields():
            if not long and len(field.path) == 3 and field.path[1] != row:
                row = field.path[1]
                title = form.row_title(self._section, field.path[1])
                made.append(Static(Content(one_line(title)), classes="row-title", markup=False))
            made.append(FieldRow(field, form.value(field.path), long))
        return made

    @on(FieldRow.Edited)
    def _edited(self, event: FieldRow.Edited) -> None:
        event.stop()
        if self._form.value(event.field.path) != event.value:
            self._form.set(event.field.path, event.value)
            if [row.field for row in self.query(FieldRow)] == self._fields():
                self._check()
            else:  # another kind has other keys
                self._fill()

    def _check(self) -> None:
        """Say what is wrong, mark what was changed, show the command, ask the doctor."""
        if not self.query("#command"):
            return
        form, problems = self._form, self._form.problems()
        for row in self.query(FieldRow):
            row.tell(form.changed(row.field.path), problems.get(row.field.key))
        sections = self.query_one("#sections", OptionList)
        for name in section_names():
            wrong = any(key.split(".")[0] == name for key in problems)
            count = form.changes(name)
            mark = f" ●{count}" * bool(count) + " ✗" * wrong
            if str(sections.get_option(name).prompt) != name + mark:
                sections.replace_option_prompt(name, name + mark)
        summary = preset_summary(form.source) if is_preset_word(form.source) else "a file"
        self._write("source", f"from {one_line(form.source)} (F3): {one_line(summary)}")
        self._write("command", one_line(form.command_line(str(self.maporl.options.root)), 2000))
        if problems:
            lines = [f"{key}: {text}" if key else text for key, text in problems.items()]
            self._write("problem", f"✗ {one_line(' · '.join(lines), 400)}", True)
            self._write("memory", "memory: when the form is right", False)
            self._memory = self._asked = None
            self.workers.cancel_group(self, "launch-doctor")
            return
        warnings = config_warnings(form.config())
        text = f"! {one_line(' · '.join(warnings), 400)}" if warnings else "✓ a valid run"
        self._write("problem", text)
        if form.command() != self._asked and self.is_current:
            self._asked = form.command()
            self._ask_doctor()

    def _write(self, where: str, text: str, wrong: bool = False) -> None:
        if self._lines.get(where) != (text, wrong):
            self._lines[where] = (text, wrong)
            line = self.query_one(f"#{where}", Clamped)
            line.show(text)
            line.set_class(wrong, "-wrong")

    @work(exclusive=True, group="launch-doctor")
    async def _ask_doctor(self) -> None:
        self._memory = None
        self._write("memory", "memory: asking the doctor …")
        await asyncio.sleep(SETTLE)
        form = self._form
        self._memory = found = await ask_doctor(form.source, form.words(), self.maporl.options.root)
        self._write("memory", f"memory: {found.line}", not found.ok)
