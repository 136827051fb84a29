"""Policy, value and KL terms of the loss, token by token; pure: tensors in, dataclass out.

In: flat tensors over the trained tokens of any micro-batch (masks were applied upstream, from
lengths).  Neighbour: ``objectives`` weigh and sum them into what is called ``backward`` on.

Axes: N tokens.
Sources: PPO (1707.06347), with the clipped value loss of its reference code; dual clip (Ye et al.,
1912.09729); k3 (Schulman, "Approximating KL divergence").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""log π_new − log π_old is held within ±20 (a ratio of 5e8 or its inverse), where it passes no
gradient.  That is far outside any clip range; it only keeps exp() and its gradient finite.  Tokens
beyond it are counted (``beyond_limit``)."""


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """Per token: loss, probability ratio, whether clipping took effect, whether the exponent was
    held at ``LOG_RATIO_LIMIT``; ``approx_kl_N`` is (r − 1) − ln r, an estimate of KL(old ‖ new)
    that is never negative.  ``dual_N``: whether the dual clip took effect, None without one.
    """

    loss_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    beyond_limit_N: Tensor
    approx_kl_N: Tensor
    dual_N: Tensor | None = None


def policy_loss(
    logp_new_N: Tensor,
    logp_old_N: Tensor,
    advantages_N: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> PolicyTerms:
    """−min(r·A, clip(r, 1 − clip_low, 1 + clip_high)·A) per token, r = π_new / π_old.

    With a ``dual_clip`` c the loss of a token with A < 0 is at most −c·A, where it passes no
    gradient: a ratio that ran away upwards does not drown the others.
    """
    log_ratio_N = logp_new_N - logp_old_N
    held_N = log_ratio_N.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio_N = held_N.exp()
    plain_N = -ratio_N * advantages_N
    clipped_N = -ratio_N.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_N
    loss_N = torch.maximum(plain_N, clipped_N)
    dual_N = None
    if dual_clip is not None:
        most_N = -dual_clip * advantages_N
        dual_N = (advantages_N < 0) & (loss_N > most_N)
        loss_N = torch.where(dual_N, most_N, loss_N)
    return PolicyTerms(
        loss_N=loss_N,
        ratio_N=ratio_N.detach(),
        clipped_N=(clipped_N > plain_N).detach(),
        beyond_limit_N=(log_ratio_N.abs() > LOG_RATIO_LIMIT).detach(),
        approx_kl_N=(torch.expm1(held_N) - held_N).detach(),
        dual_N=dual_N,
    )


def k3(logp_new_N: Tensor, logp_reference_N: Tensor) -> Tensor:
    """e^Δ − Δ − 1 per token, Δ = log π_ref − log π_new: an estimate of KL(new ‖ reference) that is
    never negative, with Δ held within ``LOG_RATIO_LIMIT`` as ratios are.
    """
    gap_N = (logp_reference_N - logp_new_N).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return torch.expm1(gap_N) - gap_N


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
