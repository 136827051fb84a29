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

from maporl_core.errors import Interrupted
from maporl_core.kit.progress import Silent
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter, StoreReader
from maporl_core.train import train
from maporl_core.types import StepReport

STEPS = 4
RUNS: dict[str, dict[str, Any]] = {
    "dropout, which draws from torch's generator": {
        "policies": {"Ada": {"dropout": 0.3}},
        "agents": [{"name": "Ada", "policy": "Ada"}, {"name": "Bo"}],
    },
    "a KL coefficient that adapts": {
        "ppo": {"kl_coef": 0.01, "kl_target": 0.05, "kl_horizon": 40, "epochs": 2},
    },
    "a falling rate, minibatches and every turn trained": {
        "ppo": {"schedule": "cosine", "warmup_steps": 2, "minibatches": 2},
        "train": {"train_turns": "all"},
    },
}


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


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_was_stopped_after_every_step_ends_as_if_it_had_not_been(
    kind: str, tmp_path: Path
) -> None:
    changes = {"eval": {"questions": 0}, "checkpoint": {"every": 1}, **RUNS[kind]}
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
    if "KL" in kind:
        with StoreReader(cut) as reader:
            seen = {value for _, name, value in reader.metrics_since(0).rows if name == "kl_coef"}
        assert len(seen) == STEPS  # it did adapt
