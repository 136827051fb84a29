"""GAE and whitening against their definitions in NumPy float64, and credit by any estimator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.errors import TrainingError
from maporl_core.learning.credit import estimate, whiten
from maporl_core.learning.estimators.base import Credit, CreditInputs
from maporl_core.learning.estimators.gae import Gae, gae
from maporl_core.learning.methods.base import MessageKey
from maporl_core.learning.padding import length_mask, to_flat, to_padded
from maporl_core.types import Place


def gae_by_definition(rewards, values, gamma, lam):
    """A_k = Σ_l (γλ)^l δ_{k+l}: the double sum, not the recursion."""
    n = len(rewards)
    following = np.append(values[1:], 0.0)
    delta = rewards + gamma * following - values
    powers = (gamma * lam) ** np.arange(n)
    return np.array([np.dot(powers[: n - k], delta[k:]) for k in range(n)])


def keys(policies):
    return [MessageKey(Place(m, 0, 0), "p", policy) for m, policy in enumerate(policies)]


def inputs(rewards, values, lengths, policies=None):
    lengths = torch.tensor(lengths)
    return CreditInputs(
        rewards,
        lengths,
        rewards_M=torch.zeros(len(lengths)),
        keys=keys(policies or ["A"] * len(lengths)),
        groups=[None] * len(lengths),
        values_ML=values,
    )


def test_gae_of_three_tokens_by_hand():
    # δ = (0 + .4 − .5, 0 + .2 − .4, 1 + 0 − .2) = (−.1, −.2, .8), λ = .5
    advantages, returns = gae(
        torch.tensor([[0.0, 0.0, 1.0]]),
        torch.tensor([[0.5, 0.4, 0.2]]),
        torch.tensor([3]),
        lam=0.5,
    )
    torch.testing.assert_close(advantages, torch.tensor([[0.0, 0.2, 0.8]]))
    torch.testing.assert_close(returns, torch.tensor([[0.5, 0.6, 1.0]]))


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    gamma=st.sampled_from([1.0, 0.9, 0.0]),
    lam=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_gae_of_any_batch_equals_its_definition_row_by_row(lengths, gamma, lam, seed):
    rng = np.random.default_rng(seed)
    width = max(lengths)
    # Whatever stands in the padding, even NaN, is never read.
    rewards, values = np.full((2, len(lengths), width), np.nan)
    for m, n in enumerate(lengths):
        rewards[m, :n], values[m, :n] = rng.normal(size=(2, n))
    advantages, returns = gae(
        torch.tensor(rewards, dtype=torch.float32),
        torch.tensor(values, dtype=torch.float32),
        torch.tensor(lengths),
        gamma,
        lam,
    )
    for m, n in enumerate(lengths):
        expected = gae_by_definition(rewards[m, :n], values[m, :n], gamma, lam)
        np.testing.assert_allclose(advantages[m, :n], expected, atol=1e-5)
        np.testing.assert_allclose(returns[m, :n], expected + values[m, :n], atol=1e-5)
        assert not advantages[m, n:].any()
        assert not returns[m, n:].any()


def test_gae_with_lambda_one_returns_the_sum_of_later_rewards():
    _, returns = gae(
        torch.tensor([[0.1, 0.2, 1.0]]),
        torch.tensor([[9.0, -3.0, 4.0]]),
        torch.tensor([3]),
        lam=1.0,
    )
    torch.testing.assert_close(returns, torch.tensor([[1.3, 1.2, 1.0]]))


def test_gae_cuts_the_gradient_and_raises_half_precision():
    values = torch.zeros(1, 2, dtype=torch.bfloat16, requires_grad=True)
    advantages, returns = gae(torch.ones(1, 2), values, torch.tensor([2]))
    assert not advantages.requires_grad
    assert not returns.requires_grad
    assert advantages.dtype == returns.dtype == torch.float32


def test_gae_of_no_messages_and_of_only_empty_messages():
    for rows, width in ((0, 0), (0, 4), (3, 0), (3, 4)):
        zeros = torch.zeros(rows, width)
        advantages, returns = gae(zeros, zeros, torch.zeros(rows, dtype=torch.long))
        assert advantages.shape == returns.shape == (rows, width)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_whitened_entries_have_mean_zero_and_population_variance_one(seed, scale):
    rng = np.random.default_rng(seed)
    x = scale * rng.normal(3.0, 1.0, size=(5, 7))
    mask = rng.random((5, 7)) < 0.6
    mask.flat[:2] = True
    out = whiten(torch.tensor(x, dtype=torch.float32), torch.tensor(mask)).numpy()
    expected = (x - x[mask].mean()) / x[mask].std()
    np.testing.assert_allclose(out[mask], expected[mask], atol=2e-4)
    assert not out[~mask].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("group", [[], [1.0], [0.3] * 8, [0.1 + 0.2, 0.3, 0.3], [0.0, 0.0]])
def test_advantages_without_spread_whiten_to_exactly_zero(group, dtype):
    x = torch.tensor(group, dtype=dtype)
    assert whiten(x, torch.ones_like(x, dtype=torch.bool)).tolist() == [0.0] * len(group)


def test_rounding_noise_around_zero_is_not_blown_up_to_unit_advantages():
    noise = torch.tensor([1e-9, -2e-9, 3e-9, 0.0])
    assert not whiten(noise, torch.ones(4, dtype=torch.bool)).any()


def test_whitening_never_reads_masked_entries():
    x = torch.tensor([[1.0, 3.0, float("nan")], [float("inf")] * 3])
    mask = torch.tensor([[True, True, False], [False] * 3])
    assert whiten(x, mask).tolist() == [[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("group", [[float("nan")], [1.0, float("nan"), 2.0]])
def test_whitening_does_not_hide_a_nan_that_is_not_masked(group):
    x = torch.tensor(group)
    assert whiten(x, torch.ones_like(x, dtype=torch.bool)).isnan().all()


def test_estimate_whitens_over_all_tokens_of_a_policy_and_keeps_policies_apart():
    rewards = torch.tensor([[0.0, 1.0], [3.0, 0.0], [100.0, 50.0], [7.0, 0.0]])
    values = torch.zeros(4, 2)
    batch = inputs(rewards, values, [2, 1, 2, 1], ["A", "A", "B", "C"])
    result = estimate(batch, Gae(0.5), {})
    # Before whitening A holds (.5, 1) and (3); B holds (125, 50); C a single token.
    of_a = np.array([0.5, 1.0, 3.0])
    of_a = (of_a - of_a.mean()) / of_a.std()
    expected = [[of_a[0], of_a[1]], [of_a[2], 0.0], [1.0, -1.0], [0.0, 0.0]]
    np.testing.assert_allclose(result.advantages_ML, expected, atol=1e-6)
    torch.testing.assert_close(
        result.returns_ML, torch.tensor([[0.5, 1.0], [3.0, 0.0], [125.0, 50.0], [7.0, 0.0]])
    )


def test_fully_masked_rows_do_not_change_the_other_row():
    row = torch.tensor([[0.1, -0.2, 1.0]])
    values = torch.tensor([[0.3, 0.2, 0.1]])
    alone = estimate(inputs(row, values, [3]), Gae(), {})
    junk = torch.full((2, 3), float("nan"))
    beside = estimate(
        inputs(torch.cat([junk, row]), torch.cat([junk, values]), [0, 0, 3]), Gae(), {}
    )
    torch.testing.assert_close(beside.advantages_ML[2:], alone.advantages_ML, rtol=0, atol=0)
    torch.testing.assert_close(beside.returns_ML[2:], alone.returns_ML, rtol=0, atol=0)
    assert beside.advantages_ML[:2].tolist() == [[0.0] * 3] * 2


def test_gae_without_values_is_refused():
    with pytest.raises(TrainingError, match="value of every token"):
        estimate(inputs(torch.zeros(1, 1), None, [1]), Gae(), {})


def minus_mean_of_siblings(batch, state):
    """R − mean of the other messages of the group; counts its calls."""
    mask = length_mask(batch.lengths_M, batch.token_rewards_ML.shape[1])
    per_message = []
    for m, group in enumerate(batch.groups):
        others = [
            float(batch.rewards_M[n])
            for n in range(len(batch.groups))
            if n != m and batch.groups[n] == group
        ]
        per_message.append(float(batch.rewards_M[m]) - sum(others) / len(others))
    table = torch.tensor(per_message)[:, None] * mask
    return Credit(table, None, {"calls": state.get("calls", 0.0) + 1}, normalised=True)


def test_an_estimator_of_groups_needs_no_values_and_keeps_a_state():
    batch = CreditInputs(
        torch.zeros(4, 2),
        torch.tensor([2, 1, 2, 2]),
        torch.tensor([1.0, 0.0, 0.25, 0.75]),
        [MessageKey(Place(s, t, 0), "p", "A", sample=s) for t in (0, 1) for s in (0, 1)],
        groups=[("p", 0), ("p", 0), ("p", 1), ("p", 1)],
    )
    result = estimate(batch, minus_mean_of_siblings, {"calls": 1.0})
    assert result.advantages_ML.tolist() == [[1.0, 1.0], [-1.0, 0.0], [-0.5, -0.5], [0.5, 0.5]]
    assert result.returns_ML is None
    assert result.state == {"calls": 2.0}


def test_flat_and_padded_tokens_are_the_same_tokens():
    lengths = torch.tensor([2, 0, 3])
    padded = to_padded(torch.arange(1, 6), lengths)
    assert padded.tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]
    assert to_flat(padded, lengths).tolist() == [1, 2, 3, 4, 5]
    assert to_padded(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0, 0)
