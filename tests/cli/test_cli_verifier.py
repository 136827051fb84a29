"""``maporl verifier`` from the command line: sample, fit, score; mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maporl_core.cli.main import main
from maporl_core.judging.verifier.placing import BUILT_IN

QUESTION = "Mia has 12 pens, gets 7 or 9 and loses 4. How many?"


def test_sample_fit_and_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, fitted = tmp_path / "data", tmp_path / "fitted"
    words = ["verifier", "data", "pocket", "--out", str(data), "-n", "60", "--samples", "4"]
    assert main([*words, "--holdout", "0.5", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)["card"]
    assert card["counts"]["answers"] == 240
    assert main(["verifier", "fit", str(data), "--out", str(fitted), "--epochs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "AUROC within questions" in shown
    assert main(["verifier", "show", str(fitted)]) == 0
    again = capsys.readouterr().out
    diagram = again[again.index("Reliability on the test questions") :]
    assert diagram in shown
    assert f"saved in {fitted}" in shown
    asked, out = tmp_path / "asked.jsonl", tmp_path / "out.jsonl"
    rows = [{"question": QUESTION, "answer": a} for a in ("9: 12 + 9 = 21 - 4 = 17", "no")]
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    score = ["verifier", "score", str(asked), "--verifier", str(fitted)]
    assert main([*score, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [row["answer"] for row in found] == [row["answer"] for row in rows]
    assert all(0.0 <= row["score"] <= 1.0 for row in found)
    assert main([*score, "--out", str(out)]) == 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == found


def test_the_built_in_verifier_scores_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "a.jsonl"
    asked.write_text(
        '{"question": "There are 3 eggs. Max buys 2. How many?", "answer": "3 - 2 = 1"}\n'
    )
    words = ["verifier", "score", str(asked), "--json", "--verifier"]
    assert main([*words, "pocket"]) == 0
    by_name = json.loads(capsys.readouterr().out)["rows"]
    assert main([*words, str(BUILT_IN["pocket"])]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == by_name


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["data", "nosuchrun", "--out", "{}/x"], 2, "nosuchrun"),
        (["data", "pocket", "--out", "{}/x", "--split", "dev"], 3, "no split 'dev'"),
        (["fit", "{}/nothing", "--out", "{}/x"], 3, "maporl verifier data"),
        (["score", "{}/a.jsonl", "--verifier", "{}"], 3, "no such file"),
        (["score", "{}/a.jsonl", "--verifier", "{}", "--out", "{}"], 2, "is a folder"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [word.format(tmp_path) for word in words]
    assert main(["verifier", *line]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert list(tmp_path.iterdir()) == []
