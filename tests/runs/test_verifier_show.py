"""A fitted verifier's figures and reliability diagram in the terminal."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from maporl_core.cli.main import main
from maporl_core.cli.views.reliability import MARGIN, print_reliability, reliability_lines
from maporl_core.judging.verifier.calibration import Bin
from maporl_core.judging.verifier.placing import BUILT_IN


def plot(bins: list[Bin], width: int = 80, ascii_only: bool = False) -> list[str]:
    return [line.plain for line in reliability_lines(bins, width, ascii_only)]


def fields(lines: list[str]) -> list[str]:
    """The eleven rows of the plot, that of share right 0 first, without what stands before."""
    return [line[MARGIN:] for line in reversed(lines[1:12])]


def test_a_point_stands_over_its_mean_score_at_its_share_right() -> None:
    rows = fields(plot([Bin(0.1, 0.2, 40, 0.15, 0.7), Bin(0.8, 0.9, 30, 0.875, 0.5)]))
    assert rows[7][9] == "●"  # 0.15 of 60 columns
    assert rows[5][52] == "●"  # 0.875 of 60 columns
    assert sum(row.count("●") for row in rows) == 2


def test_a_bin_of_few_answers_is_a_hollow_point() -> None:
    rows = fields(plot([Bin(0.1, 0.2, 9, 0.15, 0.7), Bin(0.8, 0.9, 10, 0.875, 0.5)]))
    assert (rows[7][9], rows[5][52]) == ("○", "●")


def test_the_diagonal_rises_from_corner_to_corner() -> None:
    places = [(row, c) for row, line in enumerate(fields(plot([]))) for c in _dots(line)]
    assert places[0] == (0, 0)
    assert places[-1][0] == 10
    for row, column in places:
        assert abs(row / 10 - (column + 0.5) / 60) <= 0.05


def _dots(line: str) -> list[int]:
    return [place for place, sign in enumerate(line) if sign == "·"]


def test_bars_are_as_high_as_bins_have_answers() -> None:
    lines = plot([Bin(0.0, 0.1, 2400, 0.05, 0.0), Bin(0.1, 0.2, 1200, 0.15, 0.1), _one()])
    bars = [line[MARGIN:].ljust(60) for line in lines[14:17]]
    assert [bar[0] for bar in bars] == ["█", "█", "█"]
    assert [bar[6] for bar in bars] == [" ", "▄", "█"]  # half of 24 eighths
    assert [bar[54] for bar in bars] == [" ", " ", "▁"], "one answer of 2,400 can still be seen"
    assert lines[17].split() == ["2400", "1200", "1", "answers"]


def _one() -> Bin:
    return Bin(0.9, 1.0, 1, 1.0, 1.0)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [18, 20, 30, 45, 48, 66, 70, 80, 200])
def test_every_width_holds_the_whole_plot(width: int, ascii_only: bool) -> None:
    bins = [Bin(b / 10, b / 10 + 0.1, 123_456 * 9**b, b / 10 + 0.05, 1.0) for b in range(10)]
    lines = plot(bins, width, ascii_only)
    assert max(map(len, lines[1:-1])) <= width
    points = sum(line.count("@" if ascii_only else "●") for line in lines[1:-1])
    assert points == 10


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_nothing_is_told_by_colour_alone(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, force_terminal=True, width=80)
    print_reliability(console, [Bin(0.8, 0.9, 30, 0.875, 0.5)], "the test questions")
    file.flush()
    shown = file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "30" in shown
    assert ("@" if encoding == "ascii" else "●") in shown
    assert "\x1b[36" not in shown
    assert "\x1b[1;36" not in shown


def test_a_folder_shows_its_figures_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verifier", "show", "pocket"]) == 0
    lines = capsys.readouterr().out.splitlines()
    card = json.loads((BUILT_IN["pocket"] / "card.json").read_text())
    test = card["results"]["test"]
    assert max(map(len, lines)) <= 80
    (auroc,) = [line for line in lines if line.startswith("AUROC within questions  ")]
    assert float(auroc.split()[-1]) == pytest.approx(test["auroc_within_questions"], rel=5e-3)
    assert f"Reliability on the test questions: {test['answers']} answers" in lines
    counts = next(line for line in lines if line.endswith("  answers")).split()[:-1]
    assert [int(count) for count in counts] == [b["count"] for b in test["reliability"]]
    assert main(["verifier", "show", str(BUILT_IN["pocket"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"] == card


def _without(card: dict[str, Any]) -> None:
    del card["results"]


def _odd(key: str, value: Any) -> Any:
    def change(card: dict[str, Any]) -> None:
        card["results"]["test"][key] = value

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without, "(results)"),
        (_odd("reliability", [{"low": 0.0}]), "(results.test.reliability.0.high)"),
        (_odd("reliability", [5]), "(results.test.reliability.0)"),
        (_odd("auroc", "[red]high"), "(results.test.auroc)"),
        (_odd("by_difficulty", {"a": None}), "(results.test.by_difficulty.a)"),
    ],
)
def test_a_card_without_whole_figures_is_one_line(
    damage: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BUILT_IN["pocket"], tmp_path / "mine")
    card = json.loads((tmp_path / "mine" / "card.json").read_text())
    damage(card)
    (tmp_path / "mine" / "card.json").write_text(json.dumps(card))
    assert main(["verifier", "show", str(tmp_path / "mine")]) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("…")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "fit the verifier again" in lines[0]
