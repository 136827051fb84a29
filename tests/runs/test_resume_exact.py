"""Stopped after every step and resumed under foreign random states, a run is the straight one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kills.run_account import account, differences
from run_samples import new_run, small
from valueless import MinusRunningMean, Valueless, train_by

from maporl_core.errors import Interrupted
from maporl_core.kit.progress import Silent
from maporl_core.runs.run_state import TRAINER
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter, StoreReader
from maporl_core.store.state_files import load_state
from maporl_core.train import train
from maporl_core.types import StepReport

STEPS = 4
RUNS: dict[str, dict[str, Any]] = {
    "dropout, which draws from torch's generator": {
        "policies": {"Ada": {"dropout": 0.3}},
        "agents": [{"name": "Ada", "policy": "Ada"}, {"name": "Bo"}],
    },
    "a KL coefficient that adapts": {
        "update": {"epochs": 2},
        "method": {"kl_coef": 0.01, "kl_target": 0.05, "kl_horizon": 40},
    },
    "a falling rate, minibatches and every turn trained": {
        "update": {"schedule": "cosine", "warmup_steps": 2, "minibatches": 2},
        "train": {"train_turns": "all"},
    },
}
OWN_STATE = "an estimator without values that keeps a running mean"


class StopAfterEveryStep(Silent):
    """Asks the run to stop whenever it has done a step."""

    def __init__(self, run: RunDir) -> None:
        self.run = run

    def step_done(self, report: StepReport) -> None:
        RequestWriter(self.run).add("stop")


def foreign_random_states() -> None:
    """What a new process would not share with the one before."""
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)
    torch.rand(7)


def check_without_values(run: RunDir) -> None:
    """No value head, no metric of one, and a mean per policy in the checkpoint."""
    (saved,) = [entry for entry in list_checkpoints(run) if entry.step == STEPS]
    assert sorted(load_state(saved.path / TRAINER)["updater"]["baselines"]) == ["Ada", "Bo", "Cy"]
    assert list(run.path.rglob("value_head*")) == []
    with StoreReader(run) as reader:
        names = {name for _, name, _ in reader.metrics_since(0).rows}
    assert "ppo/policy_loss" in names
    assert not any("value" in name or "variance" in name for name in names)


@pytest.mark.parametrize("kind", [*RUNS, OWN_STATE])
def test_a_run_that_was_stopped_after_every_step_ends_as_if_it_had_not_been(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == OWN_STATE:
        train_by(monkeypatch, lambda config: Valueless(config, MinusRunningMean()))
    changes = {"eval": {"questions": 0}, "checkpoint": {"every": 1}, **RUNS.get(kind, {})}
    config = small(**{**changes, "train": {"steps": STEPS, **changes.get("train", {})}})
    straight, cut = new_run(tmp_path / "straight", config), new_run(tmp_path / "cut", config)
    foreign_random_states()
    train(config, straight, Silent())
    for place in range(STEPS):
        foreign_random_states()
        with pytest.raises(Interrupted):
            train(config, cut, StopAfterEveryStep(cut), resume=place > 0)
    foreign_random_states()
    train(config, cut, Silent(), resume=True)
    wanted = account(straight.path)
    assert differences(wanted, account(cut.path)) == []
    if kind == OWN_STATE:
        check_without_values(cut)
    if "KL" in kind:
        with StoreReader(cut) as reader:
            seen = {value for _, name, value in reader.metrics_since(0).rows if name == "kl_coef"}
        assert len(seen) == STEPS  # it did adapt
