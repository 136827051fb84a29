"""Explained variance, the adaptive KL coefficient and the learning-rate schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.errors import ConfigError
from maporl_core.learning.kl import next_kl_coef
from maporl_core.learning.schedules import SCHEDULES, lr_factor
from maporl_core.learning.update_metrics import explained_variance


def test_explained_variance_of_perfect_constant_and_opposite_values():
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(torch.full((3,), 7.0), returns) == pytest.approx(0.0)
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)


def test_explained_variance_by_independent_formula():
    rng = np.random.default_rng(0)
    returns, values = rng.normal(size=(2, 50))
    expected = 1 - np.var(returns - values) / np.var(returns)
    found = explained_variance(torch.tensor(values), torch.tensor(returns))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("returns", [[], [0.7], [0.3] * 8])
def test_explained_variance_without_spread_is_zero(returns):
    assert explained_variance(torch.zeros(len(returns)), torch.tensor(returns)) == 0.0


def test_kl_coefficient_moves_by_the_proportional_error_clipped_at_a_fifth():
    # Error .1 and 1000 of 10,000 messages: × (1 + .01).
    assert next_kl_coef(0.2, 6.6, 6.0, 10_000, 1000) == pytest.approx(0.2 * 1.01)
    assert next_kl_coef(0.2, 600.0, 6.0, 10_000, 1000) == pytest.approx(0.2 * 1.02)
    assert next_kl_coef(0.2, 0.0, 6.0, 10_000, 1000) == pytest.approx(0.2 * 0.98)
    assert next_kl_coef(0.2, 6.0, 6.0, 10_000, 1000) == 0.2


@given(
    coef=st.floats(1e-6, 10),
    kl=st.floats(-1e6, 1e6),
    target=st.floats(1e-3, 100),
    horizon=st.floats(1, 1e6),
    messages=st.integers(0, 10**7),
)
def test_kl_coefficient_stays_positive_and_moves_towards_the_target(
    coef, kl, target, horizon, messages
):
    after = next_kl_coef(coef, kl, target, horizon, messages)
    assert 0.8 * coef <= after * (1 + 1e-12)
    assert after <= 1.2 * coef * (1 + 1e-12)
    assert (after >= coef) if kl >= target else (after <= coef)


@pytest.mark.parametrize("kl", [float("nan"), float("inf"), -float("inf")])
def test_kl_that_is_not_finite_leaves_the_coefficient(kl):
    assert next_kl_coef(0.05, kl, 6.0, 100, 10) == 0.05


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warm_up_rises_to_the_full_rate_from_the_first_step(kind):
    factors = [lr_factor(step, 10, 4, kind) for step in range(5)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4] == 1.0  # the first step after warm-up still has the full rate


def test_schedules_by_hand():
    assert [lr_factor(step, 4, 0, "constant") for step in range(5)] == [1.0] * 5
    assert [lr_factor(step, 4, 0, "linear") for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    half = 0.5 * (1 + np.cos(np.pi / 4))
    assert [lr_factor(step, 4, 0, "cosine") for step in range(3)] == pytest.approx([1, half, 0.5])
    assert lr_factor(9, 4, 0, "cosine") == lr_factor(9, 4, 0, "linear") == 0.0


@given(
    total=st.integers(0, 50),
    warmup=st.integers(0, 60),
    step=st.integers(0, 100),
    kind=st.sampled_from(SCHEDULES),
)
def test_every_step_of_a_run_has_a_rate_above_zero_and_at_most_one(total, warmup, step, kind):
    factor = lr_factor(step, total, warmup, kind)
    assert 0.0 <= factor <= 1.0
    if step < total:
        assert factor > 0.0


def test_unknown_schedule_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean 'cosine'"):
        lr_factor(0, 10, 0, "cosin")
