"""A pause that is asked for while a run is being measured."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from run_samples import new_run, one_thread, rows_of, small, state_bytes  # noqa: F401

from maporl_core.kit.progress import Silent
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter, StoreReader
from maporl_core.train import train

REST = 1.0  # seconds


class PausesInEvaluation(Silent):
    """Asks for a pause as the evaluation after step 1 begins; goes on when that was seen."""

    def __init__(self, run: RunDir) -> None:
        self.run, self.seen, self.measured = run, "", -1
        self.going_on = threading.Thread(target=self._go_on, daemon=True)

    def stage(self, name: str, total: int | None = None) -> None:
        if name == "evaluating step 1":
            RequestWriter(self.run).add("pause")
            self.going_on.start()

    def _go_on(self) -> None:
        for _ in range(600):
            with StoreReader(self.run) as reader:
                self.seen = reader.status().state
                self.measured = len(reader.evaluations())
            if self.seen == "paused":
                break
            time.sleep(0.02)
        time.sleep(REST)
        RequestWriter(self.run).add("resume")


def test_a_pause_holds_inside_an_evaluation_and_changes_no_number(tmp_path: Path) -> None:
    config = small(eval={"questions": 4, "every": 1}, train={"steps": 2})
    straight = new_run(tmp_path / "straight", config)
    train(config, straight, Silent())
    run = new_run(tmp_path / "paused", config)
    asks = PausesInEvaluation(run)
    train(config, run, asks)
    asks.going_on.join(30)
    assert (asks.seen, asks.measured) == ("paused", 1)  # only the one before training was done
    assert rows_of(run) == rows_of(straight)
    assert state_bytes(run.final) == state_bytes(straight.final)
    with StoreReader(run) as reader, StoreReader(straight) as other:
        mine, theirs = (
            [e.summary.accuracy_TA for e in source.evaluations()] for source in (reader, other)
        )
        resting = next(e.summary for e in reader.evaluations() if e.summary.label == "step 1")
    assert mine == theirs
    assert resting.seconds < REST  # the rest is not counted
