"""What commands refuse in one line, and what they say beside their numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from store_samples import new_run, summary

from maporl_core.cli.main import main
from maporl_core.config.load import dump_toml, load_config
from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError
from maporl_core.runs.own_question import question_of_ones_own
from maporl_core.store.writer import StoreWriter
from maporl_core.tasks.registry import make_task


@pytest.mark.parametrize(
    "words", [["runs", "list"], ["runs", "show", "x"], ["resume", "x"], ["run"], ["debate"]]
)
def test_a_runs_folder_that_is_a_file_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes"
    file.touch()
    assert main([*words, "--root", str(file)]) == 2
    assert "is a file: --root takes the folder that holds the runs" in capsys.readouterr().err
    assert file.is_file()


def task_of(kind: str, folder: Path) -> TaskConfig:
    if kind == "pocket":
        return TaskConfig(name="pocket")
    path = folder / "own.jsonl"
    choices = ', "choices": ["red", "green"]' if kind == "choice" else ""
    answer = "red" if kind == "choice" else "7"
    lines = [f'{{"question": "q{i}", "answer": "{answer}"{choices}}}' for i in range(30)]
    path.write_text("\n".join(lines))
    return TaskConfig.model_validate({"name": "jsonl", "path": str(path), "grading": kind})


@pytest.mark.parametrize(
    ("kind", "gold", "readable"),
    [
        ("pocket", "42", True),
        ("pocket", "abc", False),
        ("pocket", "", False),
        ("number", "1,234.50", True),
        ("number", "-3", True),
        ("number", "abc", False),
        ("number", "  ", False),
        ("maths", "\\frac{1}{2}", True),
        ("text", "Paris", True),
    ],
)
def test_a_gold_answer_that_no_message_could_match_is_refused(
    kind: str, gold: str, readable: bool, tmp_path: Path
) -> None:
    config = task_of(kind, tmp_path)
    assembly = SimpleNamespace(task=make_task(config), config=SimpleNamespace(task=config))
    if readable:
        assert question_of_ones_own(assembly, "What?", gold).gold == gold  # type: ignore[arg-type]
    else:
        with pytest.raises(ConfigError, match="cannot read that as an answer"):
            question_of_ones_own(assembly, "What?", gold)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gsm8k", "anli", "jsonl"])
def test_options_are_refused_by_tasks_that_take_none(name: str) -> None:
    with pytest.raises(ConfigError, match=f"task {name} takes none"):
        make_task(TaskConfig(name=name, options={"size": 3}))


def test_a_clip_range_that_leaves_nothing_to_clip_is_refused(tmp_path: Path) -> None:
    words = ["run", "--root", str(tmp_path), "--set", "method.clip_low=1.5"]
    assert main(words) == 2
    assert list(tmp_path.iterdir()) == []


def test_every_evaluation_says_after_which_step_and_by_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = new_run(tmp_path, "shown")
    run.config.write_text(dump_toml(load_config(None)))
    with StoreWriter(run) as writer:
        writer.write_evaluation(0, summary("before"), [])
        writer.write_evaluation(50, summary("mine", "trained"), [], origin="command")
    assert main(["runs", "show", "shown", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "measured after step 0, by the run itself" in shown
    assert "measured after step 50, by a command" in shown
