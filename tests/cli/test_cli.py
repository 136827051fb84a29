"""The command line as a whole: help, exit codes, one-line errors, nothing heavy imported."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_samples import gain
from rich.console import Console

from maporl_core import __version__
from maporl_core.cli.main import main
from maporl_core.cli.shared import complete_key, complete_preset
from maporl_core.cli.views.tables import gain_table
from maporl_core.cli.views.terminal import to_json
from maporl_core.errors import (
    ConfigError,
    DataError,
    Interrupted,
    ModelError,
    StoreError,
    TrainingError,
)
from maporl_core.kit.user_paths import free_name

ROOT = Path(__file__).parents[2]
COMMANDS = (
    ["run"],
    ["resume"],
    ["eval"],
    ["debate"],
    ["runs", "list"],
    ["runs", "show"],
    ["runs", "export"],
    ["runs", "remove"],
    ["runs", "request"],
    ["config", "show"],
    ["config", "presets"],
    ["config", "keys"],
    ["config", "schema"],
    ["config", "check"],
    ["pocket", "build"],
    ["doctor"],
)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let training raise ``error``."""

    def train(*_args: object, **_kwargs: object) -> None:
        raise error

    monkeypatch.setitem(sys.modules, "maporl_core.train", SimpleNamespace(train=train))


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
    )


# Help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], *COMMANDS, ["runs"], ["config"], ["pocket"]], ids=" ".join)
def test_every_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: maporl" in shown
    _, _, examples = shown.partition("Examples")
    assert " ".join(["maporl", *command[:2]]) in examples


@pytest.mark.parametrize("command", [[], ["runs"], ["config"], ["pocket"]], ids=" ".join)
def test_a_group_alone_shows_its_help(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    assert "Usage: maporl" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"maporl {__version__}\n"


def test_help_and_config_commands_load_nothing_heavy() -> None:
    lines = [[*command, "--help"] for command in COMMANDS] + [["config", "show"], ["runs", "list"]]
    code = (
        "import sys, io, contextlib\n"
        "from maporl_core.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    codes = [main(words) for words in {lines!r}]\n"
        "heavy = [m for m in ('torch', 'transformers', 'datasets') if m in sys.modules]\n"
        "print(codes.count(0), heavy)"
    )
    done = python(code)
    assert done.stdout.strip() == f"{len(lines)} []", done.stderr


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong key"), 2),
        (DataError("no rows"), 3),
        (ModelError("no model"), 4),
        (TrainingError("not finite"), 4),
        (StoreError("disk full"), 5),
        (Interrupted("saved"), 130),
    ],
)
def test_errors_are_one_line_on_stderr_with_their_exit_code(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    assert main(["run", "--root", str(tmp_path)]) == code
    assert capsys.readouterr().err == f"maporl: {error}\n"


def test_debug_shows_the_traceback_and_the_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ModelError("no model"))
    assert main(["--debug", "run", "--root", str(tmp_path)]) == 4
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("maporl: no model\n")


def test_the_unforeseen_is_one_line_that_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, KeyError("x\ny"))
    assert main(["run", "--root", str(tmp_path)]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("maporl: unexpected KeyError: ")
    assert shown.endswith(f"for details run: maporl --debug run --root {tmp_path}\n")
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 5, "disk is full"),
        (MemoryError(), 4, "lower update.micro_tokens"),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA"), 4, "lower update.micro_tokens"),
    ],
)
def test_a_full_disk_and_full_memory_say_what_to_do(
    error: Exception,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    assert main(["run", "--root", str(tmp_path)]) == code
    assert words in capsys.readouterr().err


def test_ctrl_c_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert main(["run", "--root", str(tmp_path)]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["rnu"], "No such command 'rnu'. Did you mean 'run'? See: maporl --help"),
        (["run", "--stps", "3"], "See: maporl run --help"),
        (["run", "--steps", "x"], "See: maporl run --help"),
        (["run", "--steps", "-1"], "See: maporl run --help"),
        (["eval"], "See: maporl eval --help"),
        (["runs", "request", "x"], "See: maporl runs request --help"),
        (["run", "nowhere.toml"], "no file nowhere.toml"),
        (["run", "pockt"], "did you mean 'pocket'?"),
        (["run", "--set", "lr=3"], "did you mean update.lr?"),
        (["resume", "none"], "no run 'none'"),
        (["debate", "--base", "--both"], "contradict"),
        (["debate", "--gold", "3"], "give the question too"),
        (["config", "presets", "gsm"], "did you mean 'gsm8k'?"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: list[str],
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("maporl: ")
    assert shown in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_control_codes_in_an_argument_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["resume", "\x1b]0;owned\x07\x1b[31mx"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_the_process_ends_with_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "maporl_core", "config", "check", "--set", "train.steps=-1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == "maporl: train.steps: must be at least 0 (got -1)\n"
    assert done.stdout == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m maporl_core config schema | head -c 10"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stderr == ""
    assert len(done.stdout) == 10


def test_the_app_without_a_terminal_says_what_to_use_instead() -> None:
    done = python(
        "import sys\nfrom maporl_tui.__main__ import main\ncode = main([])\nsys.exit(code)"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "maporl runs show" in done.stderr


# Config commands --------------------------------------------------------------------------------


def test_a_shown_config_runs_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "pocket", "--set", "train.steps=9"]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out)
    assert main(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out.startswith("ok: pocket: Ada, Bo, Cy discuss pocket for 3 turns")


def test_config_commands_speak_json(capsys: pytest.CaptureFixture[str]) -> None:
    def document(*words: str) -> object:
        assert main(["config", *words]) == 0
        return json.loads(capsys.readouterr().out)

    assert document("show", "--json")["name"] == "pocket"  # type: ignore[index]
    assert "properties" in document("schema")  # type: ignore[operator]
    assert document("check", "--json")["ok"] is True  # type: ignore[index]
    names = [entry["name"] for entry in document("presets", "--json")]  # type: ignore[attr-defined]
    assert names[0] == "pocket"


def test_keys_are_listed_with_default_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "keys", "gamma"]) == 0
    assert capsys.readouterr().out == (
        "reward.gamma = 0.3\n    number >= 0, <= 1; discount over turns [γ]\n"
    )
    assert main(["config", "keys", "--json"]) == 0
    facts = {fact["key"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert facts["discussion.max_context"]["takes"] == "whole number >= 16, <= 16,777,216"
    assert facts["train.train_agents"]["takes"] == "list of text"
    assert facts["agents.<n>.name"]["default"] == "required"
    assert facts["update.schedule"]["takes"] == "constant, linear, cosine"


def test_a_printed_preset_keeps_its_comments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "presets", "gsm8k"]) == 0
    assert "# What differs from the published runs" in capsys.readouterr().out


# Pocket -----------------------------------------------------------------------------------------


def test_a_built_in_model_is_built_with_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def build(
        folder: Path, seed: int, variant: str, _progress: object, **options: object
    ) -> object:
        asked.append((folder.name, seed, variant, options))
        return {"loss": 0.01234, "measures": {"accuracy": [0.5, 0.51]}, "failed": []}

    monkeypatch.setitem(sys.modules, "maporl_core.runs.pocket.build", SimpleNamespace(build=build))
    folder = tmp_path / "new"
    assert main(["pocket", "build", str(folder), "--variant", "pocket-b", "--seed", "3"]) == 0
    assert asked == [("new", 3, "pocket-b", {"steps": None, "gated": True})]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["loss", "0.0123"] in lines
    assert ["measures.accuracy", "0.5,", "0.51"] in lines
    assert ["failed", "none"] in lines


def test_a_folder_that_holds_something_else_is_not_built_into(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    assert main(["pocket", "build", str(tmp_path)]) == 2
    assert main(["pocket", "build", str(tmp_path / "x"), "--variant", "poket"]) == 4


# Terminal ---------------------------------------------------------------------------------------


def test_no_color_takes_colours_away() -> None:
    def drawn(**environment: str) -> str:
        file = io.StringIO()
        console = Console(
            file=file,
            force_terminal=True,
            width=80,
            color_system="standard",
            _environ=environment,
        )
        console.print(gain_table(gain()))
        return file.getvalue()

    assert "\x1b[32m" in drawn(TERM="xterm")
    assert "\x1b[32m" not in drawn(TERM="xterm", NO_COLOR="1")


def test_json_has_null_where_a_number_is_not_finite() -> None:
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": (True, None, "x")}) == {
        "a": None,
        "b": [None, 1.5],
        "c": [True, None, "x"],
    }


def test_completion_knows_presets_files_and_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gmine.toml").touch()
    assert complete_preset("g") == ["gsm8k", "gmine.toml"]
    assert complete_preset("[") == []
    assert complete_key("train.st") == ["train.steps="]


def test_shell_completion_offers_run_names(tmp_path: Path) -> None:
    from maporl_core.config.load import dump_toml, load_config
    from maporl_core.store.paths import RunDir

    RunDir.create(tmp_path / "runs", "first-run", dump_toml(load_config()))
    code = "from maporl_core.cli.main import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "_MAPORL_COMPLETE": "complete_bash",
            "COMP_WORDS": "maporl eval fi",
            "COMP_CWORD": "2",
        },
        timeout=60,
    )
    assert done.stdout.split() == ["first-run"], done.stderr


def test_a_taken_name_gets_the_first_free_number(tmp_path: Path) -> None:
    assert free_name(tmp_path, "pocket") == "pocket"
    (tmp_path / "pocket").mkdir()
    (tmp_path / "pocket-2").mkdir()
    assert free_name(tmp_path, "pocket") == "pocket-3"
    long = "x" * 64
    (tmp_path / long).mkdir()
    assert free_name(tmp_path, long) == "x" * 62 + "-2"
