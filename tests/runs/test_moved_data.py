"""Data of a run that was moved: the run goes on with the same problems only."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import maporl_core as maporl
from maporl_core.cli.main import main
from maporl_core.runs.same_data import CONTENT
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader

SMALL = (
    *("train.problems_per_step=2", "discussion.turns=2", "discussion.max_new_tokens=4"),
    *("eval.questions=0", "checkpoint.every=1", "train.steps=1"),
    *("task.name=jsonl", "task.holdout=0.5", "name=own"),
)


def write(path: Path, offset: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"question": f"{n} + 1?", "answer": n + 1 + offset} for n in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def trained(tmp_path: Path) -> Path:
    """The root of a run of one step on tmp_path/old/own.jsonl."""
    data = write(tmp_path / "old" / "own.jsonl")
    config = maporl.load_config("pocket", [*SMALL, f"task.path={data}"])
    maporl.train(config, root=tmp_path / "runs")
    return tmp_path / "runs"


def resume(root: Path, data: Path, steps: int) -> int:
    words = ["--set", f"task.path={data}", "--set", f"train.steps={steps}", "--root", str(root)]
    return main(["resume", "own", *words])


def test_a_run_goes_on_with_its_moved_data_and_is_refused_other_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trained(tmp_path)
    before = (root / "own" / "config.toml").read_text()
    other = write(tmp_path / "other" / "own.jsonl", offset=1)
    assert resume(root, other, 2) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert str(tmp_path / "old" / "own.jsonl").replace(" ", "") in said.replace(" ", "")
    assert str(other).replace(" ", "") in said.replace(" ", "")
    assert (root / "own" / "config.toml").read_text() == before

    moved = tmp_path / "new" / "own.jsonl"
    moved.parent.mkdir()
    shutil.move(tmp_path / "old" / "own.jsonl", moved)
    assert resume(root, moved, 2) == 0
    # The checkpoint's config names the old place until the next one is written.
    again = write(tmp_path / "newer" / "own.jsonl")
    assert resume(root, again, 3) == 0
    with StoreReader(RunDir(root / "own")) as reader:
        assert reader.status().step == 3


def test_a_run_without_a_hash_compares_with_the_old_place_while_it_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trained(tmp_path)
    with sqlite3.connect(RunDir(root / "own").database) as database:
        database.execute("DELETE FROM meta WHERE key = ?", (CONTENT,))
    database.close()
    moved = write(tmp_path / "new" / "own.jsonl")
    (tmp_path / "old" / "own.jsonl").rename(tmp_path / "away.jsonl")
    assert resume(root, moved, 2) != 0
    assert "cannot be compared" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "away.jsonl").rename(tmp_path / "old" / "own.jsonl")
    assert resume(root, moved, 2) == 0
