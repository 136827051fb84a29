"""Credit once per update over all bases: groups, samples, several processes, and no values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small import config, discussions, policies, rewards, training
from valueless import MinusGroupMean, MinusRunningMean, Valueless

from maporl_core.config.schema import RunConfig
from maporl_core.learning.credit import Earned, form_credit
from maporl_core.learning.methods.base import MessageKey
from maporl_core.learning.methods.chosen import method_of
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater
from maporl_core.types import Pay, Place

VALUE_METRICS = ("value_loss", "value_clip_fraction", "explained_variance")


def on_two_bases() -> RunConfig:
    return config(
        agents=2,
        bases={"main": {}, "other": {}},
        policies={"Ada": {"base": "main"}, "Bo": {"base": "other"}},
    )


def by_problem_and_turn(key: MessageKey) -> tuple[str, int]:
    return key.problem, key.place.turn


# ---- groups ------------------------------------------------------------------------------------


def test_a_group_spans_agents_on_two_bases() -> None:
    run = on_two_bases()
    made = policies(run, perturb=0.05, values=False)
    method = Valueless(run, by=by_problem_and_turn)
    held = discussions(run, count=2)
    paid = rewards(held)
    result = Updater(made, run, method).update(pack(held, paid, training(0, 1)), 0)
    assert not result.bad
    assert len(result.advantage) == 2 * 2 * 2  # problems, trained turns, agents
    for place, found in result.advantage.items():
        other = place._replace(agent=1 - place.agent)
        mean = (paid[place].total + paid[other].total) / 2
        assert found == pytest.approx(paid[place].total - mean, abs=1e-6)


def test_both_bases_are_trained_on_their_part_of_a_group() -> None:
    run = on_two_bases()
    made = policies(run, perturb=0.05, values=False)
    before = {n: [w.detach().clone() for w in made[n].parameters()] for n in made.names()}
    held = discussions(run, count=2)
    rows = pack(held, rewards(held), training(0, 1))
    Updater(made, run, Valueless(run, by=by_problem_and_turn)).update(rows, 0)
    for name, old in before.items():
        new = made[name].parameters()
        assert any(not torch.equal(a, b) for a, b in zip(old, new, strict=True))


def test_the_estimator_is_called_once_per_update_whatever_stands_on_how_many_bases() -> None:
    run = on_two_bases()
    updater = Updater(policies(run, values=False), run, Valueless(run))
    held = discussions(run)
    for step in range(3):
        updater.update(pack(held, rewards(held), training(0, 1)), step)
    assert updater.baselines == {"calls": 3.0}


def test_samples_of_one_problem_are_told_apart_and_compared_with_each_other() -> None:
    run = config(agents=1)
    made = policies(run, values=False)
    estimator = MinusGroupMean()
    method = Valueless(run, estimator, lambda key: (key.problem, key.place.agent, key.place.turn))
    first, second, alone = discussions(run, count=3)
    held = [first, replace(second, problem=first.problem, sample=1), alone]
    paid = {
        Place(d, t, 0): Pay({"own": total})
        for d, row in enumerate([(0.0, 1.0, 0.4), (0.0, 0.0, 0.8), (0.0, 5.0, 7.0)])
        for t, total in enumerate(row)
    }
    result = Updater(made, run, method).update(pack(held, paid, training(0)), 0)
    by_hand = {(0, 1): 0.5, (0, 2): -0.2, (1, 1): -0.5, (1, 2): 0.2, (2, 1): 0.0, (2, 2): 0.0}
    assert result.advantage == pytest.approx(
        {Place(d, t, 0): advantage for (d, t), advantage in by_hand.items()}, abs=1e-6
    )
    assert {(key.place.discussion, key.sample) for key, _ in estimator.seen} == {
        (0, 0),
        (1, 1),
        (2, 0),
    }


# ---- several processes -------------------------------------------------------------------------


class OneOfTwo:
    """A rank whose partner's part is known beforehand."""

    count = 2

    def __init__(self, index: int, of_all: list[Any]) -> None:
        self.index, self._of_all = index, of_all

    def share(self, places: range) -> range:
        return places[self.index :: 2]

    def gather(self, item: Any) -> list[Any]:
        assert item == self._of_all[self.index]
        return self._of_all

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def agree(self, flag: bool) -> bool:
        return flag


def earned(rewards: list[float], first: int) -> Earned:
    """Messages of one, two, … tokens, of one policy, that say what they are paid at the end."""
    lengths = torch.arange(1, len(rewards) + 1)
    last = torch.cumsum(lengths, 0) - 1
    tokens = torch.zeros(int(lengths.sum()))
    tokens[last] = torch.tensor(rewards)
    return Earned(
        token_rewards_N=tokens,
        values_N=torch.zeros_like(tokens),
        lengths_M=lengths,
        rewards_M=torch.tensor(rewards),
        keys=tuple(
            MessageKey(Place(first + m, 0, 0), f"p{first + m}", "Ada") for m in range(len(rewards))
        ),
    )


def test_two_processes_get_the_credit_of_one_that_holds_all_messages() -> None:
    method = method_of(config(agents=1))
    mine, yours = (earned([0.2, 0.9], 0),), (earned([1.0, 0.0, 0.5], 2), earned([0.3], 5))
    whole, _ = form_credit([*mine, *yours], method, {}, OneOfTwo(0, [(*mine, *yours)]))
    first, _ = form_credit(mine, method, {}, OneOfTwo(0, [mine, yours]))
    second, _ = form_credit(yours, method, {}, OneOfTwo(1, [mine, yours]))
    for one, other in zip(whole, [*first, *second], strict=True):
        assert torch.equal(one.advantages_N, other.advantages_N)
        assert torch.equal(one.returns_N, other.returns_N)
    every = torch.cat([part.advantages_N for part in whole])
    assert float(every.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(every.std(correction=0)) == pytest.approx(1.0, abs=1e-5)


# ---- no values ---------------------------------------------------------------------------------


def test_without_values_no_head_is_made_trained_or_shown() -> None:
    run = config(agents=2)
    made = policies(run, perturb=0.05, values=False)
    base = made.bases["main"]
    assert base.value_weight.numel() == base.value_bias.numel() == 0
    assert all(made[name].value == {} for name in made.names())
    updater = Updater(made, run, Valueless(run, by=by_problem_and_turn))
    held = discussions(run)
    result = updater.update(pack(held, rewards(held), training(0, 1)), 0)
    assert not any(name.endswith(VALUE_METRICS) for name in result.metrics)
    assert {"policy/Ada/policy_loss", "ppo/kl", "mismatch/kl"} <= set(result.metrics)
    for name, optimiser in updater.optimisers.items():
        assert len(optimiser.state_dict()["state"]) == len(made[name].adapter)


def test_a_state_with_value_heads_loads_into_a_run_without_them() -> None:
    run = config(agents=2)
    held = discussions(run)
    rows = pack(held, rewards(held), training(0, 1))
    old = Updater(policies(run, perturb=0.05), run)
    old.update(rows, 0)
    new = Updater(policies(run, perturb=0.05, values=False), run, Valueless(run))
    new.load_state(old.state())
    for name, optimiser in new.optimisers.items():
        kept, whole = (o.state_dict()["state"] for o in (optimiser, old.optimisers[name]))
        assert len(kept) == len(whole) - 2  # without the head's weight and bias
        for key, moments in kept.items():
            assert torch.equal(moments["exp_avg"], whole[key]["exp_avg"])
    assert not new.update(rows, 1).bad


def test_a_running_mean_goes_on_exactly_where_it_was_saved() -> None:
    run = config(agents=2)
    held = discussions(run)
    rows = pack(held, rewards(held), training(0, 1))
    straight, cut = (policies(run, perturb=0.05, values=False) for _ in range(2))
    one = Updater(straight, run, Valueless(run, MinusRunningMean()))
    two = Updater(cut, run, Valueless(run, MinusRunningMean()))
    one.update(rows, 0)
    two.update(rows, 0)
    assert set(two.baselines) == {"Ada", "Bo"}
    three = Updater(cut, run, Valueless(run, MinusRunningMean()))
    three.load_state(two.state())
    first, second = one.update(rows, 1), three.update(rows, 1)
    assert first.advantage == second.advantage
    assert one.baselines == three.baselines


def test_a_running_mean_is_not_moved_by_an_update_that_was_undone() -> None:
    run = config(agents=1)
    updater = Updater(policies(run, values=False), run, Valueless(run, MinusRunningMean()))
    held = discussions(run)
    paid = rewards(held)
    updater.update(pack(held, paid, training(0)), 0)
    before = dict(updater.baselines)
    paid[Place(0, 1, 0)] = Pay({"own": float("nan")})
    result = updater.update(pack(held, paid, training(0)), 1)
    assert result.bad == (Place(0, 1, 0),)
    assert updater.baselines == before
