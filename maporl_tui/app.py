"""The app: which run is looked at, which screen is shown, and what the trainer is asked.

In: ``Options`` from the command line.  Out: a full-screen app; quitting it touches no trainer.
Neighbours: ``client`` reads the run, ``view`` is what is known of it, ``screens`` show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen

from maporl_core.errors import MaporlError
from maporl_core.store.reader import RunDir
from maporl_core.types import Place
from maporl_tui.drawing.text import one_line, safe
from maporl_tui.host import Options
from maporl_tui.look import keymap
from maporl_tui.look.settings import read_settings
from maporl_tui.look.theme_keeper import ThemeKeeper
from maporl_tui.look.themes import app_variables
from maporl_tui.processes.asking import QUESTIONS, why_not
from maporl_tui.processes.launcher import Trainer
from maporl_tui.processes.leaving import leave_on_signals
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.files import write_export
from maporl_tui.reading.view import RunView, apply_news, apply_problem
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.compare.screen import CompareScreen
from maporl_tui.screens.dashboard.screen import DashboardScreen
from maporl_tui.screens.debate.screen import DebateScreen
from maporl_tui.screens.dialogs import Ask, Confirm, Keys
from maporl_tui.screens.launch.screen import LaunchScreen
from maporl_tui.screens.rewards.screen import RewardsScreen
from maporl_tui.screens.runs.screen import RunsScreen
from maporl_tui.widgets.option_pages import Palette

_SLOW = 4
"""A run that nobody trains is looked at so many times more rarely."""


class MaporlApp(App[None]):
    """See the agents talk, know why they were paid, drive the run."""

    TITLE = "maporl"
    CSS_PATH = "app.tcss"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS = [
        *keymap.bindings("app", keymap.APP, ("app.help", "app.detach")),
        # Textual's own ctrl+q and ctrl+c would be more ways out than anyone needs to remember.
        Binding("ctrl+q", "detach", show=False, system=True),
    ]
    SCREENS = {
        "runs": RunsScreen,
        "dashboard": DashboardScreen,
        "debate": DebateScreen,
        "rewards": RewardsScreen,
        "compare": CompareScreen,
        "launch": LaunchScreen,
    }

    # Screens draw what changed; without repaint=False every change would draw the whole terminal.
    view: reactive[RunView | None] = reactive(None, repaint=False)
    selection: reactive[Place | None] = reactive(None, repaint=False)
    comparison: reactive[tuple[RunDir, RunDir] | None] = reactive(None, repaint=False)

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        super().__init__()
        self.client: StoreClient | None = None
        self._looking = asyncio.Lock()
        self._history: list[str] = []
        self._asked: dict[int, str] = {}
        self.settings = read_settings()
        self._theme_keeper = ThemeKeeper(self, self.settings, self.options.theme)

    @property
    def readonly(self) -> bool:
        return self.options.readonly

    def on_mount(self) -> None:
        lines = [*self.settings.problems, *keymap.problems(self.settings.keys)]
        lines += self._theme_keeper.start()
        self.set_keymap(self.settings.keys)
        for line in lines:
            self.notify(one_line(line), severity="warning", timeout=10, markup=False)
        leave_on_signals(self)
        self.theme_changed_signal.subscribe(self, lambda _: self._theme_chosen())
        self.set_interval(1.0, self._follow_theme_file)
        first = self.options.screen or ("dashboard" if self.options.run else "runs")
        self.push_screen(first)
        if self.options.run is not None:
            self.attach(self.options.run)
        if self.options.trainer is not None:
            self.watch_trainer(self.options.trainer)

    @work(group="trainers")
    async def watch_trainer(self, trainer: Trainer) -> None:
        """Say why a run that has just begun is gone again; its store cannot any more."""
        while not trainer.ended:
            await asyncio.sleep(1.0)
        if (failure := trainer.failure()) is not None:
            self.say_problem(f"{trainer.order.run.name} ended: {failure}")

    # The run ----------------------------------------------------------------------------------

    @work(exclusive=True, group="run")
    async def attach(self, run: RunDir) -> None:
        """Look at another run from now on."""
        client = StoreClient(run)
        old, self.client = self.client, client
        self._asked.clear()
        self.selection = None
        if old is not None:
            old.close()
        try:
            self.view = await client.first_look()
            while True:
                await self.look_now()
                live = self.view is not None and (self.view.is_live or self.view.problem)
                await asyncio.sleep(self.options.refresh * (1 if live else _SLOW))
        finally:
            client.close()

    async def look_now(self) -> None:
        """One look at the run's store; a failure becomes part of the view."""
        # One at a time: each starts from the view that the one before has left.
        async with self._looking:
            client, view = self.client, self.view
            if client is None or view is None:
                return
            try:
                after = apply_news(view, await client.look(view))
            except MaporlError as error:
                after = apply_problem(view, str(error))
            if self.client is client:
                self.view = after

    def detach_run(self) -> None:
        """Look at no run any more (it was removed)."""
        self.workers.cancel_group(self, "run")
        self.client, self.view, self.selection = None, None, None

    def watch_view(self, view: RunView | None) -> None:
        """Say when the trainer answered what it was asked."""
        for key, command in list(self._asked.items()):
            request = view.requests.get(key) if view is not None else None
            if request is not None and request.acknowledged is not None:
                del self._asked[key]
                answer = one_line(request.result or "done")
                self.notify(f"{command}: {answer}", title="trainer", markup=False)

    # Screens ----------------------------------------------------------------------------------

    def show_screen(self, name: str) -> None:
        """Go to one of the six screens; no key comes too early: without a first one, nothing."""
        while isinstance(self.screen, ModalScreen):
            self.screen.dismiss(None)
        if not isinstance(present := self.screen, RunScreen) or name == present.NAME:
            return
        self._history = [*self._history[-20:], present.NAME]
        self.switch_screen(name)

    def go_back(self) -> None:
        """The screen before this one, if any."""
        if self._history:
            self.switch_screen(self._history.pop())

    def open_message(self, chosen: Place, screen: str = "debate") -> None:
        """Show one message on the Debate or the Rewards screen."""
        self.selection = chosen
        self.show_screen(screen)

    def compare_runs(self, a: RunDir, b: RunDir) -> None:
        """Show two runs side by side on the Compare screen."""
        self.comparison = (a, b)
        self.show_screen("compare")

    action_show = show_screen

    def action_help(self) -> None:
        rows = []
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id is None or not binding.description or not active.enabled:
                continue
            rows.append((self.get_key_display(binding), binding.description, binding.id))
        order = {(name := getattr(self.screen, "NAME", "")): 0, "common": 1, "app": 2}
        rows.sort(key=lambda row: order.get(row[2].split(".")[0], 3))
        self.push_screen(Keys(rows, f"Keys on {name.capitalize()}"))

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_detach(self) -> None:
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield SystemCommand("Theme", "Choose another theme", self.action_change_theme)
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.id is not None and binding.description and active.enabled:
                key = self.get_key_display(binding)
                action = binding.action
                node = active.node

                async def run(action: str = action, node: object = node) -> None:
                    await self.run_action(action, node)  # type: ignore[arg-type]

                yield SystemCommand(binding.description, f"key {key}", run)

    # Asking the trainer -----------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("pause", "checkpoint", "stop"):
            return not self.readonly
        return super().check_action(action, parameters)

    def action_pause(self) -> None:
        paused = self.view is not None and self.view.status.state == "paused"
        self.ask_trainer("resume" if paused else "pause")

    def action_checkpoint(self) -> None:
        self.ask_trainer("checkpoint")

    def action_stop(self) -> None:
        self.ask_trainer("stop")

    @work
    async def ask_trainer(self, command: str) -> None:
        """Ask the user, then leave the request in the store; its answer is a notification."""
        if self.view is not None and not self.view.is_live:
            await self.look_now()  # a run that nobody trained a moment ago may be trained again
        client, view = self.client, self.view
        if (reason := why_not(view, command)) is not None or client is None or view is None:
            self.say_problem(reason or "no run to ask")
            return
        if not await self.push_screen_wait(Confirm(f"{view.name}: {QUESTIONS[command]}")):
            return
        try:
            self._asked[await client.request(command)] = command
        except MaporlError as error:
            self.say_problem(str(error))
            return
        self.notify(f"asked the trainer to {command}", markup=False)
        await self.look_now()

    # Handing out ------------------------------------------------------------------------------

    def copy(self, text: str, what: str = "text") -> None:
        """To the clipboard of the terminal that the user sits at (OSC 52)."""
        self.copy_to_clipboard(safe(text))
        self.notify(f"copied the {what} to the terminal's clipboard", markup=False)

    @work
    async def export(self, name: str, text: str | Callable[[Path], str]) -> None:
        """Ask for a path and write ``text`` there, or what ``text`` makes for that path."""
        typed = await self.push_screen_wait(Ask("Export to which file?", name))
        if not typed:
            return
        try:
            path = Path(typed)
            written = await self._write(path, text if isinstance(text, str) else text(path))
        except MaporlError as error:
            self.say_problem(str(error))
            return
        if written is not None:
            self.notify(f"written to {written}", markup=False)

    async def _write(self, path: Path, text: str) -> Path | None:
        try:
            return await asyncio.to_thread(write_export, path, text)
        except FileExistsError:
            if not await self.push_screen_wait(Confirm(f"{path} exists. Replace it?")):
                return None
            return await asyncio.to_thread(write_export, path, text, True)

    def say_problem(self, line: str) -> None:
        """One line about something that did not work."""
        self.notify(one_line(line, 300), severity="error", timeout=8, markup=False)

    # Themes -----------------------------------------------------------------------------------

    def get_css_variables(self) -> dict[str, str]:
        return app_variables(super().get_css_variables())

    def _theme_chosen(self) -> None:
        if (problem := self._theme_keeper.chosen()) is not None:
            self.say_problem(problem)

    def _follow_theme_file(self) -> None:
        if (problem := self._theme_keeper.follow_file()) is not None:
            self.say_problem(problem)
