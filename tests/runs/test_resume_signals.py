"""Signals in every phase of a run: what is saved, how it ends, and how it goes on."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import Command, command, tiny
from kills.killed_run import CHECKPOINT, EVALUATION, FINAL, MODELS, ROLLOUT, STORE, UPDATE
from kills.run_account import account, differences

from maporl_core.kit.signals import StopFlag
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader

PHASES = (
    # phase, its how-manieth time in the process, signal
    (EVALUATION, 1, signal.SIGTERM),  # before the first step
    (ROLLOUT, 1, signal.SIGINT),
    (UPDATE, 1, signal.SIGTERM),
    (STORE, 1, signal.SIGINT),
    (EVALUATION, 1, signal.SIGTERM),  # between steps
    (CHECKPOINT, 1, signal.SIGTERM),
    (EVALUATION, 1, signal.SIGINT),  # after the last step
)


def test_stopped_in_every_phase_a_run_saves_and_goes_on_exactly(tmp_path: Path) -> None:
    words = ["run", str(tiny(tmp_path)), "--resume", "--root"]
    assert command(tmp_path, *words, tmp_path / "straight")[0] == 0
    cut = RunDir(tmp_path / "cut" / "tiny")
    for phase, times, number in PHASES:
        code, said = (
            Command([*words, str(cut.path.parent)], tmp_path)
            .until(phase, times)
            .signal(signal.SIGHUP)
            .signal(number)
            .end()
        )
        assert code == 130, said
        assert said.rstrip().endswith("go on with: maporl resume tiny")
        with StoreReader(cut) as reader:
            status = reader.status()
        assert status.state == "interrupted"
        assert status.reason is not None
        assert signal.Signals(number).name in status.reason
        assert list_checkpoints(cut)[-1].step == status.step
    code, said = Command([*words, str(cut.path.parent)], tmp_path).until(FINAL).signal(15).end()
    assert code == 0, said  # nothing is left to give up
    found = differences(account(tmp_path / "straight" / "tiny"), account(cut.path))
    assert set(found) <= {"checkpoints"}  # every stop saved one


def test_a_second_interrupt_ends_at_once_and_what_was_stored_stays(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    long = ["--set", "update.epochs=1000"]  # nobody waits for the end of this update
    running = Command(["run", str(tiny(tmp_path)), *long, "--root", str(root)], tmp_path)
    running.until(UPDATE).signal(signal.SIGINT)
    while b"Ctrl-C again" not in running.log.read_bytes():  # two at once may count as one
        time.sleep(0.01)
    code, said = running.signal(signal.SIGINT).end()
    assert code == 130
    assert "Traceback" not in said
    assert said.rstrip().endswith("stopped at once, unsaved; go on with: maporl resume tiny")
    run = RunDir(root / "tiny")
    with StoreReader(run) as reader:
        assert reader.status().state == "interrupted"
    shorter = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=0")
    assert shorter[0] == 0


def test_a_first_interrupt_is_answered_while_the_update_goes_on(tmp_path: Path) -> None:
    words = ["run", str(tiny(tmp_path)), "--root", str(tmp_path / "runs")]
    code, said = Command(words, tmp_path).until(UPDATE, 2).signal(signal.SIGINT).end()
    assert code == 130
    answer = "SIGINT: stops after this step and saves; Ctrl-C again stops now, unsaved\n"
    assert said.count(answer) == 1
    assert said.index(answer) < said.index("saved step")


def test_the_answer_to_a_signal_does_no_harm_where_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stop = StopFlag()
    stop.descriptor = writing
    stop.handle(signal.SIGTERM, None)
    os.close(writing)
    assert stop.raised


def test_a_stop_while_models_load_leaves_no_empty_run(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    running = Command(["run", str(tiny(tmp_path)), "--root", str(root)], tmp_path)
    code, said = running.until(MODELS).signal(signal.SIGTERM).end()
    assert code == 130
    assert "stopped by SIGTERM while loading" in said
    assert list(root.iterdir()) == []


def test_a_stop_while_a_resumed_run_loads_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    assert command(tmp_path, "run", tiny(tmp_path), "--root", root, "--steps", 2)[0] == 0
    before = account(root / "tiny")
    resumed = Command(["resume", "tiny", "--root", str(root), "--set", "train.steps=4"], tmp_path)
    assert resumed.until(MODELS).signal(signal.SIGTERM).end()[0] == 130
    assert set(differences(before, account(root / "tiny"))) == {"state and steps"}
    assert command(tmp_path, "resume", "tiny", "--root", root)[0] == 0


def test_a_stop_right_after_a_checkpoint_does_not_write_it_again(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    running = Command(["run", str(tiny(tmp_path)), "--root", str(root)], tmp_path)
    code, said = running.until(CHECKPOINT).signal(signal.SIGTERM).end()
    assert code == 130
    assert said.count("saved step 2") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_libraries_load_leaves_no_empty_run(tmp_path: Path, number: int) -> None:
    words = [sys.executable, "-u", "-m", "maporl_core", "run", str(tiny(tmp_path))]
    child = subprocess.Popen(
        [*words, "--root", str(tmp_path / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    while "loading libraries" not in child.stdout.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGHUP)
    child.send_signal(number)
    said = child.communicate(timeout=120)[0]
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_goes_on_when_its_terminal_is_gone(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    words = [sys.executable, "-m", "maporl_core", "run", str(tiny(tmp_path)), "--steps", "2"]
    child = subprocess.Popen(
        [*words, "--root", str(tmp_path / "runs")],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(its)
    os.read(ours, 10)  # it has begun to draw
    os.close(ours)
    assert child.wait(timeout=240) == 0
    with StoreReader(RunDir(tmp_path / "runs" / "tiny")) as reader:
        assert reader.status().state == "finished"


def test_a_run_goes_on_when_its_pipe_is_closed(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "maporl_core", "run", str(tiny(tmp_path)), "--steps", "2"]
    child = subprocess.Popen(
        [*words, "--json", "--root", str(tmp_path / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None
    said = child.stderr.read()
    assert child.wait(timeout=240) == 0, said
    assert b"Traceback" not in said
    with StoreReader(RunDir(tmp_path / "runs" / "tiny")) as reader:
        assert reader.status().state == "finished"
