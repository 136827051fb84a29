"""Messages of every odd shape through a whole update, each against the NumPy account.

One token, one message, a message that is nothing but end tokens, end tokens inside prompts, groups
of one, rows with nothing to train.  The pad token of the small tokenizer is its end token.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference_run as ref
import torch
from reference_small import Watched, base_weights, dials, scale, watched_update
from small import EOS, policies, training

from maporl_core.config.schema import RunConfig
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.learning.packing import Row, pack
from maporl_core.learning.updater import Updater
from maporl_core.types import Discussion, Message, Pay, Place, Problem

Entry = tuple[tuple[int, ...], tuple[int, ...], float]  # prompt, ids, R

SHAPES: dict[str, list[Entry]] = {
    "an end token that is the pad token": [((5,), (6, 7, EOS), 0.8), ((9, 4), (5, EOS), -0.2)],
    "the same without its end token": [((5,), (6, 7), 0.8), ((9, 4), (5,), -0.2)],
    "end tokens all over the prompt and a cut message": [
        ((EOS, 5, EOS, EOS), (6, 7, 8), 0.7),
        ((EOS, EOS), (9, 9), 0.1),
    ],
    "nothing but end tokens": [((5, 6), (EOS,), 0.4), ((7,), (EOS, EOS), 0.9)],
    "end tokens in the middle": [((5,), (EOS, 6, EOS, 7), 0.3), ((8, 8), (4, EOS, 5), 0.6)],
    "one-token messages": [((5, 6), (7,), 1.0), ((8,), (9,), 0.0), ((3, 4, 5), (EOS,), 0.25)],
    "one message": [((5, 6), (7, 8, 9, EOS), 0.9)],
    "very unequal lengths": [
        ((5,), (6,), 0.2),
        (tuple(range(2, 42)), tuple(range(20, 45)), 0.9),
        ((3,) * 9, (4, EOS), -0.1),
    ],
    "equal messages": [((5, 6), (7, EOS), 0.5), ((5, 6), (7, EOS), 0.5)],
}


def description(**method: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "agents": [{"name": "Ada"}],
            "discussion": {"turns": 1, "temperature": 0.9},
            "train": {"train_turns": "all"},
            "update": {"epochs": 1, "lr": 1e-2, "max_grad_norm": 1e6},
            "method": {"kl_coef": 0.05, "entropy_coef": 0.02, **method},
        }
    )


def rows_of(entries: list[Entry]) -> list[Row]:
    """Every entry as a discussion of one message."""
    held, paid = [], {}
    for q, (prompt, ids, reward) in enumerate(entries):
        finish = "stop" if ids and ids[-1] == EOS else "length"
        message = Message(
            0, 0, "Ada", prompt, ids, (-1.0,) * len(ids), "text", finish, "1", True, 1.0
        )
        problem = Problem(f"p{q}", "q", "1", "made-up", "train")
        held.append(Discussion(problem, ("Ada",), ((message,),)))
        paid[Place(q, 0, 0)] = Pay({"own": reward})
    return pack(held, paid, training(0))


def check_against_the_account(run: RunConfig, entries: list[Entry]) -> Watched:
    made = policies(run, perturb=0.08)
    watched = watched_update(made, run, rows_of(entries))
    (step,) = watched.steps["Ada"]
    base, size, numbers = base_weights(), scale(made["Ada"]), dials(run)
    accounts = ref.account(base, entries, step.weights, size, numbers)
    for q, message in enumerate(accounts):
        at = Place(q, 0, 0)
        assert watched.result.advantage[at] == pytest.approx(message.advantages.mean(), abs=1e-5)
        kl = (message.logp_old - message.logp_ref).sum()
        # A sum over tokens; 25 of them come to −14.5, where float32 keeps 4e-5.
        assert watched.result.kl[at] == pytest.approx(kl, rel=1e-5, abs=1e-5)
    rng = np.random.default_rng(0)
    for weight in ("value.weight", "value.bias", *sorted(step.gradients)[::5]):
        gradient = step.gradients[weight]
        place = tuple(int(rng.integers(n)) for n in gradient.shape)
        expected = ref.slope(
            lambda w: ref.loss(base, accounts, w, size, numbers), step.weights, weight, place
        )
        assert gradient[place] == pytest.approx(expected, abs=1e-5), weight
    assert all(math.isfinite(value) for value in watched.result.metrics.values())
    return watched


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_of_any_shape_are_trained_as_the_account_says(shape: str) -> None:
    check_against_the_account(description(), SHAPES[shape])


def test_one_message_of_one_token_has_advantage_zero_and_moves_only_what_values_move() -> None:
    run = description(kl_coef=0.0, entropy_coef=0.0, value_coef=0.0)
    watched = check_against_the_account(run, [((5, 6), (7,), 0.9)])
    assert watched.result.advantage[Place(0, 0, 0)] == 0.0
    (step,) = watched.steps["Ada"]
    assert all(not gradient.any() for gradient in step.gradients.values())


@pytest.mark.parametrize("rewards", [[1.0], [0.3] * 8])
def test_equal_rewards_of_one_token_messages_whiten_to_exactly_zero(rewards: list[float]) -> None:
    run = description(kl_coef=0.0, entropy_coef=0.0)
    made = policies(run)  # a fresh value head says 0 everywhere, a fresh adapter is the base
    entries = [((5 + q,), (7 + q,), reward) for q, reward in enumerate(rewards)]
    watched = watched_update(made, run, rows_of(entries))
    assert set(watched.result.advantage.values()) == {0.0}
    (step,) = watched.steps["Ada"]
    adapter = [g for name, g in step.gradients.items() if not name.startswith("value")]
    assert all(not gradient.any() for gradient in adapter)
    assert step.gradients["value.bias"] == pytest.approx(-0.1 * np.mean(rewards), abs=1e-6)


def test_rows_with_nothing_to_train_change_no_gradient_and_no_metric() -> None:
    run = description()
    rows = rows_of(SHAPES["one message"])
    masked = [Row("Ada", (EOS,) * 40), Row("Ada", (5, 6))]
    alone = watched_update(policies(run, perturb=0.08), run, rows)
    beside = watched_update(policies(run, perturb=0.08), run, [masked[0], *rows, masked[1]])
    (one,), (two,) = alone.steps["Ada"], beside.steps["Ada"]
    for name, gradient in one.gradients.items():
        np.testing.assert_allclose(two.gradients[name], gradient, rtol=0, atol=1e-6)
    assert dict(beside.result.metrics) == pytest.approx(dict(alone.result.metrics), abs=1e-5)
    assert all(math.isfinite(value) for value in beside.result.metrics.values())


@pytest.mark.parametrize("company", [True, False])
def test_a_policy_with_only_untrained_rows_is_not_stepped_and_has_no_metrics(company: bool) -> None:
    run = RunConfig.model_validate(
        {**description().model_dump(), "agents": [{"name": "Ada"}, {"name": "Bo"}]}
    )
    made = policies(run, perturb=0.08)
    before = [w.detach().clone() for w in made["Bo"].parameters()]
    rows = rows_of(SHAPES["one message"]) if company else []
    updater = Updater(made, run)
    result = updater.update([*rows, Row("Bo", (5, 6, 7)), Row("Bo", (EOS, EOS))], 0)
    assert not result.bad
    assert not any(name.startswith("policy/Bo/") for name in result.metrics)
    assert all(math.isfinite(value) for value in result.metrics.values())
    assert updater.optimisers["Bo"].state_dict()["state"] == {}
    assert all(torch.equal(a, b) for a, b in zip(before, made["Bo"].parameters(), strict=True))


def test_no_rows_at_all_change_nothing() -> None:
    run = description()
    made = policies(run, perturb=0.08)
    before = [w.detach().clone() for w in made["Ada"].parameters()]
    result = Updater(made, run).update([], 0)
    assert not result.bad
    assert set(result.metrics) == {"lr", "kl_coef"}
    assert all(torch.equal(a, b) for a, b in zip(before, made["Ada"].parameters(), strict=True))


def test_a_message_without_tokens_is_not_trained() -> None:
    assert rows_of([((5, 6), (), 0.7)]) == []


def test_a_cut_message_is_penalised_once_and_its_last_token_carries_all_of_it() -> None:
    run = description(kl_coef=0.0, entropy_coef=0.0, gae_lambda=0.0)
    message = Message(
        0, 0, "Ada", (EOS, 5, EOS), (6, EOS, 8), (-1.0,) * 3, "text", "length", "1", True, 1.0
    )
    problem = Problem("p", "q", "1", "made-up", "train")
    held = Discussion(problem, ("Ada",), ((message,),))
    paid = {Place(0, 0, 0): reward_discussion(held, run.reward)[0][0]}
    assert paid[0, 0, 0, 0].total == pytest.approx(0.9)
    made = policies(run)  # values are 0, so with λ = 0 a token's return is its own reward
    rows = pack([held], paid, training(0))
    result = Updater(made, run).update(rows, 0)
    # Returns (0, 0, .9) and values 0: the value loss is their mean square, halved.
    assert result.metrics["policy/Ada/value_loss"] == pytest.approx(0.5 * 0.9**2 / 3, abs=1e-6)
    # Advantages (0, 0, .9) whitened by population: (−1, −1, 2) / √2, mean 0.
    assert result.advantage[Place(0, 0, 0)] == pytest.approx(0.0, abs=1e-6)
