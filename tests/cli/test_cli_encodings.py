"""Terminals that cannot write every character, and folders that cannot be written."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from run_samples import new_run, small

from maporl_core.cli.main import main
from maporl_core.kit.progress import Silent
from maporl_core.models.assets import asset_path
from maporl_core.runs import evaluate
from maporl_core.train import train

ENCODINGS = ("cp1252", "latin-1", "ascii")
WITHOUT_RUN = (
    "--help",
    "run --help",
    "verifier data --help",
    "config keys",
    "config show gsm8k",
    "doctor",
    f"verifier show {asset_path().parent / 'verifier'}",
)
OF_A_RUN = (
    "runs show small",
    "runs list",
    "compare small",
    "eval small -n 2",
    "debate --run small",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose agents have roles that no narrow encoding holds."""
    made = tmp_path_factory.mktemp("narrow") / "runs"
    config = small(
        agents=[{"name": "Ada", "role": "γ → 漢字 …"}, {"name": "Bo"}],
        train={"steps": 1, "problems_per_step": 2},
    )
    train(config, new_run(made, config), Silent())
    return made


def told(
    words: list[str], encoding: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command on a terminal of this encoding."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    with monkeypatch.context() as terminal:
        terminal.setenv("COLUMNS", str(columns))
        terminal.setattr(sys, "stdout", out)
        terminal.setattr(sys, "stderr", err)
        code = main(words)
    texts = []
    for file in (out, err):
        file.seek(0)
        texts.append(file.read())
    return code, texts[0], texts[1]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("line", WITHOUT_RUN, ids=lambda line: line.split(" /")[0])
def test_what_an_encoding_lacks_is_replaced_and_the_rest_printed(
    line: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (80, 20):
        code, out, err = told(line.split(), encoding, columns, monkeypatch)
        assert code == 0, err
        assert len(out) > 100
        assert "Traceback" not in err


@pytest.mark.parametrize("line", OF_A_RUN)
def test_commands_that_look_into_a_run_print_in_ascii_too(
    line: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = told([*line.split(), "--root", str(root)], "ascii", 20, monkeypatch)
    assert code == 0, err
    assert len(out) > 100


def test_keys_are_printed_whole_with_a_mark_for_each_character_that_is_lacking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = told(["config", "keys"], "utf-8", 80, monkeypatch)[1]
    narrow = told(["config", "keys"], "ascii", 80, monkeypatch)[1]
    assert "γ" in whole
    assert narrow == "".join(char if char.isascii() else "?" for char in whole)


def test_eval_of_a_run_that_cannot_be_written_says_so_before_any_work(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(dir: Path) -> None:
        raise OSError(30, "Read-only file system", str(dir))

    monkeypatch.setattr(evaluate, "TemporaryFile", refused)
    monkeypatch.setattr(evaluate, "assemble", None)  # would be a TypeError, were it called
    assert main(["eval", "small", "--root", str(root)]) == 5
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"maporl: cannot write to {root / 'small'} (Read-only file system), and an evaluation is "
        "kept in its run: make the folder writable, or copy it (cp -r) and evaluate the copy"
    )
