"""``maporl run`` and ``maporl resume`` around a stand-in for training."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_samples import discussion, gain, report, summary

from maporl_core.cli.main import main
from maporl_core.config.load import load_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import Interrupted, ModelError, TrainingError
from maporl_core.kit.progress import Progress
from maporl_core.kit.signals import StopFlag
from maporl_core.store.checkpoint import write_checkpoint
from maporl_core.store.paths import RunDir
from maporl_core.store.records import Paid
from maporl_core.store.writer import StoreWriter


class Trainer:
    """Stands in for ``train``: tells of two steps, stores them, and ends as it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[RunConfig, RunDir, bool]] = []
        self.ending: Callable[[], None] = lambda: None
        self.silent = False

    def __call__(
        self, config: RunConfig, run: RunDir, progress: Progress, *, resume: bool, stop: StopFlag
    ) -> Any:
        stop.end_loading()
        self.calls.append((config, run, resume))
        if not self.silent:
            self._tell(config, run, progress)
        self.ending()
        return SimpleNamespace(steps=config.train.steps, gain=gain())

    def _tell(self, config: RunConfig, run: RunDir, progress: Progress) -> None:
        progress.stage("loading model [x]")
        progress.stage("evaluating before", 10)
        progress.advance(10)
        progress.evaluated(summary())
        with run.lock(), StoreWriter(run) as store:
            for step in (1, 2):
                progress.stage(f"step {step}: rollout", 4)
                store.write_step(step, [Paid(discussion())], report(step).metrics)
                progress.step_done(report(step, config.train.steps))
            with write_checkpoint(run, 2, keep=3) as folder:
                (folder / "x").write_text("x")
            store.set_state("finished")
        progress.log("warning", "look\x1b[31m [here]")
        progress.gained(gain())


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    made = Trainer()
    monkeypatch.setitem(sys.modules, "maporl_core.train", SimpleNamespace(train=made))
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def run(root: Path, *words: str) -> int:
    return main(["run", *words, "--root", str(root)])


def test_a_run_is_made_with_the_config_asked_for(trainer: Trainer, root: Path) -> None:
    assert run(root, "pocket", "--steps", "2", "--set", "seed=7") == 0
    config, folder, resume = trainer.calls[0]
    assert (config.name, config.seed, config.train.steps) == ("pocket", 7, 2)
    assert folder.path == root / "pocket"
    assert load_config(folder.config) == config
    assert not resume


def test_a_default_name_that_is_taken_gets_a_number(trainer: Trainer, root: Path) -> None:
    for _ in range(3):
        assert run(root) == 0
    assert [config.name for config, _, _ in trainer.calls] == ["pocket", "pocket-2", "pocket-3"]
    assert load_config(root / "pocket-3" / "config.toml").name == "pocket-3"


@pytest.mark.parametrize("words", [["--name", "mine"], ["--set", "name=mine"]])
def test_a_chosen_name_that_is_taken_is_refused_with_what_to_do(
    words: list[str], trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, *words) == 0
    assert run(root, *words) == 2
    assert "maporl resume mine" in capsys.readouterr().err
    assert len(trainer.calls) == 1


def test_a_name_that_leaves_the_root_is_refused(trainer: Trainer, root: Path) -> None:
    assert run(root, "--name", "../x") == 2
    assert trainer.calls == []


def test_without_a_terminal_a_run_tells_plain_lines(
    trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "--steps", "2") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    lines = [line[9:] for line in shown.splitlines()]  # without the clock
    assert "loading model [x]" in lines
    assert "evaluated before on 500 questions: 51.0% [49.0, 53.0], 50.0% [48.0, 52.0], " in shown
    assert (
        "step 1/2  accuracy by turn 50.0% 52.0% 53.0%  reward 0.6  KL 0.0123  2.0 s  left 2.0 s"
        in lines
    )
    assert not any(line.startswith("step 1: rollout") for line in lines)
    assert "warning: look [here]" in lines


def test_the_last_screen_shows_before_after_and_gain_and_what_to_do_next(
    trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root) == 0
    shown = capsys.readouterr().out
    assert "500 questions of pocket/test" in shown
    row = next(line for line in shown.splitlines() if line.strip().startswith("turn 3"))
    assert "52.0% [50.0, 54.0]" in row
    assert "74.5% [72.5, 76.5]" in row
    assert "+22.5 [+19.2, +25.7]" in row
    assert f"maporl debate --both --run pocket --root {root}" in shown
    assert max(map(len, shown[shown.index("On 500") :].split("Kept in")[0].splitlines())) <= 80


def test_json_is_one_object_per_line(
    trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "run"
    assert kinds[-1] == "done"
    assert {"stage", "evaluated", "step", "log", "gained"} <= set(kinds)
    step = next(event for event in events if event["event"] == "step")
    assert step["metrics"]["accuracy/turn_3"] == 0.53
    assert events[-1]["state"] == "finished"
    assert events[-1]["gain"]["gain_T"][2]["mean"] == 0.225


def test_json_tells_of_an_interruption_too(
    trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise Interrupted("stopped by SIGINT")

    trainer.ending = interrupt
    assert run(root, "--json") == 130
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["event"], last["state"], last["exit_code"]) == ("done", "interrupted", 130)


def test_a_run_that_never_began_leaves_no_folder(trainer: Trainer, root: Path) -> None:
    def fail() -> None:
        raise ModelError("no such model")

    trainer.silent, trainer.ending = True, fail
    assert run(root) == 4
    assert list(root.iterdir()) == []


def test_a_run_that_failed_later_keeps_what_it_has(trainer: Trainer, root: Path) -> None:
    def fail() -> None:
        raise TrainingError("not finite")

    trainer.ending = fail
    assert run(root) == 4
    assert (root / "pocket" / "run.db").is_file()


# Resume -----------------------------------------------------------------------------------------


def resume(root: Path, *words: str) -> int:
    return main(["resume", *words, "--root", str(root)])


def test_resume_goes_on_with_the_stored_config(trainer: Trainer, root: Path) -> None:
    run(root, "--set", "seed=3", "--steps", "9")
    assert resume(root, "pocket") == 0
    config, folder, resumed = trainer.calls[1]
    assert resumed
    assert (config.seed, folder.path) == (3, root / "pocket")


def test_resume_with_more_steps_writes_them_down(trainer: Trainer, root: Path) -> None:
    run(root, "--steps", "2")
    assert resume(root, "pocket", "--set", "train.steps=20") == 0
    assert trainer.calls[1][0].train.steps == 20
    assert load_config(root / "pocket" / "config.toml").train.steps == 20


@pytest.mark.parametrize("change", ["update.lr=1", "seed=5", "agents.Ada.role=x", "task.limit=3"])
def test_resume_refuses_what_would_change_the_run(
    change: str, trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(root, "--steps", "9")
    before = (root / "pocket" / "config.toml").read_text()
    assert resume(root, "pocket", "--set", change) == 2
    named = change.split("=")[0].replace("Ada", "0")
    assert f"other values of {named};" in capsys.readouterr().err
    assert (root / "pocket" / "config.toml").read_text() == before


def test_resume_of_a_finished_run_says_how_to_train_on(
    trainer: Trainer, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(root, "--steps", "2")
    capsys.readouterr()
    assert resume(root, "pocket") == 0
    assert "--set train.steps=4" in capsys.readouterr().out
    assert resume(root, "pocket", "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "finished"
    assert len(trainer.calls) == 1


def test_resume_to_fewer_steps_than_done_is_refused(trainer: Trainer, root: Path) -> None:
    run(root, "--steps", "2")
    assert resume(root, "pocket", "--set", "train.steps=1") == 2


def test_run_with_resume_starts_or_goes_on(trainer: Trainer, root: Path) -> None:
    for _ in range(2):
        assert run(root, "--name", "job", "--steps", "9", "--resume") == 0
    assert [resumed for _, _, resumed in trainer.calls] == [False, True]
    assert run(root, "--name", "job", "--steps", "9", "--resume", "--set", "seed=9") == 2
