"""Every screen at two sizes, dark, light and without colour, as it was last looked at and accepted.

When a change is wanted, look at it and accept it: MAPORL_SNAPSHOTS=accept make test ARGS="-k snap"
"""

from __future__ import annotations

import difflib
import os
import re
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input
from tui_samples import demo_run, own_settings, run_app, until
from tui_snapshots import snapshot

from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.look.keymap import SCREENS
from maporl_tui.processes.forecast import Forecast
from maporl_tui.processes.machine import Load, Machine
from maporl_tui.screens.launch import showing as launch

__all__ = ["own_settings"]

FOLDER = Path(__file__).parents[1] / "snapshots"
ACCEPT = os.environ.get("MAPORL_SNAPSHOTS") == "accept"
NOW = 1_800_000_000.0
LOOKS = {"dark": "dusk", "light": "paper", "plain": "dusk"}


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing on the screen depends on the clock, the machine or the folder of the test."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.chdir(tmp_path)
    load = Load(0.25, 2, 2_000_000_000, 24_000_000_000, None, ())
    monkeypatch.setattr(Machine, "look", lambda self, pid=None, host=None: load)

    async def forecast(*_: object) -> Forecast:
        return Forecast("it will take 0.4 GB of 24.0 GB")

    monkeypatch.setattr(launch, "ask_doctor", forecast)
    return Path("runs")


def steady(text: str) -> str:
    """Sizes on this disk and memory of this machine, blotted out cell by cell."""
    return re.sub(r"\d[\d.,]* [kMGT]?B\b", lambda found: "#" * len(found[0]), text)


async def settled(app: MaporlApp, pilot: Pilot[None], wanted: str | None = None) -> str:
    """The screen once it is as ``wanted``, or after it has stayed the same for some seconds."""
    found, same = "", 0
    for _ in range(100):
        for entry in app.screen.query(Input):
            entry.cursor_blink = False
        await pilot.pause(0.3)
        latest = steady(snapshot(app))
        same = same + 1 if latest == found else 0
        found = latest
        if found == wanted or same == 12:
            return found
    raise AssertionError("the screen never came to rest")


@pytest.mark.usefixtures("own_settings")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("look", LOOKS)
async def test_every_screen_looks_as_it_was_accepted(
    look: str, size: tuple[int, int], frozen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if look == "plain":
        monkeypatch.setenv("NO_COLOR", "1")
    run = demo_run(frozen)
    different = []
    async with run_app(Options(frozen, run, theme=LOOKS[look]), size=size) as (app, pilot):
        for screen in SCREENS:
            app.show_screen(screen)
            await until(pilot, lambda screen=screen: screen == app.screen.NAME)
            path = FOLDER / f"{screen}-{size[0]}x{size[1]}-{look}.txt"
            if ACCEPT:
                FOLDER.mkdir(exist_ok=True)
                path.write_text(await settled(app, pilot), encoding="utf-8")
                continue
            wanted = path.read_text(encoding="utf-8") if path.exists() else ""
            found = await settled(app, pilot, wanted)
            if found != wanted:
                lines = difflib.unified_diff(
                    wanted.splitlines(), found.splitlines(), path.name, "now", lineterm="", n=0
                )
                different += list(lines)[:40]
    assert not different, "\n".join(different)
