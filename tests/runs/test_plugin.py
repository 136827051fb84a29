"""examples/plugin as a stranger uses it: installed, trained with, looked at, taken away again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOSEN = (
    *("task.name=sums", "task.largest=9", "reward.kind=right", "reward.right=2"),
    *("topology.kind=in-turn", "method.kind=reinforce", "method.kl_coef=0.01"),
)
SMALL = (
    *("train.steps=2", "train.problems_per_step=2", "train.train_turns=all", "verifier.kind=rule"),
    *("eval.questions=2", "discussion.max_new_tokens=8", "checkpoint.every=1"),
)
LOOK = """
import asyncio, sys
from pathlib import Path
from maporl_core.store.paths import RunDir
from maporl_tui.host import Options
from tui_samples import run_app, screen_text

async def main():
    options = Options(root=Path("runs"), run=RunDir(Path("runs/plugged")), readonly=True)
    async with run_app(options) as (app, pilot):
        for key in ("2", "3", "4"):
            await pilot.press(key)
            await pilot.pause(1)
            print(screen_text(app), file=sys.stderr)

asyncio.run(main())
print("looked at")
"""


@dataclass
class Place:
    """A fresh environment that sees the packages of this one, in a folder of its own."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "env" / "bin" / "python")

    def pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.python, *words, "-q"]
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=self.folder)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        variables.pop("PYTHONPATH", None)
        return subprocess.run(
            [self.python, *words], capture_output=True, text=True, cwd=self.folder, env=variables
        )

    def maporl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "maporl_core", *words)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The plugin is installed, and a run was trained with all that it adds."""
    folder = tmp_path_factory.mktemp("plugin")
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder / "env")]
    subprocess.run(command, check=True, capture_output=True)
    site = next((folder / "env").glob("lib/python*/site-packages"))
    seen = [sysconfig.get_path("purelib"), str(ROOT), str(ROOT / "tests")]
    (site / "seen.pth").write_text("\n".join(seen), encoding="utf-8")
    place = Place(folder)
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source")
    place.pip("install", "--no-deps", "--no-build-isolation", "--no-index", "./source")
    changes = [word for change in (*CHOSEN, *SMALL) for word in ("--set", change)]
    done = place.maporl("run", "pocket", "--name", "plugged", *changes)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_its_kinds_are_listed_with_its_version(place: Place) -> None:
    found = json.loads(place.maporl("kinds", "--json").stdout)
    own = {fact["kind"]: fact for fact in found if fact["distribution"] == "maporl-sums"}
    assert list(own) == ["sums", "in-turn", "right", "reinforce"]
    assert {fact["version"] for fact in own.values()} == {"0.1.0"}
    assert [option["key"] for option in own["right"]["options"]] == ["reward.right", "reward.brief"]


def test_the_run_keeps_what_its_kinds_came_from(place: Place) -> None:
    shown = json.loads(place.maporl("runs", "show", "plugged", "--json").stdout)
    kinds = json.loads(shown["meta"]["kinds"])
    assert kinds["method"] == ["reinforce", "maporl-sums", "0.1.0"]
    assert kinds["verifier"][:2] == ["rule", "maporl"]
    (text,) = {
        path.read_text("utf-8").partition("\n# ")[2]
        for path in (place.folder / "runs" / "plugged").rglob("config.toml")
    }
    assert text.splitlines()[0] == "task.name = sums comes from maporl-sums 0.1.0"


def test_its_parts_of_pay_are_stored(place: Place) -> None:
    code = (
        "import maporl_core as m; rows = list(m.load_run('plugged').messages())\n"
        "print(len(rows), sorted({k for r in rows for k in r if k.startswith('reward/')}))"
    )
    said = place.run("-c", code)
    # 2 steps of 2 problems, one agent speaks in each of 3 turns
    assert said.stdout == "12 ['reward/brief', 'reward/right']\n", said.stderr


def test_the_app_opens_its_run(place: Place) -> None:
    done = place.run("-c", LOOK)
    assert done.stdout == "looked at\n", done.stderr


def test_another_version_is_told_on_resume_and_a_missing_package_is_one_line(place: Place) -> None:
    facts = place.folder / "source" / "pyproject.toml"
    facts.write_text(facts.read_text("utf-8").replace('"0.1.0"', '"0.2.0"'), encoding="utf-8")
    place.pip("install", "--no-deps", "--no-build-isolation", "--no-index", "./source")
    done = place.maporl("resume", "plugged", "--set", "train.steps=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "came from maporl-sums 0.1.0 and comes from maporl-sums 0.2.0 now" in done.stdout

    place.pip("uninstall", "-y", "maporl-sums")
    gone = place.maporl("resume", "plugged", "--set", "train.steps=4")
    assert gone.returncode == 2
    assert "method.kind = 'reinforce' came from maporl-sums 0." in gone.stderr
    assert "which is not installed: install it to open this run" in gone.stderr
    assert "Traceback" not in gone.stderr
    assert place.maporl("runs", "list").returncode == 0
