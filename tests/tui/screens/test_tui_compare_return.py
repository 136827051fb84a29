"""The Compare screen while the run's folder is away, and when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_samples import demo_run, own_settings, run_app, screen_text, until

from maporl_core.store.paths import RunDir
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")


def says(app: MaporlApp, words: str) -> bool:
    return words in " ".join(screen_text(app).split())


async def test_a_run_that_was_away_is_compared_again_when_it_is_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path, "away", steps=1, problems=1, questions=2)
    aside = tmp_path.with_name(f"{tmp_path.name}-aside")
    async with run_app(Options(tmp_path, RunDir(run.path))) as (app, pilot):
        await until(pilot, lambda: app.view is not None and app.view.generation >= 0)
        run.path.rename(aside)
        await until(pilot, lambda: app.view is not None and app.view.problem is not None, 20)
        await pilot.press("5")
        await until(pilot, lambda: says(app, "no run store"), 20)
        aside.rename(run.path)
        await until(pilot, lambda: says(app, "2 shared questions"), 20)
