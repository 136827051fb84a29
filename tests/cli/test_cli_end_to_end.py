"""The real thing, small: the built-in agents through run, resume, eval, debate and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maporl_core.cli.main import main

SMALL = [
    "train.steps=2",
    "train.problems_per_step=4",
    "eval.questions=6",
    "checkpoint.every=1",
    "device=cpu",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the default preset, made by the command."""
    made = tmp_path_factory.mktemp("end-to-end") / "runs"
    changes = [word for change in SMALL for word in ("--set", change)]
    assert main(["run", *changes, "--root", str(made)]) == 0
    return made


def document(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--root", str(root), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_ends_finished_with_both_evaluations_and_adapters(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(root, capsys, "runs", "show", "pocket")
    assert (found["status"]["state"], found["status"]["step"]) == ("finished", 2)
    assert [e["summary"]["label"] for e in found["evaluations"]][:2] == ["before", "after"]
    assert (root / "pocket" / "final" / "policies" / "Ada" / "adapter_config.json").is_file()


def test_eval_repeats_the_runs_own_evaluation_exactly(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = document(root, capsys, "runs", "show", "pocket")["evaluations"][1]["summary"]
    again = document(root, capsys, "eval", "pocket")
    assert again["summary"]["accuracy_TA"] == own["accuracy_TA"]
    assert again["gain"]["before"]["label"] == "before"
    assert len(again["gain"]["gain_T"]) == 3


def test_eval_of_the_untrained_agents_and_of_a_checkpoint(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = document(root, capsys, "eval", "pocket", "--base", "-n", "3", "--greedy")
    assert base["summary"]["policy_state"] == "base"
    assert base["summary"]["temperature"] == 0
    assert base["gain"] is None
    early = document(root, capsys, "eval", "pocket/step-000001", "-n", "3", "--label", "early")
    assert (early["summary"]["policy_state"], early["summary"]["label"]) == ("step-000001", "early")


def test_eval_of_a_checkpoint_that_is_not_there_is_a_store_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "pocket/step-000009", "-n", "2", "--root", str(root)]) == 5
    assert "step" in capsys.readouterr().err


def test_eval_on_another_task(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "mine.jsonl"
    rows = [{"question": f"What is {i} + 1?", "answer": i + 1} for i in range(40)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = f"task.path={data}"
    found = document(root, capsys, "eval", "pocket", "--task", "jsonl", "--set", path, "-n", "2")
    assert (found["summary"]["task"], found["summary"]["questions"]) == ("jsonl", 2)


def test_debate_both_differs_by_the_policies_alone(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(root, capsys, "debate", "--both", "--number", "2")
    before, after = found["debates"]
    assert (before["policy_state"], after["policy_state"]) == ("base", "trained")
    first = [[m["text"] for m in found["turns"][0]] for found in (before, after)]
    assert first[0] == first[1]  # turn 1 is the frozen base in both
    assert all(m["reward"]["total"] is not None for row in after["turns"] for m in row)


def test_ones_own_question_without_gold_is_answered_but_not_scored(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "Mia has 12 pens, gets 7 or 9 and loses 4. How many?"
    assert main(["debate", question, "--run", "pocket", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    assert question in shown
    assert "turn 3" in shown
    assert "not scored" in shown
    assert "score 0" not in shown


def test_resume_trains_a_finished_run_further(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["resume", "pocket", "--set", "train.steps=3", "--root", str(root), "--json"]
    assert main(words) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["step"] for event in events if event["event"] == "step"] == [3]
    assert events[-1]["state"] == "finished"
    found = document(root, capsys, "runs", "show", "pocket")
    assert found["status"]["step"] == 3
