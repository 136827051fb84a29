"""PPO losses and gradients against an independent NumPy float64 account of method.md section 3."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.errors import TrainingError
from maporl_core.learning.credit import whiten
from maporl_core.learning.estimators.gae import gae
from maporl_core.learning.kl import kl_terms
from maporl_core.learning.losses import LOG_RATIO_LIMIT, policy_loss, value_loss
from maporl_core.learning.objectives.base import LossTokens
from maporl_core.learning.objectives.clipped import Clipped
from maporl_core.learning.padding import length_mask, to_flat
from maporl_core.learning.update_metrics import explained_variance

CONFIG = Clipped(clip_low=0.2, clip_high=0.3, value_clip=0.1, value_coef=0.4, entropy_coef=0.05)
LEAVES = ("logp_new_N", "values_new_N", "entropy_N")


def tokens(n, policies, seed=0, dtype=torch.float32):
    """A random micro-batch of n tokens whose ratios and values lie on both sides of the clips."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, policies, n)

    def column(scale=1.0):
        return torch.tensor(rng.normal(0, scale, n), dtype=dtype)

    old, values = column() - 2, column()
    return LossTokens(
        logp_new_N=(old + column(0.4)).requires_grad_(),
        logp_old_N=old,
        advantages_N=column(),
        values_new_N=(values + column(0.3)).requires_grad_(),
        values_old_N=values,
        returns_N=column(),
        policies_N=torch.tensor(owner),
        tokens_per_policy_P=torch.tensor(np.bincount(owner, minlength=policies)),
        entropy_N=(column().abs()).requires_grad_(),
    )


def take(batch, chosen):
    """The chosen tokens as a micro-batch of their own; totals stay those of the whole step."""
    picked = {
        part.name: getattr(batch, part.name).detach()[chosen]
        for part in fields(batch)
        if isinstance(getattr(batch, part.name), torch.Tensor) and part.name.endswith("_N")
    }
    picked.update({name: picked[name].clone().requires_grad_() for name in LEAVES})
    return replace(batch, **picked)


def gradients(batch, config=CONFIG):
    config(batch).loss.backward()
    return {name: getattr(batch, name).grad for name in LEAVES}


def by_hand(batch, config):
    """(loss, gradients, per-policy means), token by token in Python floats."""
    given = {f.name: getattr(batch, f.name) for f in fields(batch)}
    x = {n: x.detach().double().numpy() for n, x in given.items() if isinstance(x, torch.Tensor)}
    count = x["tokens_per_policy_P"]
    policies = len(count)
    loss = 0.0
    grads = {name: np.zeros(len(x["policies_N"])) for name in LEAVES}
    means = [dict.fromkeys(("policy_loss", "value_loss", "clip_fraction"), 0.0) for _ in count]
    top = np.zeros(policies)
    for n, p in enumerate(x["policies_N"].astype(int)):
        ratio = np.exp(x["logp_new_N"][n] - x["logp_old_N"][n])
        advantage = x["advantages_N"][n]
        clipped_ratio = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
        surrogate = min(ratio * advantage, clipped_ratio * advantage)
        is_clipped = clipped_ratio * advantage < ratio * advantage
        old, new, target = (x[k][n] for k in ("values_old_N", "values_new_N", "returns_N"))
        near = min(max(new, old - config.value_clip), old + config.value_clip)
        errors = (new - target) ** 2, (near - target) ** 2
        loss += (
            -surrogate
            + config.value_coef * 0.5 * max(errors)
            - config.entropy_coef * x["entropy_N"][n]
        ) / count[p]
        grads["logp_new_N"][n] = 0.0 if is_clipped else -advantage * ratio / count[p]
        moves = errors[0] >= errors[1]  # else the clipped branch, which is constant in V
        grads["values_new_N"][n] = moves * config.value_coef * (new - target) / count[p]
        grads["entropy_N"][n] = -config.entropy_coef / count[p]
        means[p]["policy_loss"] += -surrogate / count[p]
        means[p]["value_loss"] += 0.5 * max(errors) / count[p]
        means[p]["clip_fraction"] += is_clipped / count[p]
        top[p] = max(top[p], ratio)
    for p in range(policies):
        means[p]["ratio_max"] = top[p]
    return loss, grads, means


def test_loss_gradients_and_statistics_equal_the_numpy_account():
    batch = tokens(200, 3)
    result = CONFIG(batch)
    result.loss.backward()
    loss, grads, means = by_hand(batch, CONFIG)
    assert float(result.loss.detach()) == pytest.approx(loss, abs=1e-5)
    for name in LEAVES:
        np.testing.assert_allclose(getattr(batch, name).grad, grads[name], atol=1e-6)
    for policy in range(3):
        found = result.stats.means(policy)
        for name, value in means[policy].items():
            assert found[name] == pytest.approx(value, abs=1e-5), name
    assert 0 < means[0]["clip_fraction"] < 1  # the batch does reach the clips


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.6, 0.0),  # gain capped at 1 + clip_high
        (1.5, -2.0, 3.0, 3.0),  # no cap on the way back
        (0.5, -2.0, 1.6, 0.0),  # capped at 1 − clip_low
        (0.5, 2.0, -1.0, -1.0),
    ],
)
def test_policy_loss_clips_only_the_side_that_would_gain(ratio, advantage, loss, slope):
    new = torch.tensor([ratio], dtype=torch.float64).log().requires_grad_()
    terms = policy_loss(new, torch.zeros(1), torch.tensor([advantage]), 0.2, 0.3)
    terms.loss_N.sum().backward()
    assert terms.loss_N.item() == pytest.approx(loss)
    assert new.grad.item() == pytest.approx(slope)
    assert terms.clipped_N.item() == (slope == 0.0)


def test_unmoved_policy_has_ratio_one_no_clipping_and_no_kl():
    logp = torch.tensor([-1.0, -20.0, -0.001])
    terms = policy_loss(logp, logp.clone(), torch.tensor([1.0, -1.0, 0.5]), 0.2, 0.2)
    assert terms.ratio_N.tolist() == [1.0] * 3
    assert not terms.clipped_N.any()
    assert terms.approx_kl_N.tolist() == [0.0] * 3


def test_value_loss_by_hand():
    # Old value 0, clip .1.  Return 1: the far guess is held at .1.  Return 0: it pays in full.
    new = torch.tensor([0.5, 0.5, 0.05], requires_grad=True)
    terms = value_loss(new, torch.zeros(3), torch.tensor([1.0, 0.0, 1.0]), 0.1)
    terms.loss_N.sum().backward()
    torch.testing.assert_close(terms.loss_N, torch.tensor([0.405, 0.125, 0.45125]))
    torch.testing.assert_close(new.grad, torch.tensor([0.0, 0.5, -0.95]))
    assert terms.clipped_N.tolist() == [True, False, False]


@pytest.mark.parametrize("micro", [1, 3, 8, 64])
def test_any_split_into_micro_batches_gives_the_same_gradients_and_statistics(micro):
    batch = tokens(64, 3)
    whole = CONFIG(batch)
    expected = gradients(batch)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    found = {name: torch.zeros(64) for name in LEAVES}
    stats, loss = None, 0.0
    for start in range(0, 64, micro):
        chosen = order[start : start + micro]
        part = take(batch, chosen)
        result = CONFIG(part)
        result.loss.backward()
        loss += float(result.loss.detach())
        for name in LEAVES:
            found[name][chosen] = getattr(part, name).grad
        stats = result.stats if stats is None else stats.merge(result.stats)
    for name in LEAVES:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-6, atol=0)
    assert loss == pytest.approx(float(whole.loss.detach()), rel=1e-5)
    for policy in range(3):
        assert stats.means(policy) == pytest.approx(whole.stats.means(policy), rel=1e-9)


def test_company_of_other_policies_changes_no_gradient():
    batch = tokens(40, 3)
    together = gradients(batch)
    for policy in range(3):
        own = batch.policies_N == policy
        alone = gradients(take(batch, own))
        for name in LEAVES:
            torch.testing.assert_close(together[name][own], alone[name], rtol=0, atol=0)


def test_policy_without_tokens_has_zero_statistics_and_leaves_the_rest_alone():
    batch = tokens(10, 1)
    wider = replace(batch, tokens_per_policy_P=torch.tensor([10, 0]))
    result = CONFIG(wider)
    assert torch.equal(result.loss, CONFIG(batch).loss)
    assert set(result.stats.means(1).values()) == {0.0}
    assert result.stats.means(0) == CONFIG(batch).stats.means(0)


def test_empty_micro_batch_has_loss_zero_and_can_be_differentiated():
    batch = take(tokens(10, 2), torch.zeros(10, dtype=torch.bool))
    result = CONFIG(batch)
    result.loss.backward()
    assert float(result.loss.detach()) == 0.0
    for policy in range(2):
        assert set(result.stats.means(policy).values()) == {0.0}
    merged = result.stats.merge(CONFIG(tokens(10, 2)).stats)
    assert merged.means(0) == CONFIG(tokens(10, 2)).stats.means(0)


def messages_through_a_model(rows):
    """Gradients of a small linear policy and value head, and all metrics, from padded rows.

    Each row: (features [n, 3], reward).  Padding and fully masked rows hold NaN.
    """
    lengths = torch.tensor([len(features) for features, _ in rows])
    width = max(int(lengths.max()), 1)
    logp = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))
    head = torch.nn.Parameter(torch.tensor([0.1, 0.2, -0.3]))
    mask = length_mask(lengths, width)
    features = torch.cat([torch.as_tensor(f).reshape(-1, 3) for f, _ in rows])
    old, ref, values = torch.full((3, *mask.shape), float("nan"))
    old[mask] = (features @ logp - 1.0).detach() + 0.05
    ref[mask] = old[mask] - 0.1
    values[mask] = (features @ head).detach()
    kl = kl_terms(old, ref, lengths, torch.tensor([reward for _, reward in rows]), 0.02)
    advantages, returns = gae(kl.token_rewards_ML, values, lengths)
    flat = {
        "advantages_N": to_flat(whiten(advantages, mask), lengths),
        "returns_N": to_flat(returns, lengths),
    }
    result = Clipped()(
        LossTokens(
            logp_new_N=features @ logp - 1.0,
            logp_old_N=to_flat(old, lengths),
            values_new_N=features @ head,
            values_old_N=to_flat(values, lengths),
            policies_N=torch.zeros(len(features), dtype=torch.long),
            tokens_per_policy_P=torch.tensor([len(features)]),
            **flat,
        )
    )
    result.loss.backward()
    metrics = result.stats.means(0)
    metrics["kl"] = float(kl.kl_M.sum())
    metrics["explained_variance"] = explained_variance(to_flat(values, lengths), flat["returns_N"])
    return [logp.grad, head.grad], metrics


def test_fully_masked_rows_leave_metrics_finite_and_the_gradient_that_of_the_normal_row():
    rng = np.random.default_rng(0)
    normal = (rng.normal(size=(5, 3)).astype(np.float32), 0.7)
    empty = (np.zeros((0, 3), dtype=np.float32), 0.4)
    alone, of_alone = messages_through_a_model([normal])
    beside, of_beside = messages_through_a_model([empty, normal, empty])
    for one, other in zip(alone, beside, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
        assert one.abs().sum() > 0
    assert all(np.isfinite(value) for value in of_beside.values())
    assert of_beside == of_alone


def test_only_fully_masked_rows_give_zero_gradients_and_finite_metrics():
    empty = (np.zeros((0, 3), dtype=np.float32), 0.4)
    grads, metrics = messages_through_a_model([empty, empty])
    assert all(not grad.any() for grad in grads)
    assert set(metrics.values()) == {0.0}


def test_kl_reward_at_every_token_and_message_reward_at_the_last_real_one():
    old = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, 5.0, float("nan")]])
    ref = torch.tensor([[-1.5, -1.0, -3.0], [-3.0, 7.0, 9.0]])
    terms = kl_terms(old, ref, torch.tensor([3, 1]), torch.tensor([1.0, -0.5]), 0.1)
    torch.testing.assert_close(
        terms.token_rewards_ML, torch.tensor([[-0.05, 0.1, 1.0], [-0.5 - 0.2, 0.0, 0.0]])
    )
    torch.testing.assert_close(terms.kl_M, torch.tensor([-0.5, 2.0]))


def test_kl_coefficient_may_differ_per_message():
    old, ref = torch.full((2, 1), -1.0), torch.full((2, 1), -2.0)
    terms = kl_terms(
        old, ref, torch.tensor([1, 1]), torch.zeros(2), kl_coef=torch.tensor([0.1, 0.2])
    )
    torch.testing.assert_close(terms.token_rewards_ML, torch.tensor([[-0.1], [-0.2]]))


def test_reference_equal_to_the_policy_leaves_only_the_message_reward():
    logp = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    terms = kl_terms(logp, logp.clone(), torch.tensor([6, 1, 3, 0]), torch.ones(4), 0.5)
    assert not terms.kl_ML.any()
    assert terms.token_rewards_ML.sum(dim=1).tolist() == [1.0, 1.0, 1.0, 0.0]
    assert [terms.token_rewards_ML[m, k].item() for m, k in ((0, 5), (1, 0), (2, 2))] == [1.0] * 3


@pytest.mark.parametrize("gap", [500.0, -500.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_extreme_ratios_stay_finite_in_loss_and_gradient_and_are_counted(gap, advantage):
    batch = tokens(2, 1)
    old = torch.tensor([-600.0, -1.0])
    new = (old + torch.tensor([gap, 0.0])).requires_grad_()
    batch = replace(
        batch,
        logp_new_N=new,
        logp_old_N=old,
        advantages_N=torch.full((2,), advantage),
    )
    result = CONFIG(batch)
    result.loss.backward()
    assert torch.isfinite(result.loss)
    assert torch.isfinite(new.grad).all()
    assert result.stats.means(0)["beyond_limit"] == 1.0


@settings(deadline=None, max_examples=50)
@given(log_ratio=st.floats(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT), advantage=st.floats(-3, 3))
def test_ratio_is_untouched_up_to_the_limit(log_ratio, advantage):
    new = torch.tensor([log_ratio], dtype=torch.float64)
    terms = policy_loss(new, torch.zeros(1, dtype=torch.float64), torch.ones(1), 0.2, 0.2)
    assert terms.ratio_N.item() == pytest.approx(np.exp(log_ratio), rel=1e-12)
    assert not terms.beyond_limit_N.any()


def test_nan_of_one_policy_reaches_the_loss_but_not_the_other_policys_statistics():
    batch = tokens(20, 2)
    clean = CONFIG(batch).stats.means(1)
    logp = batch.logp_new_N.detach().clone()
    logp[int((batch.policies_N == 0).nonzero()[0])] = float("nan")
    result = CONFIG(replace(batch, logp_new_N=logp))
    assert torch.isnan(result.loss)
    assert np.isnan(result.stats.means(0)["policy_loss"])
    assert result.stats.means(1) == clean


def test_half_precision_inputs_are_summed_in_full_precision():
    batch = tokens(64, 2, dtype=torch.bfloat16)
    raised = {
        f.name: getattr(batch, f.name).detach().float()
        for f in fields(batch)
        if isinstance(getattr(batch, f.name), torch.Tensor)
        and f.name not in ("policies_N", "tokens_per_policy_P")
    }
    result = CONFIG(batch)
    assert result.loss.dtype == torch.float32
    assert torch.equal(result.loss, CONFIG(replace(batch, **raised)).loss)


def test_entropies_are_optional_without_a_bonus_and_required_with_one():
    batch = replace(tokens(8, 1), entropy_N=None)
    assert Clipped(entropy_coef=0.0)(batch).stats.means(0)["entropy"] == 0.0
    with pytest.raises(TrainingError, match="entropies"):
        Clipped(entropy_coef=0.1)(batch)


def test_entropy_without_a_bonus_is_measured_but_earns_no_gradient():
    batch = tokens(8, 1)
    result = Clipped(entropy_coef=0.0)(batch)
    result.loss.backward()
    assert batch.entropy_N.grad is None
    assert result.stats.means(0)["entropy"] == pytest.approx(batch.entropy_N.detach().mean().item())


def test_gradients_flow_into_the_new_policy_and_values_only():
    batch = tokens(8, 1)
    frozen = ("logp_old_N", "advantages_N", "values_old_N", "returns_N")
    tracked = replace(
        batch, **{name: getattr(batch, name).clone().requires_grad_() for name in frozen}
    )
    CONFIG(tracked).loss.backward()
    assert all(getattr(tracked, name).grad is None for name in frozen)


def test_approximate_kl_and_ratio_means_by_hand():
    gap = torch.tensor([0.1, -0.3])
    batch = replace(tokens(2, 1), logp_old_N=torch.zeros(2), logp_new_N=gap)
    found = CONFIG(batch).stats.means(0)
    ratio = np.exp([0.1, -0.3])
    assert found["ratio_mean"] == pytest.approx(ratio.mean(), rel=1e-6)
    assert found["ratio_max"] == pytest.approx(ratio.max(), rel=1e-6)
    assert found["approx_kl"] == pytest.approx(np.mean(ratio - 1 - [0.1, -0.3]), rel=1e-5)


def test_without_values_the_loss_is_the_policys_alone_and_says_nothing_of_values():
    batch = tokens(30, 2)
    without = replace(batch, values_new_N=None, values_old_N=None, returns_N=None)
    result = CONFIG(without)
    assert float(result.loss.detach()) == pytest.approx(
        float(replace(CONFIG, value_coef=0.0)(batch).loss.detach()), abs=1e-6
    )
    assert "policy_loss" in result.stats.means(0)
    assert not any("value" in name for name in result.stats.means(0))


def test_values_without_returns_are_refused():
    with pytest.raises(TrainingError, match="returns"):
        CONFIG(replace(tokens(3, 1), returns_N=None))
