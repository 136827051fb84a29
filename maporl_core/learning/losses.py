"""Policy, value and KL terms of multi-agent PPO; pure: dataclass in, dataclass out.

In: flat tensors over the trained tokens of any micro-batch (masks were applied upstream, from
lengths).  Out: one loss to call ``backward`` on, and per-policy sums that merge exactly.
Neighbours: ``advantages`` comes before, ``update`` calls ``ppo_loss`` and steps the optimisers.

Every token is divided by the number of tokens its policy has in the whole optimiser step, so
neither the split into micro-batches nor the company of other policies changes a gradient.

Axes: N tokens, M messages, L tokens of the longest message, P policies.
Source of the losses: PPO (1707.06347), with the clipped value loss of its reference code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from difflib import get_close_matches

import torch
from torch import Tensor

from maporl_core.config.schema import PPOConfig
from maporl_core.errors import ConfigError, TrainingError
from maporl_core.learning.padding import length_mask

LOG_RATIO_LIMIT = 20.0
"""log π_new − log π_old is held within ±20 (a ratio of 5e8 or its inverse), where it passes no
gradient.  That is far outside any clip range; it only keeps exp() and its gradient finite.  Tokens
beyond it are counted (``beyond_limit``)."""


@dataclass(frozen=True, slots=True)
class KLTerms:
    """``token_rewards_ML``: −kl_coef · KL at every token, plus R at the last one.
    ``kl_ML``: log π_old − log π_ref per token; ``kl_M``: its sum per message.
    """

    token_rewards_ML: Tensor
    kl_ML: Tensor
    kl_M: Tensor


def kl_terms(
    logp_old_ML: Tensor,
    logp_ref_ML: Tensor,
    lengths_M: Tensor,
    rewards_M: Tensor,
    kl_coef: float | Tensor,
) -> KLTerms:
    """Token rewards of right-padded messages; zero in the padding, whatever stands there.

    R(t, a) sits on the last token that was generated; an end token counts as one.  A message of
    length 0 has nothing to carry its reward.  ``kl_coef``: one number, or one per message [M].
    """
    mask_ML = length_mask(lengths_M, logp_old_ML.shape[1])
    difference_ML = (_full(logp_old_ML) - _full(logp_ref_ML)).detach()
    kl_ML = torch.where(mask_ML, difference_ML, torch.zeros_like(difference_ML))
    coef = kl_coef[:, None] if isinstance(kl_coef, Tensor) else kl_coef
    last_ML = mask_ML & ~length_mask(lengths_M - 1, logp_old_ML.shape[1])
    paid_ML = torch.where(last_ML, rewards_M.detach()[:, None], torch.zeros_like(kl_ML))
    return KLTerms(paid_ML - coef * kl_ML, kl_ML, kl_ML.sum(dim=1))


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """Per token: loss, probability ratio, whether clipping took effect, whether the exponent was
    held at ``LOG_RATIO_LIMIT``; ``approx_kl_N`` is (r − 1) − ln r, an estimate of KL(old ‖ new)
    that is never negative.
    """

    loss_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    beyond_limit_N: Tensor
    approx_kl_N: Tensor


def policy_loss(
    logp_new_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    clip_low: float,
    clip_high: float,
) -> PolicyTerms:
    """−min(r·A, clip(r, 1 − clip_low, 1 + clip_high)·A) per token, r = π_new / π_old."""
    log_ratio_N = logp_new_N - logp_old_N
    held_N = log_ratio_N.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio_N = held_N.exp()
    plain_N = -ratio_N * advantages_N
    clipped_N = -ratio_N.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_N
    return PolicyTerms(
        loss_N=torch.maximum(plain_N, clipped_N),
        ratio_N=ratio_N.detach(),
        clipped_N=(clipped_N > plain_N).detach(),
        beyond_limit_N=(log_ratio_N.abs() > LOG_RATIO_LIMIT).detach(),
        approx_kl_N=(torch.expm1(held_N) - held_N).detach(),
    )


@dataclass(frozen=True, slots=True)
class ValueTerms:
    """Per token: loss, and whether clipping took effect."""

    loss_N: Tensor
    clipped_N: Tensor


def value_loss(
    values_new_N: Tensor, values_old_N: Tensor, returns_N: Tensor, clip: float
) -> ValueTerms:
    """½ max((V − G)², (V_old + clip(V − V_old, ±clip) − G)²) per token, G the returns."""
    moved_N = values_old_N + (values_new_N - values_old_N).clamp(-clip, clip)
    plain_N = (values_new_N - returns_N).square()
    clipped_N = (moved_N - returns_N).square()
    return ValueTerms(0.5 * torch.maximum(plain_N, clipped_N), (clipped_N > plain_N).detach())


@dataclass(frozen=True, slots=True)
class PPOTokens:
    """The tokens of one micro-batch, any mixture of policies, N may be 0.

    ``policies_N``: index of each token's policy.  ``tokens_per_policy_P``: how many tokens each
    policy has in the whole optimiser step, over all micro-batches and ranks.  Gradients flow into
    ``logp_new_N``, ``values_new_N`` and ``entropy_N`` only.
    """

    logp_new_N: Tensor
    logp_old_N: Tensor
    advantages_N: Tensor
    values_new_N: Tensor
    values_old_N: Tensor
    returns_N: Tensor
    policies_N: Tensor
    tokens_per_policy_P: Tensor
    entropy_N: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PPOStats:
    """Sums per policy (``ratio_max``: the maximum), float64 [P]; divide by ``tokens`` for means."""

    tokens: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    clipped: Tensor
    value_clipped: Tensor
    ratio: Tensor
    ratio_max: Tensor
    approx_kl: Tensor
    beyond_limit: Tensor

    def merge(self, other: PPOStats) -> PPOStats:
        """The statistics of both micro-batches together."""
        merged = {
            part.name: getattr(self, part.name) + getattr(other, part.name)
            for part in fields(self)
            if part.name != "ratio_max"
        }
        return PPOStats(ratio_max=torch.maximum(self.ratio_max, other.ratio_max), **merged)

    def means(self, policy: int) -> dict[str, float]:
        """One policy's metrics by name; all 0 when it had no tokens.  docs/algorithm.md explains
        each.
        """
        tokens = max(float(self.tokens[policy]), 1.0)
        return {
            "policy_loss": float(self.policy_loss[policy]) / tokens,
            "value_loss": float(self.value_loss[policy]) / tokens,
            "entropy": float(self.entropy[policy]) / tokens,
            "clip_fraction": float(self.clipped[policy]) / tokens,
            "value_clip_fraction": float(self.value_clipped[policy]) / tokens,
            "ratio_mean": float(self.ratio[policy]) / tokens,
            "ratio_max": float(self.ratio_max[policy]),
            "approx_kl": float(self.approx_kl[policy]) / tokens,
            "beyond_limit": float(self.beyond_limit[policy]),
        }


@dataclass(frozen=True, slots=True)
class PPOLoss:
    """``loss``: scalar to call backward on; add up over micro-batches, never average."""

    loss: Tensor
    stats: PPOStats


def ppo_loss(batch: PPOTokens, config: PPOConfig) -> PPOLoss:
    """Σ over tokens of (policy + value_coef · value − entropy_coef · entropy) / tokens_of_policy.

    Half-precision inputs are raised to float32 first.  A policy without tokens contributes exactly
    0 and finite statistics.  Raises TrainingError when an entropy bonus is set and the batch has
    no entropies.
    """
    if config.entropy_coef > 0 and batch.entropy_N is None:
        raise TrainingError("ppo.entropy_coef is above 0, so the batch needs entropies per token")
    policy = policy_loss(
        _full(batch.logp_new_N),
        _full(batch.logp_old_N).detach(),
        _full(batch.advantages_N).detach(),
        config.clip_low,
        config.clip_high,
    )
    value = value_loss(
        _full(batch.values_new_N),
        _full(batch.values_old_N).detach(),
        _full(batch.returns_N).detach(),
        config.value_clip,
    )
    per_token_N = policy.loss_N + config.value_coef * value.loss_N
    entropy_N = torch.zeros_like(policy.ratio_N)
    if batch.entropy_N is not None:
        entropy_N = _full(batch.entropy_N)
        if config.entropy_coef > 0:
            per_token_N = per_token_N - config.entropy_coef * entropy_N
    counts_P = batch.tokens_per_policy_P.to(per_token_N.dtype)
    loss = (per_token_N / counts_P[batch.policies_N]).sum()
    return PPOLoss(loss, _statistics(batch, policy, value, entropy_N.detach()))


def _full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _statistics(
    batch: PPOTokens, policy: PolicyTerms, value: ValueTerms, entropy_N: Tensor
) -> PPOStats:
    """Sums by policy.  Selecting with ``where``, not multiplying by a mask, keeps one policy's NaN
    out of the others' numbers, and has a fixed order of summation on every device.
    """
    index_P = torch.arange(batch.tokens_per_policy_P.numel(), device=batch.policies_N.device)
    own_PN = batch.policies_N[None, :] == index_P[:, None]

    def by_policy(x_N: Tensor) -> Tensor:
        x_N = x_N.detach().double()
        return torch.where(own_PN, x_N[None, :], torch.zeros_like(x_N)[None, :])

    ratio_PN = by_policy(policy.ratio_N)
    return PPOStats(
        tokens=own_PN.double().sum(dim=1),
        policy_loss=by_policy(policy.loss_N).sum(dim=1),
        value_loss=by_policy(value.loss_N).sum(dim=1),
        entropy=by_policy(entropy_N).sum(dim=1),
        clipped=by_policy(policy.clipped_N).sum(dim=1),
        value_clipped=by_policy(value.clipped_N).sum(dim=1),
        ratio=ratio_PN.sum(dim=1),
        ratio_max=ratio_PN.amax(dim=1) if ratio_PN.shape[1] else ratio_PN.sum(dim=1),
        approx_kl=by_policy(policy.approx_kl_N).sum(dim=1),
        beyond_limit=by_policy(policy.beyond_limit_N).sum(dim=1),
    )


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 − Var(returns − values) / Var(returns): 1 perfect, 0 no better than a constant.

    0 when it is undefined: no tokens, or returns without spread.
    """
    returns, values = returns.detach().double(), values.detach().double()
    if returns.numel() == 0:
        return 0.0
    spread = float(returns.var(correction=0))
    if spread <= 1e-12:
        return 0.0
    return 1.0 - float((returns - values).var(correction=0)) / spread


def next_kl_coef(
    coef: float, kl_per_message: float, target: float, horizon: float, messages: int
) -> float:
    """Adaptive KL coefficient of Ziegler et al. (1909.08593, section 2.2).

        coef · (1 + clip(KL / target − 1, ±0.2) · messages / horizon)

    ``messages`` were seen since the last change; more than ``horizon`` count as ``horizon``, so
    the coefficient stays positive.  A KL that is not finite leaves it as it is.  A coefficient
    of 0 stays 0.
    """
    if not math.isfinite(kl_per_message):
        return coef
    error = min(max(kl_per_message / target - 1.0, -0.2), 0.2)
    return coef * (1.0 + error * min(messages / horizon, 1.0))


def lr_factor(step: int, total: int, warmup: int, kind: str) -> float:
    """What the learning rate is multiplied by in step ``step`` (0-based) of ``total``.

    Rises (step + 1) / warmup over the first ``warmup`` steps, then stays 1 ("constant") or falls
    to 0 at ``total`` ("linear", "cosine"), so the last step still has a rate above 0.
    Raises ConfigError for another kind.
    """
    if kind not in SCHEDULES:
        near = get_close_matches(kind, SCHEDULES, n=1, cutoff=0.0)[0]
        raise ConfigError(f"ppo.schedule: no schedule is called {kind!r}; did you mean {near!r}?")
    if step < warmup:
        return (step + 1) / warmup
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    if kind == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if kind == "cosine" else 1.0


SCHEDULES = ("constant", "linear", "cosine")
