"""The app in a real terminal under tmux: start, keys, resizing, dying beside a living trainer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tui_samples import demo_run

from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_tui.bench import idle

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


_SIZES = ("COLUMNS", "LINES")
"""The test runner may set these, and an app would believe them more than its terminal."""


class Terminal:
    """One tmux session of its own server."""

    def __init__(self, folder: Path, columns: int, lines: int) -> None:
        self._server = f"maporl-{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._size = (columns, lines)

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._server, "-f", os.devnull, *words],
            capture_output=True,
            text=True,
            timeout=30,
            cwd=self._folder,
            env={key: value for key, value in os.environ.items() if key not in _SIZES},
        )
        return done.stdout

    def start(self, command: str) -> None:
        columns, lines = map(str, self._size)
        environment = ["-e", f"MAPORL_CONFIG_DIR={self._folder / 'config'}"]
        self.tmux("new-session", "-d", "-x", columns, "-y", lines, *environment, "bash --norc")
        self.type("PS1='ready$ '; clear")
        self.until(lambda text: text.strip() == "ready$")
        self.type(command)

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, condition: Callable[[str], bool], seconds: float = 60.0) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text()
            if condition(text):
                return text
            time.sleep(0.1)
        raise AssertionError("waited in vain; the terminal was:\n" + self.text())

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, 80, 24)
    yield made
    made.close()


def app_command(run: RunDir, *words: str) -> str:
    return " ".join([sys.executable, "-m", "maporl_tui", str(run.path), *words])


def apps_of(run: RunDir) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "maporl_tui" in words and str(run.path) in words:
            found.append(process)
    return found


def test_it_starts_moves_and_leaves_a_clean_terminal(terminal: Terminal, tmp_path: Path) -> None:
    run = demo_run(tmp_path / "runs")
    terminal.start(app_command(run))
    terminal.until(lambda text: "accuracy per turn" in text and "step 6/6" in text)
    terminal.press("3")
    terminal.until(lambda text: "How many?" in text)
    terminal.press("?")
    terminal.until(lambda text: "Keys on Debate" in text)
    terminal.press("Escape")
    terminal.until(lambda text: "Keys on Debate" not in text)
    terminal.press("q")
    terminal.until(lambda text: text.rstrip().endswith("ready$"))
    terminal.type("echo still $((6*7))")
    text = terminal.until(lambda text: "still 42" in text)
    assert "^[" not in text
    assert "Dashboard" not in text


def test_it_survives_a_terminal_of_one_cell(terminal: Terminal, tmp_path: Path) -> None:
    run = demo_run(tmp_path / "runs")
    terminal.start(app_command(run, "--screen", "debate"))
    terminal.until(lambda text: "How many?" in text)
    for columns, lines in ((20, 5), (1, 1), (120, 40)):
        terminal.tmux("resize-window", "-x", str(columns), "-y", str(lines))
        time.sleep(0.5)
    terminal.until(lambda text: "How many?" in text and "Cy · turn 3" in text)


def test_killing_the_app_or_its_terminal_never_touches_the_trainer(
    terminal: Terminal, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "maporl_core", "run", "pocket", "--name", "alive", "--root"]
    words += [str(tmp_path / "runs"), "--steps", "400"]
    for change in ("train.problems_per_step=2", "eval.questions=0", "checkpoint.every=0"):
        words += ["--set", change]
    trainer = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    run = RunDir(tmp_path / "runs" / "alive")
    try:
        _wait(lambda: run.database.is_file() and _step(run) >= 1)
        terminal.start(app_command(run, "--no-mouse"))
        terminal.until(lambda text: "alive · running" in text)
        (app,) = apps_of(run)
        app.send_signal(signal.SIGKILL)
        terminal.until(lambda _: not apps_of(run))
        before = _step(run)
        _wait(lambda: _step(run) > before)
        terminal.type("stty sane; clear; " + app_command(run))
        terminal.until(lambda text: "alive · running" in text)
        terminal.close()
        _wait(lambda: not apps_of(run))
        before = _step(run)
        _wait(lambda: _step(run) > before)
        assert trainer.poll() is None
    finally:
        trainer.terminate()
        trainer.wait(60)


def test_an_idle_app_writes_next_to_nothing(tmp_path: Path) -> None:
    run = demo_run(tmp_path / "runs")
    found = idle(run.path, "dashboard", seconds=4.0, settle=8.0)
    assert found["bytes_per_second"] < 1000


def _step(run: RunDir) -> int:
    with StoreReader(run) as reader:
        return reader.status().step


def _wait(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)
