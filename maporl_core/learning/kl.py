"""How far a policy is from its base: the token rewards that price it, and the price's own schedule.

In: log-probabilities of right-padded messages.  Out: token rewards, KL per token and per message.
Pure.  Neighbours: ``measure`` asks for the terms, ``updater`` adapts the coefficient.

Axes: M messages, L tokens of the longest message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.learning.padding import full, length_mask


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
    difference_ML = (full(logp_old_ML) - full(logp_ref_ML)).detach()
    kl_ML = torch.where(mask_ML, difference_ML, torch.zeros_like(difference_ML))
    coef = kl_coef[:, None] if isinstance(kl_coef, Tensor) else kl_coef
    last_ML = mask_ML & ~length_mask(lengths_M - 1, logp_old_ML.shape[1])
    paid_ML = torch.where(last_ML, rewards_M.detach()[:, None], torch.zeros_like(kl_ML))
    return KLTerms(paid_ML - coef * kl_ML, kl_ML, kl_ML.sum(dim=1))


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
