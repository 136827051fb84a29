"""A run that schema 2's writer made: every screen of the app shows its numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tui_samples import own_settings, run_app, shown, until

from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_tui.host import Options

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")

KEPT = Path(__file__).parents[1] / "data" / "schema2" / "old"


SHOWN = {
    "runs": (r"old .*MAPPO pocket +3/3", r"after +50% +50% +62%", r"change +-12 +\+0 +\+12"),
    "dashboard": (r"turns \.667 \.333 1\.00  KL 0\.053", r"T 0\.644  o 0\.524  i 0\.107"),
    "debate": (r"gold 15 · debate 24 · step 3", r"25  score 0\.50", r"26 - 4 = 22 \+ 3 = 25"),
    "rewards": (
        r"turn 2, Ada: 0\.3 × score 0\.819 ÷ 2 agents ÷ 1\.39 = 0\.088",
        r"advantage \+0\.411",
        r"steps 1–3, 54 messages",
        r"own \+0\.524",
    ),
    "compare": (r"turn 3  50\.0% \[12\.5, 87\.5\] │ 62\.5%", r"✓ 9  score 0\.82"),
}
"""What each screen says first, as the app of schema 2 said it."""


@pytest.mark.parametrize("migrated", [False, True])
@pytest.mark.parametrize("screen", SHOWN)
async def test_a_screen_shows_the_numbers_of_an_older_store(
    tmp_path: Path, screen: str, migrated: bool
) -> None:
    run = RunDir(tmp_path / "old")
    shutil.copytree(KEPT, run.path)
    if migrated:
        StoreWriter(run).close()
    options = Options(tmp_path, run, screen=screen)
    async with run_app(options, size=(140, 45)) as (app, pilot):
        for pattern in SHOWN[screen]:
            await until(pilot, lambda pattern=pattern: shown(app, pattern))
    with StoreReader(run) as reader:
        assert (reader.meta()["schema"] == "2") is not migrated
