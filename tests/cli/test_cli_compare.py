"""``maporl compare``: which two evaluations, what is counted, what is said when none fits."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import HOSTILE, HOSTILE_VISIBLE
from tui_samples import evaluation_of, held

from maporl_core.cli.compare_choose import eval_command
from maporl_core.cli.main import main
from maporl_core.config.load import dump_toml, load_config
from maporl_core.judging.pairing import mcnemar_p
from maporl_core.store.paths import RunDir
from maporl_core.store.records import Paid
from maporl_core.store.writer import StoreWriter

WRONG, RIGHT = [[False] * 3, [False] * 3], [[False] * 3, [True] * 3]
SPLIT = [[True, False, False], [True, True, False]]
"""Two turns of three agents: all wrong; all right in the end; two of three right in the end."""
Verdicts = Sequence[Sequence[Sequence[bool]]]


def add(
    run: RunDir, label: str, state: str, step: int, verdicts: Verdicts, text: str = "", **facts: Any
) -> None:
    found = [held(i, one, split="test") for i, one in enumerate(verdicts)]
    if text:
        found = [
            replace(d, problem=replace(d.problem, question=text + d.problem.id)) for d in found
        ]
    summary = replace(evaluation_of(label, state, found), **facts)
    with StoreWriter(run) as writer:
        writer.write_evaluation(step, summary, [Paid(d) for d in found])


def make(root: Path, name: str) -> RunDir:
    return RunDir.create(root, name, dump_toml(load_config("pocket", [f"name={name}"])), {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Run "a" with before, "step 5" and after; run "b" with one evaluation of trained agents."""
    a = make(tmp_path, "a")
    add(a, "before", "base", 0, [WRONG, WRONG, RIGHT, WRONG])
    add(a, "step 5", "trained", 5, [RIGHT, RIGHT, WRONG, WRONG])
    add(a, "after", "trained", 9, [RIGHT, RIGHT, WRONG, SPLIT])
    add(make(tmp_path, "b"), "after", "trained", 9, [RIGHT, RIGHT, RIGHT, RIGHT])
    return tmp_path


def compare(root: Path, *words: str) -> int:
    return main(["compare", *words, "--root", str(root)])


def document(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert compare(root, *words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_one_run_is_compared_before_and_after(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(root, capsys, "a")
    assert (found["before"]["evaluation"], found["after"]["evaluation"]) == (1, 3)
    assert found["shared"] == 4
    last = found["turns"][-1]
    assert last["before"]["mean"] == pytest.approx(1 / 4)
    assert last["after"]["mean"] == pytest.approx((1 + 1 + 0 + 2 / 3) / 4)
    assert last["gain"]["mean"] == pytest.approx((1 + 1 - 1 + 2 / 3) / 4)
    assert (last["gained"], last["lost"], last["both_wrong"]) == (3, 1, 0)
    assert last["p"] == pytest.approx(mcnemar_p(3, 1)) == pytest.approx(10 / 16)


def test_two_runs_are_compared_by_their_trained_agents(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(root, capsys, "a", "b")
    sides = [(found[s]["run"], found[s]["evaluation"]) for s in ("before", "after")]
    assert sides == [("a", 3), ("b", 1)]
    assert (found["turns"][-1]["gained"], found["turns"][-1]["lost"]) == (1, 0)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["a@before", "a@step 5"], (1, 2)),
        (["a@3", "@2"], (3, 2)),
        (["a@step 5"], (1, 2)),
        (["a@base", "b@trained"], (1, 1)),
        (["a@step 5", "b"], (2, 1)),
    ],
)
def test_evaluations_are_named_by_label_number_or_policy_state(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], chosen: tuple[int, int]
) -> None:
    found = document(root, capsys, *words)
    assert (found["before"]["evaluation"], found["after"]["evaluation"]) == chosen


def test_only_shared_questions_count_and_what_differs_is_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(root / "b")
    add(run, "few", "trained", 9, [RIGHT, RIGHT], temperature=0.0)
    assert compare(root, "a@before", "b@few") == 0
    out = capsys.readouterr().out
    assert "2 shared questions" in out
    assert "2 only on one side" in out
    assert "questions 4 | 2; temperature 1 | 0" in out


def test_the_same_id_with_another_text_is_another_question(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(RunDir(root / "b"), "other", "trained", 9, [RIGHT] * 4, text="something else ")
    assert compare(root, "a@before", "b@other") == 5
    assert "share no question" in capsys.readouterr().err


def test_flips_lists_changed_questions_gained_ones_first(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(root, "a", "--flips", "9") == 0
    out = capsys.readouterr().out
    assert [line.split()[1] for line in out.splitlines() if line[:1] in "▲▼" and line] == [
        "gained",
        "gained",
        "gained",
        "lost",
    ]
    assert "Mia has 2 pens" in out.split("▼ lost")[1]
    assert len(document(root, capsys, "a", "--flips", "2")["flips"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["c"], 2, "no run 'c'"),
        (["a@nothing"], 2, "it holds: before (@1), step 5 (@2), after (@3)"),
        (["a@"], 2, "by label or number"),
        (["@after"], 2, "name a run before the @"),
        (["a", "a"], 2, "are one run"),
        (["a@before"], 2, "name a second evaluation"),
        (["b"], 5, "untrained agents on the same questions; make one with: maporl eval"),
    ],
)
def test_what_cannot_be_compared_is_one_line_with_what_to_do(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert compare(root, *words) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_the_command_that_makes_the_missing_evaluation_asks_the_same_questions(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(root, "lone")
    add(run, "after", "trained", 9, [RIGHT] * 7, temperature=0.5, seed=3)
    assert compare(root, "lone") == 5
    words = shlex.split(capsys.readouterr().err.partition("make one with: ")[2])
    assert words[:4] == ["maporl", "eval", str(run.path), "--base"]
    assert words[4:] == shlex.split(
        "--task pocket --split test --questions 7 --temperature 0.5 --seed 3"
    )


def test_the_command_names_a_run_of_the_usual_folder_by_its_name(root: Path) -> None:
    del root
    summary = evaluation_of("after", "trained", [held(1, RIGHT)])
    assert eval_command(RunDir(Path("runs/x")), summary).startswith("maporl eval x --task pocket")


def test_runs_without_an_evaluation_say_how_to_make_two(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(root, "bare")
    assert compare(root, "bare") == 5
    assert "--base, and then: maporl eval" in capsys.readouterr().err
    assert compare(root, "bare", "b") == 5
    assert "holds no evaluation of trained agents" in capsys.readouterr().err


def test_text_of_models_reaches_no_terminal_raw(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(root, "odd")
    for label, state, verdict in (("before", "base", WRONG), ("after", "trained", RIGHT)):
        one = held(1, verdict)
        found = [replace(one, problem=replace(one.problem, question=HOSTILE))]
        with StoreWriter(run) as writer:
            summary = evaluation_of(label, state, found)
            writer.write_evaluation(0, summary, [Paid(d) for d in found])
    assert compare(root, "odd", "--flips", "1") == 0
    out = capsys.readouterr().out
    assert HOSTILE_VISIBLE in out
    assert "\x1b" not in out
