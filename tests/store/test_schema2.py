"""A run that the writer of schema 2 made (``data/schema2``) opens everywhere, with its numbers.

``data/schema2/old`` is that run, byte for byte: two agents, three turns, three steps, evaluations
by the run and by a command.  ``expected`` is what the commands of that version said of it, and of
a copy that it resumed to step 4.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from maporl_core.cli.main import main

KEPT = Path(__file__).parents[1] / "data" / "schema2"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs that holds a copy of the old one, named as it was when it was made."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(KEPT / "old", tmp_path / "runs" / "old")
    return Path("runs")


def expected(name: str) -> Any:
    text = (KEPT / "expected" / name).read_text("utf-8")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command says as JSON."""
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def agrees(found: Any, wanted: Any, tolerance: float = 0.0) -> bool:
    """Whether ``found`` holds all that is wanted; it may know more keys, but no other items."""
    if isinstance(wanted, dict):
        return all(k in found and agrees(found[k], v, tolerance) for k, v in wanted.items())
    if isinstance(wanted, list):
        same = len(found) == len(wanted)
        return same and all(agrees(f, w, tolerance) for f, w in zip(found, wanted, strict=True))
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)
    return bool(found == wanted)


def exported(to: str = "all.jsonl") -> list[dict[str, Any]]:
    assert main(["runs", "export", "old", "--split", "all", "--out", to]) == 0
    return [json.loads(line) for line in Path(to).read_text("utf-8").splitlines()]


def test_every_message_and_reward_is_exported_as_it_was(root: Path) -> None:
    found = exported()
    assert len(found) == 24
    assert agrees(found, expected("discussions.jsonl"))


def test_every_metric_is_exported_as_it_was(root: Path) -> None:
    to = ["--what", "metrics", "--out", "metrics.csv"]
    assert main(["runs", "export", "old", *to]) == 0
    with (KEPT / "expected" / "metrics.csv").open(newline="") as file:
        wanted = list(csv.DictReader(file))
    with Path("metrics.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == wanted


def test_the_run_its_discussions_and_its_evaluations_are_shown_as_they_were(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agrees(said(capsys, "runs", "show", "old"), expected("show.json"))
    assert agrees(said(capsys, "runs", "show", "old", "--debate", "8"), expected("debate-8.json"))
    assert agrees(said(capsys, "compare", "old"), expected("compare.json"))
    (row,) = said(capsys, "runs", "list")
    assert agrees(row["metrics"], expected("show.json")["metrics"])


def test_a_discussion_is_printed_as_it_was(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", "old", "--debate", "8"]) == 0
    wanted = (KEPT / "expected" / "debate-8.txt").read_text("utf-8")
    assert capsys.readouterr().out.split() == wanted.split()


def test_its_agents_answer_as_they_did(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "debate", "--run", "old", "--number", "2")
    assert agrees(found, expected("asked.json"), tolerance=1e-3)


def test_it_resumes_as_it_would_have(root: Path) -> None:
    """To the digit on the machine that made it; others add up in another order."""
    assert main(["resume", "old", "--set", "train.steps=4"]) == 0
    assert agrees(exported(), expected("resumed.jsonl"), tolerance=1e-3)
