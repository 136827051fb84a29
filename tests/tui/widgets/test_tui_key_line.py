"""The footer: whole entries only, help and leaving always."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tui_samples import demo_run, own_settings, run_app, screen_text, until

from maporl_tui.host import Options
from maporl_tui.look.keymap import APP, COMMON, SCREENS
from maporl_tui.widgets.key_line import fitting

__all__ = ["own_settings"]

ENTRIES = [("a", 10, False), ("b", 10, False), ("c", 10, False), ("help", 7, True), ("q", 9, True)]


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (46, ("a", "b", "c", "help", "q")),
        (45, ("a", "b", "help", "q")),
        (36, ("a", "b", "help", "q")),
        (35, ("a", "help", "q")),
        (16, ("help", "q")),
        (15, ("q",)),
        (8, ()),
    ],
)
def test_entries_go_whole_from_the_right_and_help_and_leaving_last(
    width: int, kept: tuple[str, ...]
) -> None:
    assert fitting(ENTRIES, width) == kept


@pytest.mark.usefixtures("own_settings")
@pytest.mark.parametrize("width", [60, 80, 100])
async def test_no_screen_cuts_a_key_and_all_name_help_and_leaving(
    tmp_path: Path, width: int
) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run), size=(width, 24)) as (app, pilot):
        for screen, rows in SCREENS.items():
            app.show_screen(screen)
            await until(pilot, lambda screen=screen: screen == app.screen.NAME)
            await until(pilot, lambda: "q Detach" in screen_text(app))
            entries = re.split(r"\s{2,}", screen_text(app).splitlines()[-1].strip())
            known = {description for _, _, description in (*rows, *COMMON, *APP)}
            assert {entry.partition(" ")[2] for entry in entries} <= known
            assert "? Help" in entries


@pytest.mark.usefixtures("own_settings")
async def test_a_wider_terminal_brings_the_dropped_keys_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    options = Options(tmp_path, run, screen="debate")
    async with run_app(options, size=(60, 24)) as (app, pilot):
        await until(pilot, lambda: "q Detach" in screen_text(app))
        assert "Follow" not in screen_text(app)
        await pilot.resize_terminal(120, 24)
        await until(pilot, lambda: "f Follow" in screen_text(app))
        await pilot.resize_terminal(60, 24)
        await until(pilot, lambda: "f Follow" not in screen_text(app))
        assert "q Detach" in screen_text(app)


@pytest.mark.usefixtures("own_settings")
async def test_function_keys_are_written_as_on_the_keyboard_and_moved_keys_as_they_are(
    tmp_path: Path, own_settings: Path
) -> None:
    own_settings.mkdir()
    (own_settings / "tui.toml").write_text('[keys]\n"launch.save" = "ctrl+s"\n')
    async with run_app(Options(tmp_path, screen="launch"), size=(100, 24)) as (app, pilot):
        await until(pilot, lambda: "F5 Start" in screen_text(app))
        assert "^s Save" in screen_text(app)
