"""What cannot be sampled from, fitted on or scored is one line with its exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from maporl_core.cli.main import main
from maporl_core.config.schema import BaseModelConfig
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Example
from maporl_core.judging.verifier.fit import FitSettings
from maporl_core.kit.progress import Silent
from maporl_core.models.adapter_files import ADAPTER_FILE, VALUE_FILE
from maporl_core.runs.verifier.fitting import fit_verifier

QUESTION = "Mia has 12 pens, gets 7 and loses 4. How many?"


def row(question: str = QUESTION, answer: object = "15") -> str:
    return json.dumps({"question": question, "answer": answer}) + "\n"


def example(question: str, label: bool, split: str, difficulty: float = 0.5) -> Example:
    return Example(question, QUESTION, f"{question} {label}", label, split, "1", difficulty)


ROWS = [
    example(f"{n}", label, split)
    for n in range(3)
    for split in ("train", "valid", "test")
    for label in (True, False)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``data`` and a ``fitted`` verifier of the built-in model."""
    root = tmp_path_factory.mktemp("made")
    files.write_examples(root / "data" / files.TABLE, ROWS)
    base = {"settings": {"bases": {"main": {"model": "pocket"}}}}
    files.write_json(root / "data" / files.CARD, base)
    settings = FitSettings(rank=4, alpha=8.0, batch=8)
    model = BaseModelConfig(model="pocket")
    fit_verifier(root / "data", model, settings, root / "fitted", Silent(), "cpu")
    return root


def refused(capsys: pytest.CaptureFixture[str], code: int, said: str, *words: object) -> None:
    """The command ends with ``code`` and one line that holds ``said``."""
    capsys.readouterr()
    assert main(["verifier", *map(str, words)]) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("…")]
    assert len(lines) == 1, lines
    assert said in lines[0]
    assert "unexpected" not in lines[0]


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", 3, "holds no usable rows"),
        (b'{"q": "a", "a": "1"}\n', 3, "line 1: has no 'question'; it has 'q', 'a'"),
        (b'{"question": "\xff", "answer": "1"}\n', 3, "line 1: is not UTF-8 text"),
        (row().encode(), 3, "or use the same ones for both with --set task.eval_split=train"),
        (
            row(answer="777").encode() * 2,
            3,
            "questions has both right and wrong answers (0 only right, ",
        ),
        (row("x " * 3000).encode() + row("y " * 3000).encode(), 4, "raise discussion.max_context"),
    ],
)
def test_questions_that_give_no_data(
    body: bytes, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "asked.jsonl"
    other = row("Leo has 12 keys, gets 7 and loses 4. How many?", "777").encode()
    path.write_bytes(body + (other if b"777" in body else b""))
    task = ["--set", "task.name=jsonl", "--set", f"task.path={path}", "--set", "task.holdout=0.5"]
    refused(capsys, code, said, "data", "pocket", *task, "--samples", 2, "--out", tmp_path / "out")


def test_a_question_too_long_for_the_window_is_left_out_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from maporl_core.runs.verifier import sampling as verifier_data

    monkeypatch.setattr(verifier_data, "PART_ANSWERS", 4)  # a part for each question
    path = tmp_path / "asked.jsonl"
    rows = [row(f"Mia has 12 pens, gets {n} and loses 4. How many?", 8 + n) for n in range(4, 30)]
    path.write_text("".join([row("x " * 3000), *rows]))
    task = ["--set", "task.name=jsonl", "--set", f"task.path={path}", "--set", "task.holdout=0.05"]
    words = [*task, "--samples", "4", "--temperature", "1.5", "--set", "seed=2"]
    out = str(tmp_path / "out")
    assert main(["verifier", "data", "pocket", *words, "--out", out, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["card"]["counts"]
    assert counts["too_long"] == 1
    assert counts["questions"] > 10


@pytest.mark.parametrize("place", ["file", "file/below", "long"])
@pytest.mark.parametrize("command", ["data", "fit", "score"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    command: str, place: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(row())
    out = tmp_path / ("a" * 300 if place == "long" else place)
    code = 2 if place == "file" else 5
    words: dict[str, list[object]] = {
        "data": ["pocket", "-n", 4],
        "fit": [made / "data", "--base", "nosuch/model"],  # would be refused next
        "score": [tmp_path / "file", "--verifier", made],  # no verifier, would be refused next
    }
    said = "the file that is read" if (command, place) == ("score", "file") else str(out)
    refused(capsys, code, said, command, *words[command], "--out", out)
    assert (tmp_path / "file").read_text() == row()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _cut(folder: Path) -> None:
    path = folder / files.TABLE
    path.write_bytes(path.read_bytes()[:300])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: (d / files.TABLE).write_bytes(b""), "data.parquet: cannot be read"),
        (_cut, "data.parquet: cannot be read"),
        (lambda d: files.write_part(d / files.TABLE, []), "has other columns"),
        (lambda d: files.write_examples(d / files.TABLE, []), "'train' lacks right or wrong"),
        (lambda d: files.write_examples(d / files.TABLE, ROWS[:2]), "'valid' lacks right or wrong"),
        (
            lambda d: files.write_examples(d / files.TABLE, [example("q", True, "dev")]),
            "has a split 'dev'",
        ),
        (
            lambda d: files.write_examples(
                d / files.TABLE, [*ROWS, example("q", True, "test", float("nan"))]
            ),
            "row 19 lacks a value or has an impossible one",
        ),
        (lambda d: (d / files.CARD).write_bytes(b"\xff{}"), "card.json: cannot be read"),
        (lambda d: (d / files.CARD).write_text("[]"), "holds no JSON object"),
        (lambda d: (d / files.CARD).write_text("{}"), "card.json: is damaged"),
    ],
)
def test_damaged_data_is_not_fitted_on(
    damage: Callable[[Path], object],
    said: str,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(made / "data", tmp_path / "data")
    damage(tmp_path / "data")
    refused(capsys, 3, said, "fit", tmp_path / "data", "--out", tmp_path / "fitted")
    assert not (tmp_path / "fitted").exists()


@pytest.mark.parametrize("name", [VALUE_FILE, ADAPTER_FILE])
@pytest.mark.parametrize("value", [float("nan"), 3e38])
def test_a_verifier_whose_scores_are_no_numbers_is_refused(
    name: str, value: float, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, asked = tmp_path / "fitted", tmp_path / "asked.jsonl"
    shutil.copytree(made / "fitted", folder)
    tensors = load_file(folder / name)
    save_file({key: torch.full_like(w, value) for key, w in tensors.items()}, folder / name)
    asked.write_text(row())
    refused(capsys, 4, str(folder), "score", asked, "--verifier", folder)


@pytest.mark.parametrize("name", [VALUE_FILE, ADAPTER_FILE, "adapter_config.json"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_verifier_with_an_empty_or_missing_file_is_refused(
    name: str, empty: bool, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, asked = tmp_path / "fitted", tmp_path / "asked.jsonl"
    shutil.copytree(made / "fitted", folder)
    (folder / name).unlink()
    if empty:
        (folder / name).touch()
    asked.write_text(row())
    refused(capsys, 4, name, "score", asked, "--verifier", folder)


def test_a_length_that_holds_no_answer_is_refused_and_one_that_cuts_is_said(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", made / "data", "--out", tmp_path / "short", "--epochs", 1, "--max-length"]
    refused(capsys, 2, "greater than or equal to 16", *words, 15)
    assert main(["verifier", *map(str, words), "16"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "6 of 6 answers to train on are longer than 16 tokens with their question" in said


def test_a_base_with_another_vocabulary_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.jsonl").write_text(row())
    words = [tmp_path / "asked.jsonl", "--verifier", made / "fitted", "--base", "pocket-b"]
    refused(capsys, 4, "with other weights than pocket-b has", "score", *words)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "holds no usable rows"),
        (b'{"q": "a", "a": "1"}\n', "line 1: has no 'question'; it has 'q', 'a'; mend it, or"),
        (b'{"question": "\xff", "answer": "1"}\n', "leave such rows out with --skip-bad-rows"),
        (b'{"question": null, "answer": "1"}\n', "line 1: 'question' is a null"),
        (b'{"question": "a", "answer": NaN}\n', "holds NaN"),
    ],
)
def test_answers_that_cannot_be_scored(
    body: bytes, said: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_bytes(body)
    refused(capsys, 3, said, "score", path, "--verifier", made / "fitted")
    refused(capsys, 3, "is no file", "score", tmp_path, "--verifier", made / "fitted")


def test_what_a_killed_fit_left_is_swept_and_what_it_replaced_comes_back(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = 2**22 + 1  # more than any process number
    shutil.copytree(made / "fitted", tmp_path / f".old-fitted-{gone}")
    (tmp_path / f".tmp-fitted-{gone}").mkdir()
    (tmp_path / f".tmp-other-{gone}").mkdir()
    words = ["fit", made / "data", "--base", "nosuch/model", "--out", tmp_path / "fitted"]
    refused(capsys, 4, "nosuch/model", *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".tmp-other-{gone}", "fitted"]
    assert (tmp_path / "fitted" / files.CARD).is_file()
