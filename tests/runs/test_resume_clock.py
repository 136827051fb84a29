"""A clock that goes backwards, within a run and from one start to the next, decides nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from kills.run_account import account, differences
from run_samples import Probe, new_run, small

from maporl_core.config.schema import RunConfig
from maporl_core.store.checkpoint import find_resumable
from maporl_core.store.reader import StoreReader, list_runs
from maporl_core.train import train

HOUR = 3600.0


def description(steps: int) -> RunConfig:
    return small(train={"steps": steps}, eval={"questions": 2, "every": 2})


def test_a_run_under_a_falling_clock_is_resumed_and_read_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = new_run(tmp_path / "honest", description(4))
    train(description(2), straight, Probe())
    train(description(4), straight, Probe(), resume=True)

    now = [2e9]  # every look at the clock finds it an hour earlier

    def falling() -> float:
        now[0] -= HOUR
        return now[0]

    monkeypatch.setattr(time, "time", falling)
    run = new_run(tmp_path / "falling", description(4))
    train(description(2), run, Probe())
    after_two = now[0]
    for place, folder in enumerate(sorted(run.checkpoints.iterdir())):
        os.utime(folder, (1e9 - place, 1e9 - place))  # the newest looks oldest
    found = find_resumable(run)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 2
    train(description(4), run, Probe(), resume=True)
    assert now[0] < after_two - 20 * HOUR
    assert differences(account(straight.path), account(run.path)) == []
    with StoreReader(run) as reader:
        times = [event.time for event in reader.events_since()]
        steps = [event.step for event in reader.events_since() if event.kind == "checkpoint"]
    assert times == sorted(times, reverse=True)  # it did fall, and the order is that of writing
    assert steps == sorted(steps)
    assert set(steps) == {1, 2, 3, 4}
    (summary,) = list_runs(run.path.parent)
    assert summary.status.state == "finished"
    assert summary.status.step == 4
