"""Several discussions of each problem in a step, from the method's plan to the store."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from run_samples import new_run, small
from valueless import MinusGroupMean, Valueless, train_by

from maporl_core.config.schema import RunConfig
from maporl_core.kit.progress import Silent
from maporl_core.learning.methods.base import MessageKey, RolloutPlan
from maporl_core.store.reader import StoreReader
from maporl_core.train import train

PROBLEMS = 3


def first_step(root: Path, config: RunConfig) -> list[Any]:
    """What the store keeps of the discussions of step 1, in the order in which they were held."""
    run = new_run(root, config)
    train(config, run, Silent())
    with StoreReader(run) as reader:
        return sorted(
            (s for s in reader.discussions() if s.row.step == 1 and s.rewards),
            key=lambda s: s.row.id,
        )


def one_step(**changes: Any) -> RunConfig:
    return small(
        **{
            "train": {"steps": 1, "problems_per_step": PROBLEMS, "train_turns": "all"},
            "eval": {"questions": 0},
            **changes,
        }
    )


def test_each_problem_is_discussed_so_often_and_the_first_sample_as_if_it_were_alone(
    tmp_path: Path,
) -> None:
    alone = first_step(tmp_path / "alone", one_step())
    both = first_step(tmp_path / "both", one_step(method={"samples": 2}))
    assert [s.discussion.sample for s in both] == [0, 1] * PROBLEMS
    assert [s.discussion.problem for s in both[::2]] == [s.discussion.problem for s in alone]
    assert [s.discussion.problem for s in both[1::2]] == [s.discussion.problem for s in alone]
    assert [s.discussion.messages for s in both[::2]] == [s.discussion.messages for s in alone]
    assert all(
        one.discussion.messages != two.discussion.messages
        for one, two in zip(both[::2], both[1::2], strict=True)
    )
    assert all(
        math.isfinite(paid.advantage) for s in both for paid in s.rewards.values()
    )  # every message of every sample was trained


def test_samples_of_a_problem_are_compared_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FourSamples(Valueless):
        def plan(self, step: int) -> RolloutPlan:
            plan = super().plan(step)
            return RolloutPlan(plan.problems, samples=4, trained=plan.trained)

    def by_place(key: MessageKey) -> tuple[str, int, int]:
        return key.problem, key.place.turn, key.place.agent

    train_by(monkeypatch, lambda config: FourSamples(config, MinusGroupMean(), by_place))
    kept = first_step(tmp_path, one_step())
    assert [s.discussion.sample for s in kept] == [0, 1, 2, 3] * PROBLEMS
    for p in range(PROBLEMS):
        group = kept[4 * p : 4 * p + 4]
        for turn in range(2):
            for agent in range(3):
                paid = [
                    next(r for at, r in s.rewards.items() if at[1:3] == (turn, agent))
                    for s in group
                ]
                mean = sum(r.pay.total for r in paid) / 4
                for r in paid:
                    assert r.advantage == pytest.approx(r.pay.total - mean, abs=1e-6)


def test_candidates_of_a_place_are_stored_compared_and_all_trained_where_the_plan_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TwoCandidates(Valueless):
        def plan(self, step: int) -> RolloutPlan:
            plan = super().plan(step)
            return RolloutPlan(
                plan.problems, candidates=2, trained=plan.trained, train_unchosen=True
            )

    def by_prompt(key: MessageKey) -> tuple[str, int, int]:
        return key.problem, key.place.turn, key.place.agent

    train_by(monkeypatch, lambda config: TwoCandidates(config, MinusGroupMean(), by_prompt))
    for stored in first_step(tmp_path, one_step()):
        said = stored.discussion.everything()
        assert len(said) == 2 * 3 * 2  # turns, agents, candidates
        assert [m.chosen for m in said] == [True, False] * 6
        for one, two in zip(said[::2], said[1::2], strict=True):
            assert one.prompt_ids == two.prompt_ids
            first, second = (
                next(r for at, r in stored.rewards.items() if at[1:] == (m.turn, m.agent, m.branch))
                for m in (one, two)
            )
            half = (first.pay.total - second.pay.total) / 2
            assert first.advantage == pytest.approx(half, abs=1e-6)
            assert second.advantage == pytest.approx(-half, abs=1e-6)
