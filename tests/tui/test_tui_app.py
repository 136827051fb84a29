"""The app as a whole: attaching, following, screens, help, requests, themes, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot
from tui_samples import demo_run, own_settings, run_app, screen_text, shown, until

from maporl_core.store.reader import RunStatus, StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.look.keymap import SCREENS, known_ids
from maporl_tui.processes.asking import why_not
from maporl_tui.reading.view import RunView
from maporl_tui.screens.dialogs import Confirm, Keys

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")


async def test_every_screen_opens_by_its_number_and_escape_goes_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        assert app.screen.NAME == "dashboard"
        for number, name in enumerate(SCREENS, 1):
            await pilot.press(str(number))
            await until(pilot, lambda name=name: getattr(app.screen, "NAME", "") == name)
        await pilot.press("2", "escape")
        await until(pilot, lambda: app.screen.NAME == "launch")


async def test_a_new_step_reaches_the_view_and_the_status_line(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            assert shown(app, r"demo · running · step 6/6")
            with StoreWriter(run) as writer:
                writer.write_step(7, [], {"accuracy/turn_1": 0.5})
            await until(pilot, lambda: shown(app, "step 7/6"))


async def test_a_run_whose_trainer_is_gone_is_said_to_have_died(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    async with run_app(Options(tmp_path, run)) as (app, _):
        assert shown(app, r"demo · died · step 6/6")


async def test_a_store_that_disappears_is_a_message_and_comes_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    away = tmp_path / "away"
    async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
        run.path.rename(away)
        await until(pilot, lambda: app.view.problem is not None)
        await until(pilot, lambda: shown(app, "trying again.*gone"))
        assert app.view.step == 6
        away.rename(run.path)
        await until(pilot, lambda: app.view.problem is None and shown(app, "step 6/6"))


async def test_help_lists_every_binding_of_the_screen(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run), size=(120, 60)) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Keys))
        text = screen_text(app)
        for name in (n for n in known_ids() if n.split(".")[0] in ("app", "dashboard")):
            assert name in text, name
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Keys))


async def ask_for_a_pause(app: MaporlApp, pilot: Pilot[None]) -> None:
    await pilot.press("P")
    await until(pilot, lambda: isinstance(app.screen, Confirm))
    await pilot.press("y")
    await until(pilot, lambda: shown(app, "asked: pause"))


async def test_a_pause_is_asked_for_written_and_its_answer_shown(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            await ask_for_a_pause(app, pilot)
            with StoreWriter(run) as writer:
                (request,) = writer.poll_requests()
                assert request.command == "pause"
                writer.acknowledge(request.id, "paused after step 6")
            await until(pilot, lambda: shown(app, "pause: paused after step 6"))
            assert not shown(app, "asked: pause")


async def test_a_request_that_is_not_confirmed_is_not_made(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run)) as (app, pilot):
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press("n")
            await until(pilot, lambda: not isinstance(app.screen, Confirm))
        with StoreReader(run) as reader:
            assert reader.requests_since() == ()


async def test_asking_a_dead_trainer_says_how_to_start_it(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        for key in "CPX":
            await pilot.press(key)
            await until(pilot, lambda: shown(app, "maporl resume demo"))
            assert not isinstance(app.screen, Confirm)
            app.clear_notifications()
            await until(pilot, lambda: not shown(app, "maporl resume demo"))


@pytest.mark.parametrize(
    ("state", "words"),
    [("finished", "is finished"), ("died", "died"), ("interrupted", "was inter")],
)
def test_why_a_dead_trainer_is_not_asked_begins_with_how_the_run_ended(
    state: str, words: str
) -> None:
    view = RunView("demo", "runs/demo", status=RunStatus(state, 4, 12))
    assert (why_not(view, "stop") or "").startswith(f"demo {words}")


async def test_what_is_asked_for_already_is_not_asked_again(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            await ask_for_a_pause(app, pilot)
            await pilot.press("P")
            await until(pilot, lambda: shown(app, "pause is asked for already"))
            assert not isinstance(app.screen, Confirm)
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
        with StoreReader(run) as reader:
            assert [request.command for request in reader.requests_since()] == ["pause"]


async def test_readonly_hides_what_changes_a_run(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, readonly=True), size=(120, 60)) as (app, pilot):
            await pilot.press("P", "C", "X")
            await pilot.pause(0.2)
            assert not isinstance(app.screen, Confirm)
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, Keys))
            assert "app.pause" not in screen_text(app)


async def test_a_key_can_be_given_another_place(tmp_path: Path, own_settings: Path) -> None:
    own_settings.mkdir()
    (own_settings / "tui.toml").write_text('[keys]\n"app.show.launch" = "u"\n"app.nothing" = "i"\n')
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "no binding 'app.nothing'"))
        await pilot.press("u")
        await until(pilot, lambda: app.screen.NAME == "launch")


async def test_an_edited_theme_is_taken_over_at_once(tmp_path: Path, own_settings: Path) -> None:
    folder = own_settings / "themes"
    folder.mkdir(parents=True)
    file = folder / "mine.toml"
    file.write_text('primary = "#112233"\n')
    (folder / "bad.toml").write_text("primary = 7\n")
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run, theme="mine")) as (app, pilot):
        assert app.theme == "mine"
        await until(pilot, lambda: shown(app, "theme bad.toml: primary must be a colour"))
        assert app.get_css_variables()["primary"].lower() == "#112233"
        await asyncio.sleep(1.1)
        file.write_text('primary = "#445566"\n')
        await until(pilot, lambda: app.get_css_variables()["primary"].lower() == "#445566")
        file.write_text("primary = \n")
        await until(pilot, lambda: shown(app, "theme mine.toml"))
        assert app.get_css_variables()["primary"].lower() == "#445566"


async def test_a_tiny_terminal_does_no_harm(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run), size=(80, 24)) as (app, pilot):
        for name in SCREENS:
            app.show_screen(name)
            for size in ((20, 5), (1, 1), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause(0.1)
            await until(pilot, lambda: shown(app, "demo · finished · step 6/6"))


async def test_a_message_covers_neither_the_status_line_nor_the_keys(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run), size=(80, 24)) as (app, pilot):
        app.notify("a message", timeout=60)
        await until(pilot, lambda: shown(app, "a message"))
        status, keys = screen_text(app).splitlines()[-2:]
        assert "demo · finished · step 6/6 · last event" in status
        assert "? Help  q Detach" in keys
        assert "a message" in screen_text(app).splitlines()[-3]
