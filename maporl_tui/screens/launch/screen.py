"""Screen 6: a run description as a form, and a run started from it in a process of its own.

In: a preset or file, and what is typed.  Out: the same as a command line, a TOML file, a started
run.  Neighbours: ``showing`` is the screen without keys, ``launcher`` starts trainers.
"""

from __future__ import annotations

import asyncio

from textual import work
from textual.widgets import Input

from maporl_core.config.load import (
    dump_toml,
    is_preset_word,
    preset_names,
    preset_summary,
)
from maporl_core.errors import MaporlError
from maporl_tui.processes.launcher import POLL, Trainer, run_order, waiting_line
from maporl_tui.screens.dialogs import Ask, Confirm
from maporl_tui.screens.launch.choose import Choose
from maporl_tui.screens.launch.form import FREE, Field, Form
from maporl_tui.screens.launch.form_field import FieldRow
from maporl_tui.screens.launch.showing import LaunchShowing

_FILE = "a TOML file …"


class LaunchScreen(LaunchShowing):
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
