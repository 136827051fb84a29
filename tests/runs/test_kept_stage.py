"""The stage of a run is kept for whoever watches it from another process."""

from __future__ import annotations

import json
import time

import pytest

from maporl_core.kit.progress import STAGE, KeptStage, Silent


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


class Heard(Silent):
    """What was handed on."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def stage(self, name: str, total: int | None = None) -> None:
        self.calls.append((name, total))

    def advance(self, count: int = 1) -> None:
        self.calls.append((count,))


def test_a_stage_is_kept_as_it_begins_and_once_a_second_while_it_goes_on(clock: Clock) -> None:
    kept: list[object] = []
    progress = KeptStage(Silent(), lambda facts: kept.append(json.loads(facts[STAGE])))
    progress.stage("evaluating before", 360)
    progress.advance(30)
    clock.seconds += 0.9
    progress.advance(30)
    clock.seconds += 0.1
    progress.advance(30)
    progress.advance(30)
    progress.stage("saving checkpoint 4")
    assert kept == [
        {"name": "loading", "done": 0, "total": None},
        {"name": "evaluating before", "done": 0, "total": 360},
        {"name": "evaluating before", "done": 90, "total": 360},
        {"name": "saving checkpoint 4", "done": 0, "total": None},
    ]


def test_everything_is_handed_on(clock: Clock) -> None:
    heard = Heard()
    progress = KeptStage(heard, lambda _: None)
    progress.stage("a", 3)
    progress.advance(2)
    assert heard.calls == [("a", 3), (2,)]
