"""Starting runs in processes of their own, and the command line around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tui_samples import demo_run

from maporl_core.cli import tui
from maporl_core.cli.main import main as maporl
from maporl_core.errors import ConfigError, StoreError
from maporl_core.kit.user_paths import free_name
from maporl_core.store.reader import RunDir, StoreReader
from maporl_tui import __main__ as command
from maporl_tui.processes import launcher
from maporl_tui.processes.launcher import (
    LOG_NAME,
    LaunchError,
    Order,
    Trainer,
    resume_order,
    run_order,
    start_and_wait,
)

TINY = (
    *("train.steps=2", "train.problems_per_step=2", "eval.questions=0", "checkpoint.every=0"),
    *("agents=[{name = 'Ada'}, {name = 'Bo'}]", "update.epochs=1"),
)


def wait_for_end(run: RunDir, seconds: float = 240.0) -> str:
    """The run's last state; fails when it goes on for longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with StoreReader(run) as reader:
            status = reader.status()
        if status.state not in ("new", "running"):
            return status.state
        time.sleep(0.1)
    raise AssertionError(f"still {status}")


def test_a_run_goes_on_when_its_starter_and_its_terminal_are_gone(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from maporl_tui.processes.launcher import run_order, start_and_wait\n"
        f"trainer = start_and_wait(run_order('pocket', {TINY!r}, Path(sys.argv[1])), print)\n"
        "print('STARTED', trainer.pid, flush=True)\ntime.sleep(100)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert starter.stdout is not None
    with starter.stdout:
        pid = next(int(line.split()[1]) for line in starter.stdout if line.startswith("STARTED"))
        assert os.getsid(pid) == pid
        os.killpg(starter.pid, signal.SIGHUP)
        os.killpg(starter.pid, signal.SIGKILL)
        starter.wait()
    run = RunDir(tmp_path / "pocket")
    assert wait_for_end(run) == "finished"
    with StoreReader(run) as reader:
        assert reader.status().step == 2
    assert "step" in (run.path / LOG_NAME).read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["pocket"]


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Order]:
    """An order whose child runs these lines of a shell instead of a trainer."""

    def make(lines: str) -> Order:
        script = tmp_path / "child"
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        monkeypatch.setattr(launcher.sys, "executable", str(script))
        return Order(RunDir(tmp_path / "runs" / "x"), ("run", "pocket"))

    return make


def silently(line: str) -> None:
    """Nobody listens."""


def test_a_child_that_refuses_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    order = Order(RunDir(tmp_path / "x"), ("run", "pocket", "--set", "train.steps=-1"))
    with pytest.raises(LaunchError, match=r"^train\.steps: must be at least 0 \(got -1\)") as error:
        start_and_wait(order, silently)
    assert error.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_is_killed_says_by_what(child: Callable[[str], Order]) -> None:
    with pytest.raises(LaunchError, match="killed by signal 9 and said nothing"):
        start_and_wait(child("kill -9 $$"), silently)


def test_progress_is_what_the_child_said_last(child: Callable[[str], Order]) -> None:
    said: list[str] = []
    with pytest.raises(LaunchError, match=r"^no such model$"):
        start_and_wait(
            child("echo loading; sleep 5.5; echo 'maporl: no such model'; exit 4"), said.append
        )
    assert said[-1] == "starting x, 5 s: loading"


def test_a_run_that_goes_away_again_leaves_its_reason(child: Callable[[str], Order]) -> None:
    order = child("")
    folder = order.run.path
    order = child(
        f"mkdir -p {folder}; echo > {order.run.database}; sleep 1\n"
        f"rm -r {folder}; echo 'maporl: no model at /x'; exit 4"
    )
    trainer = start_and_wait(order, silently)
    assert (folder / LOG_NAME).is_file()
    assert trainer.failure() is None
    while not trainer.ended:
        time.sleep(0.05)
    assert trainer.failure() == "no model at /x"


def test_a_trainer_needs_a_folder_to_write_in(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write"):
        Trainer(Order(RunDir(tmp_path / "file" / "x"), ("run",)))


def test_a_taken_name_gets_a_number_or_is_refused_with_a_free_one(tmp_path: Path) -> None:
    demo_run(tmp_path, "pocket", steps=1, questions=0)
    (tmp_path / "pocket-2").mkdir()
    order = run_order("pocket", (), tmp_path)
    assert order.run.name == "pocket-3"
    assert order.words[-4:] == ("--name", "pocket-3", "--root", str(tmp_path))
    for asked in ({"name": "pocket"}, {"changes": ["name=pocket"]}):
        with pytest.raises(ConfigError, match=r"taken .* such as 'pocket-3'"):
            run_order("pocket", asked.get("changes", ()), tmp_path, asked.get("name"))  # type: ignore[arg-type]
    long = "x" * 64
    (tmp_path / long).mkdir()
    assert free_name(tmp_path, long) == "x" * 62 + "-2"


def test_a_wrong_description_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.stepz: unknown key"):
        run_order("pocket", ["train.stepz=1"], tmp_path)
    with pytest.raises(ConfigError, match="no run 'none'"):
        resume_order("none", (), tmp_path)


def test_a_run_in_training_is_not_resumed(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running", steps=1)
    with run.lock(), pytest.raises(StoreError, match="being trained already"):
        resume_order("demo", (), tmp_path)


# Command lines -----------------------------------------------------------------------------------


class Became(Exception):
    """Instead of becoming the app."""


@pytest.fixture
def became(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Words of the processes that ``maporl`` would have become, in a terminal."""
    words: list[list[str]] = []

    def execv(path: str, arguments: list[str]) -> None:
        words.append(arguments)
        raise Became

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(os, "isatty", lambda _: True)
    return words


def test_run_tui_hands_the_same_words_to_the_app(became: list[list[str]], tmp_path: Path) -> None:
    arguments = ["run", "pocket", "--steps", "3", "--set", "seed=1", "--root", str(tmp_path)]
    assert maporl([*arguments, "--name", "x", "--tui"]) == 1  # what stands for becoming the app
    words = ["--start", "pocket", "--root", str(tmp_path), "--set", "seed=1"]
    words += ["--set", "train.steps=3", "--name", "x"]
    assert became == [[sys.executable, "-m", "maporl_tui", *words]]


def test_resume_tui_and_run_resume_tui_let_the_run_go_on(
    became: list[list[str]], tmp_path: Path
) -> None:
    run = demo_run(tmp_path, "pocket", steps=1, questions=0)
    maporl(["resume", "pocket", "--root", str(tmp_path), "--tui"])
    maporl(["run", "pocket", "--resume", "--root", str(tmp_path), "--tui"])
    wanted = ["--resume", str(run.path), "--root", str(tmp_path)]
    assert [words[3:] for words in became] == [wanted, wanted]


def test_tui_passes_everything_on(became: list[list[str]]) -> None:
    maporl(["tui", "pocket", "--no-mouse", "--help"])
    assert became[0][3:] == ["pocket", "--no-mouse", "--help"]


def test_a_wrong_config_is_told_before_the_app_opens(
    became: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert maporl(["run", "pocket", "--set", "update.lr=-1", "--tui"]) == 2
    assert became == []
    assert "update.lr" in capsys.readouterr().err


def test_tui_options_need_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="needs a terminal"):
        tui.need_terminal(json=False)
    with pytest.raises(ConfigError, match="exclude"):
        tui.need_terminal(json=True)
    assert maporl(["run", "pocket", "--tui"]) == 2
    assert capsys.readouterr().err == "maporl: --tui needs a terminal; leave it out here\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["none"], "no run 'none'"),
        (["--screen", "seven"], "no screen 'seven'"),
        (["--refresh", "0"], "refresh"),
        (["--set", "a=b"], "go with --start"),
        (["a", "--start", "pocket"], "choose one"),
        (["--start", "pocket", "--readonly"], "starts no run"),
        (["--start", "pockt"], "did you mean 'pocket'"),
        (["\0"], "no run"),
        (["~nobody/x"], "no run"),
        (["x" * 5000], "no run"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_two(
    words: list[str],
    line: str,
    became: list[list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(words) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("maporl-tui ")
    assert command.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "--no-mouse" in out
    assert "maporl-tui --start gsm8k --set train.steps=20" in out


def test_a_word_is_a_run_its_folder_or_a_folder_of_runs(tmp_path: Path) -> None:
    run = demo_run(tmp_path / "mine", steps=1, questions=0)
    root = tmp_path / "mine"
    assert command._find(root, "demo") == (root, run)
    assert command._find(Path("runs"), str(run.path)) == (root, run)
    assert command._find(Path("runs"), str(run.database)) == (root, run)
    assert command._find(Path("runs"), str(root)) == (root, None)
    assert command._find(root, None) == (root, None)
