"""Small runs of the built-in agents, and what two of them are compared by."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from maporl_core.config.load import dump_toml
from maporl_core.config.schema import RunConfig
from maporl_core.kit.progress import Silent
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader


def small(**changes):
    base = {
        "name": "small",
        "discussion": {"style": "compact", "max_new_tokens": 12, "turns": 2},
        "verifier": {"kind": "noisy"},
        "update": {"epochs": 1, "lr": 1e-3},
        "train": {"steps": 2, "problems_per_step": 3},
        "eval": {"questions": 4},
        "checkpoint": {"every": 1, "keep": 10},
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return RunConfig.model_validate(base)


def new_run(root: Path, config: RunConfig) -> RunDir:
    return RunDir.create(root, config.name, dump_toml(config))


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def state_bytes(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def rows_of(run: RunDir):
    """Everything a step stored that does not depend on the clock."""
    with StoreReader(run) as reader:
        metrics = [
            row
            for row in reader.metrics_since(0).rows
            if not row[1].startswith(("time/", "speed/", "memory/"))
        ]
        held = [
            (s.row.step, s.discussion, s.rewards_TA) for s in reader.discussions() if s.rewards_TA
        ]
    return sorted(metrics), sorted(held, key=lambda entry: (entry[0], entry[1].problem.id))


class Probe(Silent):
    def __init__(self):
        self.summaries, self.gains, self.logs, self.reports = [], [], [], []

    def evaluated(self, summary):
        self.summaries.append(summary)

    def gained(self, gain):
        self.gains.append(gain)

    def log(self, level, text):
        self.logs.append((level, text))

    def step_done(self, report):
        self.reports.append(report)
