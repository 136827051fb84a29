"""Draws every screen of the terminal app on a run of yours, as SVG files for these pages.

    python docs/make_screenshots.py runs/pocket docs/screens

In: the folder of a run, a folder for the pictures.  Out: one SVG per screen, 120 × 40 cells.  The
pictures name no web font: whoever shows them uses a monospaced font of their own.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from maporl_core.store.reader import RunDir
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options

SHOTS = {
    "runs": ("runs", ()),
    "dashboard": ("dashboard", ()),
    "debate": ("debate", ("r",)),
    "rewards": ("rewards", ("f",)),  # evaluations pay nobody: the newest debate of training
    "compare": ("compare", ("w",)),
    "launch": ("launch", ()),
}
"""File → the screen and the keys pressed on it."""

SLOW = {"launch": 20.0}
"""Seconds that a screen waits for another process: the doctor loads torch."""

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


async def draw(run: Path, out: Path, theme: str = "dusk") -> None:
    app = MaporlApp(Options(run.parent, RunDir(run), theme=theme))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(3.0)
        for name, (screen, keys) in SHOTS.items():
            app.show_screen(screen)
            await pilot.pause(12.0 if screen == "launch" else 4.0)  # it asks the doctor
            for key in keys:
                await pilot.press(key)
                await pilot.pause(2.0)
            await pilot.pause(SLOW.get(name, 0.0))
            picture = _FONT_FACES.sub("", app.export_screenshot(title=f"maporl-tui: {screen}"))
            (out / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(Path(sys.argv[1]), folder))
