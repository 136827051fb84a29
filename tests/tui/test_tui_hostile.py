"""What must never end the app: keys before the first screen, tiny terminals, odd stores."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Paste
from textual.widgets import Input
from textual.widgets.input import Selection
from tui_samples import demo_run, own_settings, run_app, shown, until

from maporl_core.errors import StoreError
from maporl_core.store.paths import RunDir
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.reading.client import StoreClient
from maporl_tui.screens.compare.dialogs import AskOwn
from maporl_tui.screens.dialogs import Confirm, Keys, Whole
from maporl_tui.widgets.line_input import LineInput
from maporl_tui.widgets.option_pages import Palette

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")

TINY = ((1, 1), (7, 3), (20, 5))


async def test_a_screen_asked_for_before_the_first_one_is_there_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = MaporlApp.on_mount

    def hasty(app: MaporlApp) -> None:
        app.action_show("compare")
        mount(app)

    monkeypatch.setattr(MaporlApp, "on_mount", hasty)
    app = MaporlApp(Options(tmp_path))
    async with app.run_test() as pilot:
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "runs")
        await pilot.press("2")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "dashboard")


async def test_going_to_a_screen_takes_its_dialogs_along_and_answers_them_with_no(
    tmp_path: Path,
) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        await _go_to_a_screen_from_a_question(tmp_path, run)


async def _go_to_a_screen_from_a_question(tmp_path: Path, run: RunDir) -> None:
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await pilot.press("P")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        app.show_screen("debate")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "debate")
        await until(pilot, lambda: not any(w.name == "ask_trainer" for w in app.workers))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Keys))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "dashboard")
        assert len(app.screen_stack) == 2  # Textual's own, and this one


@pytest.mark.parametrize("size", TINY)
@pytest.mark.parametrize("keys", [("6",), ("6", "f3"), ("ctrl+p", "down")])
async def test_lists_can_be_paged_in_a_terminal_too_small_to_show_them(
    tmp_path: Path, size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    async with run_app(Options(tmp_path), size=size) as (app, pilot):
        await pilot.press(*keys, "pagedown", "pageup", "end", "home")
        await pilot.pause()
        assert app.is_running


async def test_a_run_that_is_no_longer_looked_at_answers_with_a_store_error(tmp_path: Path) -> None:
    client = StoreClient(demo_run(tmp_path))
    client.close()
    client.close()
    with pytest.raises(StoreError, match="demo is no longer looked at"):
        await client.ask(lambda reader: reader.status())


async def test_keys_for_a_palette_that_is_not_laid_out_do_nothing(tmp_path: Path) -> None:
    async with run_app(Options(tmp_path)) as (app, pilot):
        await app.push_screen(palette := Palette())
        await palette.query("*").remove()
        palette._action_cursor_down()
        palette._action_command_list("page_down")
        palette._list_visible = not palette._list_visible
        await pilot.pause()
        assert app.is_running


async def test_all_lines_that_are_pasted_into_a_field_are_kept_as_one(tmp_path: Path) -> None:
    class Form(App[None]):
        def compose(self) -> ComposeResult:
            yield LineInput("ab")

    app = Form()
    async with app.run_test() as pilot:
        field = app.query_one(LineInput)
        field.focus()
        field.cursor_position = 1
        app.post_message(Paste("If x = 1\r\n  and y = 2,\n\nwhat is x + y?"))
        await until(pilot, lambda: field.value == "aIf x = 1 and y = 2, what is x + y?b")
        field.selection = Selection(0, len(field.value))
        app.post_message(Paste("one"))
        await until(pilot, lambda: field.value == "one")


async def test_pastes_into_compares_question_and_launchs_fields_keep_every_line(
    tmp_path: Path,
) -> None:
    async with run_app(Options(tmp_path, screen="launch")) as (app, pilot):
        await until(pilot, lambda: list(app.screen.query(LineInput)))
        assert all(isinstance(field, LineInput) for field in app.screen.query(Input))
        await app.push_screen(AskOwn(("a", "b"), None, loads=False))
        await until(pilot, lambda: isinstance(app.screen, AskOwn))
        app.post_message(Paste("one\ntwo\nthree"))
        question = app.screen.query_one("#question", Input)
        await until(pilot, lambda: question.value == "one two three")


async def test_keys_are_answered_at_once_beside_a_message_of_ten_megabytes_on_one_line(
    tmp_path: Path,
) -> None:
    run = demo_run(tmp_path, steps=1, problems=1, turns=1, text="x" * 10_000_000, questions=1)
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: shown(app, "Ada · turn 1"), 60)
        for key in ("l", "pagedown", "end", "home", "o", "end", "pageup", "escape"):
            began = time.process_time()
            await pilot.press(key)
            assert time.process_time() - began < 0.4, key  # twice 0.2: the pilot draws and waits
        await until(pilot, lambda: not isinstance(app.screen, Whole))
