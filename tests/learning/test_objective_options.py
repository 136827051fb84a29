"""Options of the clipped objective: asymmetric and dual clip, KL in the loss, weights of tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.errors import TrainingError
from maporl_core.learning.losses import k3, policy_loss
from maporl_core.learning.objectives.base import LossTokens
from maporl_core.learning.objectives.clipped import Clipped

logps = st.floats(-6.0, 0.0)


def batch(**changes: Any) -> LossTokens:
    generator = torch.Generator().manual_seed(3)
    draw = lambda: torch.randn(12, generator=generator, dtype=torch.float64)  # noqa: E731
    given_ = {
        "logp_new_N": draw() * 0.5 - 2,
        "logp_old_N": draw() * 0.5 - 2,
        "advantages_N": draw(),
        "policies_N": torch.tensor([0, 1] * 6),
        "tokens_per_policy_P": torch.tensor([6, 6]),
        "logp_reference_N": draw() * 0.5 - 2,
    }
    return LossTokens(**{**given_, **changes})


def plainly(b: LossTokens, low: float, high: float, dual: float | None, kl_coef: float) -> float:
    """The loss, token by token."""
    total = 0.0
    for n in range(len(b.logp_new_N)):
        ratio = math.exp(float(b.logp_new_N[n]) - float(b.logp_old_N[n]))
        advantage = float(b.advantages_N[n])
        paid = min(ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage)
        if dual is not None and advantage < 0:
            paid = max(paid, dual * advantage)
        loss = -paid
        if kl_coef:
            assert b.logp_reference_N is not None
            gap = float(b.logp_reference_N[n]) - float(b.logp_new_N[n])
            loss += kl_coef * (math.exp(gap) - gap - 1)
        weight = 1.0 if b.weights_N is None else float(b.weights_N[n])
        total += weight * loss / float(b.tokens_per_policy_P[b.policies_N[n]])
    return total


@pytest.mark.parametrize("high", [0.2, 0.28])
@pytest.mark.parametrize("dual", [None, 3.0, 1.05])
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_a_plain_sum_with_every_option(
    high: float, dual: float | None, kl_coef: float, weighted: bool
) -> None:
    weights = torch.linspace(0.0, 2.0, 12, dtype=torch.float64) if weighted else None
    b = batch(kl_coef=kl_coef, weights_N=weights)
    found = Clipped(clip_low=0.2, clip_high=high, dual_clip=dual)(b)
    assert float(found.loss) == pytest.approx(plainly(b, 0.2, high, dual, kl_coef), abs=1e-12)
    names = set(found.stats.sums)
    assert ("kl_loss" in names, "dual_clip_fraction" in names) == (kl_coef > 0, dual is not None)


def gradient(new: float, old: float, advantage: float, dual: float | None) -> tuple[float, float]:
    """Loss of one token and its derivative by the log-probability."""
    x = torch.tensor([new], dtype=torch.float64, requires_grad=True)
    wanted = (torch.tensor([v], dtype=torch.float64) for v in (old, advantage))
    loss = policy_loss(x, *wanted, 0.2, 0.28, dual).loss_N.sum()
    loss.backward()
    assert x.grad is not None
    return float(loss.detach()), float(x.grad)


def test_a_token_that_ran_away_upwards_costs_three_times_and_pulls_no_more() -> None:
    assert gradient(0.0, -3.0, -1.0, None) == pytest.approx((math.exp(3), math.exp(3)))
    assert gradient(0.0, -3.0, -1.0, 3.0) == (3.0, 0.0)
    assert gradient(-2.0, -3.0, -1.0, 3.0) == pytest.approx((math.e, math.e))  # below the dual clip


def test_a_dual_clip_leaves_good_tokens_as_they_are() -> None:
    for new in (-4.0, -3.0, 0.0):
        assert gradient(new, -3.0, 1.0, 3.0) == gradient(new, -3.0, 1.0, None)


def test_clip_higher_lets_a_good_token_rise_further() -> None:
    at = -3.0 + math.log(1.25)
    assert gradient(at, -3.0, 1.0, None)[1] != 0.0  # 1.25 < 1.28
    assert gradient(-3.0 + math.log(1.3), -3.0, 1.0, None)[1] == 0.0


@settings(max_examples=50, deadline=None)
@given(new=logps, reference=logps)
def test_k3_is_never_negative_and_nothing_where_both_agree(new: float, reference: float) -> None:
    x, y = torch.tensor([new], dtype=torch.float64), torch.tensor([reference], dtype=torch.float64)
    assert float(k3(x, y)) >= 0.0
    assert float(k3(x, x)) == 0.0
    gap = reference - new
    assert float(k3(x, y)) == pytest.approx(math.exp(gap) - gap - 1, rel=1e-9, abs=1e-12)


def test_k3_pulls_towards_the_base() -> None:
    x = torch.tensor([-1.0, -3.0], dtype=torch.float64, requires_grad=True)
    k3(x, torch.tensor([-2.0, -2.0]).double()).sum().backward()
    assert x.grad is not None
    assert float(x.grad[0]) > 0  # a descent lowers what is too likely
    assert float(x.grad[1]) < 0


def test_a_kl_in_the_loss_needs_the_logprobs_of_the_base() -> None:
    with pytest.raises(TrainingError, match="KL is in the loss"):
        Clipped()(batch(kl_coef=0.1, logp_reference_N=None))
