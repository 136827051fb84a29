"""Screen 6: a run description as a form, and a run started from it in a process of its own.

In: a preset or file, and what is typed.  Out: the same as a command line, a TOML file, a started
run.  Neighbours: ``form`` knows fields and values, ``launcher`` starts, ``forecast`` asks the
doctor, ``widgets.form_field`` draws one field.
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
    dump_toml,
    is_preset_word,
    preset_names,
    preset_summary,
)
from maporl_core.errors import MaporlError
from maporl_tui.drawing.text import one_line
from maporl_tui.processes.forecast import Forecast, ask_doctor
from maporl_tui.processes.launcher import POLL, Trainer, run_order, waiting_line
from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.dialogs import Ask, Confirm
from maporl_tui.screens.launch.choose import Choose
from maporl_tui.screens.launch.clamped import Clamped
from maporl_tui.screens.launch.form import FREE, Field, Form, section_names
from maporl_tui.screens.launch.form_field import FieldList, FieldRow
from maporl_tui.widgets.option_pages import PagedOptions

SETTLE = 1.0
"""Seconds without a change before the doctor is asked."""
_FILE = "a TOML file …"


class LaunchScreen(RunScreen):
    """The form."""

    NAME = "launch"
    AUTO_FOCUS = "#sections"
    FOOTER = (
        "launch.start",
        "launch.save",
        "launch.source",
        "launch.reset",
        "common.find",
        "common.back",
    )

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
        """The fields of the chosen section, or those that the filter finds."""
        pane = self.query_one(FieldList)
        fields = self._form.found(self._filter) if self._filter else None
        widgets = list(self._widgets(fields))
        await pane.remove_children()
        if not widgets:
            empty = f"nothing has {self._filter!r}" if self._filter else "no rows: F7 adds one"
            widgets = [Static(Content(empty), classes="empty", markup=False)]
        await pane.mount_all(widgets)
        pane.scroll_home(animate=False)
        title = f"with {one_line(self._filter, 30)}" if self._filter else self._section
        free = not self._filter and self._section in FREE
        pane.border_title = Content(title)
        pane.border_subtitle = Content("F7 adds a row, F8 removes it") if free else ""
        self.set_class(bool(self._filter), "-filtered")
        self._check()

    def _widgets(self, found: object) -> list[Widget]:
        form, made = self._form, list[Widget]()
        long = found is not None
        fields = list(found) if long else list(form.fields(self._section))  # type: ignore[call-overload]
        row: object = None
        for field in fields:
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
            self._check()

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

    # Keys ---------------------------------------------------------------------------------------

    @property
    def _present(self) -> Field | None:
        """The field that has the focus."""
        nodes = self.focused.ancestors_with_self if self.focused is not None else []
        return next((node.field for node in nodes if isinstance(node, FieldRow)), None)

    def action_back(self) -> None:
        if self.maximized is None and isinstance(self.focused, Input):
            self.query_one("#sections").focus()
        elif self.maximized is None and self._filter:
            self._filter = ""
            self._fill()
        else:
            super().action_back()

    @work(group="launch-dialog")
    async def action_find(self) -> None:
        word = await self.app.push_screen_wait(Ask("Keys whose name or meaning has", self._filter))
        if word is not None:
            self._filter = word.strip()
            self._fill()

    def action_reset(self) -> None:
        field = self._present
        if field is None:
            self.maporl.say_problem("go to a field first: F4 puts its value back")
            return
        self._form.reset(field.path)
        for row in self.query(FieldRow):
            if row.field == field:
                row.put(self._form.value(field.path))
        self._check()

    @work(group="launch-dialog")
    async def action_add(self) -> None:
        section = self._section
        if section not in FREE:
            self.maporl.say_problem(f"rows are added to {', '.join(FREE)}: go there first")
            return
        name = await self.app.push_screen_wait(Ask(f"Name of the new row of {section}?"))
        if name is None:
            return
        try:
            self._form.add(section, name)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        self._fill()

    def action_remove(self) -> None:
        field = self._present
        if field is None or field.path[0] not in FREE:
            self.maporl.say_problem(f"go to a field of a row of {', '.join(FREE)} first")
            return
        self._form.remove(str(field.path[0]), field.path[1])
        self.query_one("#sections").focus()
        self._fill()

    @work(group="launch-dialog")
    async def action_source(self) -> None:
        choices = [(name, preset_summary(name)) for name in preset_names()]
        chosen = await self.app.push_screen_wait(
            Choose("Start from which preset?", [*choices, (_FILE, "by its path")])
        )
        if chosen == _FILE:
            chosen = await self.app.push_screen_wait(Ask("Path of the TOML file?"))
            if chosen and is_preset_word(chosen.strip()):
                chosen = f"./{chosen.strip()}"
        if not chosen:
            return
        count = len(self._form.words())
        question = f"Take {chosen} and drop {count} change{'s' * (count != 1)}?"
        if count and not await self.app.push_screen_wait(Confirm(question)):
            return
        try:
            self._form = await asyncio.to_thread(Form, chosen.strip())
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        self._fill()

    def action_save(self) -> None:
        try:
            config = self._form.config()
            text = dump_toml(config)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        self.maporl.export(f"{config.name}.toml", text)

    @work(group="launch-start")
    async def action_start(self) -> None:
        if self._starting:
            return
        self._starting = True
        try:
            trainer = await self._start()
        except MaporlError as error:
            self.maporl.say_problem(str(error))
        else:
            if trainer is not None:
                self.maporl.watch_trainer(trainer)
                self.maporl.attach(trainer.order.run)
                self.maporl.show_screen("dashboard")
        finally:
            self._starting = False
            self._lines.pop("problem", None)
            self._check()

    async def _start(self) -> Trainer | None:
        form, root = self._form, self.maporl.options.root
        form.config()
        memory = self._memory
        if memory is not None and not memory.ok:
            question = f"The doctor says: {memory.line}. Start all the same?"
            if not await self.app.push_screen_wait(Confirm(question)):
                return None
        order = await asyncio.to_thread(run_order, form.source, form.words(), root)
        trainer = await asyncio.to_thread(Trainer, order)
        while not await asyncio.to_thread(trainer.ready):
            self._write("problem", waiting_line(trainer))
            await asyncio.sleep(2 * POLL)
        return trainer
