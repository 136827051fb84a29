"""Rewards and values of sampled tokens to advantages and returns; pure, no gradients.

In: one row per message, right-padded to the longest, with true lengths.  Out: the same shape.
Masks come from lengths, never from token values.  Neighbours: ``losses.kl_terms`` makes the token
rewards, ``update`` calls ``estimate`` and trains on the result.

An estimator is a small function in ``ESTIMATORS``.  Its input carries what later ones need beside
token rewards and values: each message's reward, its group (problem, turn, agent, policy) and
running baselines.  To add one, write the function, register it and name it in ``ppo.advantage``.

Axes: M messages, L tokens of the longest, N = sum of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Protocol

import torch
from torch import Tensor

from maporl_core.config.schema import PPOConfig
from maporl_core.errors import ConfigError
from maporl_core.learning.padding import length_mask

WHITEN_FLOOR = 1e-6  # spread, relative to max(1, largest advantage), that counts as no spread


@dataclass(frozen=True, slots=True)
class MessageKey:
    """Where a message comes from.

    ``sample`` tells discussions of the same problem apart; turn and agent are 0-based.
    """

    problem: str
    sample: int
    turn: int
    agent: int
    policy: str


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """``token_rewards_ML`` includes the message reward at the last token; ``rewards_M`` is that
    reward alone, R(t, a).  ``values_ML`` are those of the policy that sampled; what stands in the
    padding of either is never read.  ``baselines`` is the state of estimators that keep one
    between updates, by name.
    """

    token_rewards_ML: Tensor
    values_ML: Tensor
    lengths_M: Tensor
    rewards_M: Tensor
    keys: Sequence[MessageKey]
    baselines: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advantages:
    """Zero in the padding.  ``normalised``: the estimator has already brought advantages to their
    final scale, so they are not whitened.
    """

    advantages_ML: Tensor
    returns_ML: Tensor
    baselines: Mapping[str, float] = field(default_factory=dict)
    normalised: bool = False


class AdvantageEstimator(Protocol):
    def __call__(self, inputs: AdvantageInputs, config: PPOConfig) -> Advantages: ...


def estimate(inputs: AdvantageInputs, config: PPOConfig) -> Advantages:
    """Advantages of one whole update batch by ``config.advantage``, whitened per policy.

    Whitening runs over all tokens of a policy in the batch, so it must be called once per update,
    not per micro-batch.  Returns are left as the estimator made them.
    Raises ConfigError for an estimator that is not registered.
    """
    result = estimator(config.advantage)(inputs, config)
    if result.normalised:
        return result
    mask_ML = length_mask(inputs.lengths_M, inputs.values_ML.shape[1])
    whitened_ML = torch.zeros_like(result.advantages_ML)
    for policy in dict.fromkeys(key.policy for key in inputs.keys):
        own_M = torch.tensor([key.policy == policy for key in inputs.keys], device=mask_ML.device)
        own_ML = mask_ML & own_M[:, None]
        whitened_ML = whitened_ML + whiten(result.advantages_ML, own_ML)
    return replace(result, advantages_ML=whitened_ML)


def estimator(name: str) -> AdvantageEstimator:
    """The registered estimator of that name.  Raises ConfigError naming the nearest one."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    near = get_close_matches(name, ESTIMATORS, n=1, cutoff=0.0)[0]
    raise ConfigError(f"ppo.advantage: no estimator is called {name!r}; did you mean {near!r}?")


def gae(
    token_rewards_ML: Tensor,
    values_ML: Tensor,
    lengths_M: Tensor,
    gamma: float = 1.0,
    lam: float = 0.95,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation within each message (Schulman et al., 1506.02438).

        δ_k = r_k + γ V_{k+1} − V_k,   A_k = δ_k + γ λ A_{k+1},   returns_k = A_k + V_k

    with V and A zero after a message's last token (no bootstrap).  Returns (advantages, returns),
    both [M, L], zero in the padding; a row of length 0 is all zeros.  Summed in float64, returned
    in the dtype of ``values_ML`` (at least float32).
    """
    mask_ML = length_mask(lengths_M, values_ML.shape[1])
    zero = torch.zeros((), dtype=torch.float64, device=values_ML.device)
    rewards_ML = torch.where(mask_ML, token_rewards_ML.detach().double(), zero)
    old_ML = torch.where(mask_ML, values_ML.detach().double(), zero)
    advantages_ML = torch.zeros_like(old_ML)
    running_M = next_M = old_ML.new_zeros(old_ML.shape[0])
    for k in reversed(range(old_ML.shape[1])):
        # In the padding rewards, values and everything after them are zero, so it stays zero.
        delta_M = rewards_ML[:, k] + gamma * next_M - old_ML[:, k]
        running_M = delta_M + gamma * lam * running_M
        advantages_ML[:, k] = running_M
        next_M = old_ML[:, k]
    dtype = torch.promote_types(values_ML.dtype, torch.float32)
    return advantages_ML.to(dtype), (advantages_ML + old_ML).to(dtype)


def whiten(advantages: Tensor, mask: Tensor) -> Tensor:
    """(x − mean) / std over all unmasked entries (population std), any shape; masked ones are 0.

    One entry, none, or a spread of at most ``WHITEN_FLOOR``, which is rounding on the scale of
    rewards, gives exact zeros.  A NaN that is not masked stays visible: everything becomes NaN.
    """
    x = advantages.detach().double()[mask]
    out = torch.zeros_like(advantages.detach())
    if x.numel() < 2:
        out[mask] = (x * 0.0).to(out.dtype)  # still NaN where the entry is
        return out
    centred = x - x.mean()
    std = centred.square().mean().sqrt()
    no_spread = std <= WHITEN_FLOOR * x.abs().max().clamp(min=1.0)
    out[mask] = torch.where(no_spread, torch.zeros_like(x), centred / std).to(out.dtype)
    return out


def gae_estimator(inputs: AdvantageInputs, config: PPOConfig) -> Advantages:
    """``gae`` with γ = 1 over tokens and λ = ``ppo.gae_lambda``."""
    advantages_ML, returns_ML = gae(
        inputs.token_rewards_ML, inputs.values_ML, inputs.lengths_M, 1.0, config.gae_lambda
    )
    return Advantages(advantages_ML, returns_ML, inputs.baselines)


ESTIMATORS: Mapping[str, AdvantageEstimator] = {"gae": gae_estimator}
