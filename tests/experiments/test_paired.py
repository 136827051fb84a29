"""Timing sides in turns: who goes first, what counts, and what a slow machine does to a ratio."""

from __future__ import annotations

import pytest

from maporl_core.experiments.bench.paired import Timed, paired, spread


class Machine:
    """A clock that only work moves; ``pace`` is how slow the machine is in each round."""

    def __init__(self, paces: list[float]) -> None:
        self.now, self.paces, self.done = 0.0, paces, list[str]()

    def work(self, name: str, seconds: float) -> None:
        self.now += seconds * self.paces[len(self.done) // 2]
        self.done.append(name)


def _timed(paces: list[float], warm_ups: int) -> tuple[Machine, Timed]:
    machine = Machine(paces)
    sides = {"slow": lambda: machine.work("slow", 3.0), "fast": lambda: machine.work("fast", 2.0)}
    repeats = len(paces) - warm_ups
    return machine, paired(sides, repeats, warm_ups, clock=lambda: machine.now)


def test_sides_take_turns_and_every_other_round_goes_backwards() -> None:
    machine, _ = _timed([1.0] * 3, warm_ups=0)
    assert machine.done == ["slow", "fast", "fast", "slow", "slow", "fast"]


def test_warm_ups_do_not_count() -> None:
    _, timed = _timed([100.0, 50.0, 1.0, 1.0], warm_ups=2)
    assert timed.seconds == {"slow": [3.0, 3.0], "fast": [2.0, 2.0]}


def test_a_machine_that_slows_down_changes_times_and_no_ratio() -> None:
    _, timed = _timed([1.0, 2.0, 8.0], warm_ups=0)
    assert timed.median("slow") == pytest.approx(6.0)
    assert timed.ratios("slow", "fast") == pytest.approx([1.5, 1.5, 1.5])
    assert timed.ratio("slow", "fast") == pytest.approx(1.5)


def test_the_spread_is_half_of_the_middle_half_over_the_median() -> None:
    # Quartiles of 1 … 5 are 2 and 4, so half of what they span is 1, and the median is 3.
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0]) == pytest.approx(1 / 3)
    assert spread([2.0]) == 0.0
    told = Timed({"a": [5.0, 1.0, 4.0, 2.0, 3.0]}).told()
    assert told["a"]["median"] == 3.0
    assert told["a"]["rounds"] == [5.0, 1.0, 4.0, 2.0, 3.0]
