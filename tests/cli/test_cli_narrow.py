"""Narrow terminals: what does not fit is told another way, never cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from cli_samples import gain, summary
from rich.console import Console

from maporl_core.cli.main import app, main
from maporl_core.cli.views.fitting_table import FittingTable
from maporl_core.cli.views.tables import gain_table, summary_table


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


COMMANDS = [c for c in commands(typer.main.get_command(app)) if c != ("tui",)]
"""All but the one that hands its words on to the terminal app."""


def printed(renderable: Any, width: int) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_help_cuts_a_word(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in ("80", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main([*command, "--help"]) == 0
        cut = re.findall(r"[\w.]+…", capsys.readouterr().out)
        assert set(cut) <= {"RUN…"}  # more of them may follow


@pytest.mark.parametrize("columns", [80, 40, 20])
def test_verifier_show_keeps_every_label_and_number(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["verifier", "show", "pocket"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    joined = " ".join(words(shown))
    for label in ("AUROC within", "shown the", "answer alone", "0.0-0.1", "0.25-0.50"):
        assert label in joined
    for number in ("0.759", "0.0683", "0.944"):
        assert number in joined


def test_verifier_show_as_json_says_nothing_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verifier", "show", "pocket", "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [79, 60, 40, 25])
def test_evaluations_keep_every_number(width: int) -> None:
    for made in (summary_table(summary()), gain_table(gain())):
        whole = {word.strip("[],%") for word in words(printed(made, 200))}
        told = {word.strip("[],%:") for word in words(printed(made, width))}
        assert "…" not in printed(made, width)
        assert {word for word in whole if word[-1:].isdigit()} <= told


def test_a_row_that_does_not_fit_names_its_values() -> None:
    table = FittingTable(box=None, pad_edge=False)
    for name in ("turn", "accuracy", "vote"):
        table.add_column(name, no_wrap=True)
    table.add_row("1", "51.2%", "")
    assert printed(table, 20).split("\n")[0].split() == ["turn", "accuracy", "vote"]
    assert printed(table, 19) == "turn 1\n  accuracy: 51.2%\n"
