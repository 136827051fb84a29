"""What an objective is: the tokens of a micro-batch to one loss, and statistics that merge exactly.

In: ``LossTokens``.  Out: ``Loss``.  Neighbours: ``losses`` holds per-token terms, ``base_update``
calls an objective per micro-batch and steps the optimisers; a method names its objective.

Every token is divided by the number of tokens its policy has in the whole optimiser step, so
neither the split into micro-batches nor the company of other policies changes a gradient.

Axes: N tokens, P policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LossTokens:
    """The tokens of one micro-batch, any mixture of policies, N may be 0.

    ``policies_N``: index of each token's policy.  ``tokens_per_policy_P``: how many tokens each
    policy has in the whole optimiser step, over all micro-batches and ranks.  Gradients flow into
    ``logp_new_N``, ``values_new_N`` and ``entropy_N`` only.  Values and returns are None where the
    estimator needs none.  ``kl_coef`` prices the KL in the loss; 0 where the reward does.
    ``weights_N``: what each token's loss is multiplied by, see ``mismatch``; None is 1.
    """

    logp_new_N: Tensor
    logp_old_N: Tensor
    advantages_N: Tensor
    policies_N: Tensor
    tokens_per_policy_P: Tensor
    values_new_N: Tensor | None = None
    values_old_N: Tensor | None = None
    returns_N: Tensor | None = None
    entropy_N: Tensor | None = None
    logp_reference_N: Tensor | None = None
    kl_coef: float = 0.0
    weights_N: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Per policy, float64 [P], by the name of the metric: ``sums`` over tokens, of which the mean
    is shown; ``counts``, shown as they are; ``highest``, the maximum.
    """

    tokens: Tensor
    sums: Mapping[str, Tensor]
    counts: Mapping[str, Tensor]
    highest: Mapping[str, Tensor]

    def merge(self, other: Stats) -> Stats:
        """The statistics of both micro-batches together."""
        return Stats(
            self.tokens + other.tokens,
            _both(self.sums, other.sums, torch.add),
            _both(self.counts, other.counts, torch.add),
            _both(self.highest, other.highest, torch.maximum),
        )

    def means(self, policy: int) -> dict[str, float]:
        """One policy's metrics by name; all 0 when it had no tokens.  docs/algorithm.md explains
        each.
        """
        tokens = max(float(self.tokens[policy]), 1.0)
        found = {name: float(total[policy]) / tokens for name, total in self.sums.items()}
        for part in (self.counts, self.highest):
            found |= {name: float(value[policy]) for name, value in part.items()}
        return found


def _both(
    one: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    join: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    return {name: join(value, other[name]) for name, value in one.items()}


@dataclass(frozen=True, slots=True)
class Loss:
    """``loss``: scalar to call backward on; add up over micro-batches, never average."""

    loss: Tensor
    stats: Stats


class Objective(Protocol):
    @property
    def needs_entropy(self) -> bool:
        """Whether the entropy of every token is computed with gradients."""
        ...

    def __call__(self, batch: LossTokens) -> Loss: ...


def per_policy(batch: LossTokens, per_token_N: Tensor) -> Tensor:
    """Σ over tokens of the given loss · the token's weight / tokens of the token's policy."""
    counts_P = batch.tokens_per_policy_P.to(per_token_N.dtype)
    if batch.weights_N is not None:
        per_token_N = per_token_N * batch.weights_N.to(per_token_N.dtype)
    return (per_token_N / counts_P[batch.policies_N]).sum()


def statistics(
    batch: LossTokens,
    sums: Mapping[str, Tensor],
    counts: Mapping[str, Tensor],
    highest: Mapping[str, Tensor],
) -> Stats:
    """Per-token numbers [N] gathered by policy.  Selecting with ``where``, not multiplying by a
    mask, keeps one policy's NaN out of the others' numbers, and has a fixed order of summation on
    every device.
    """
    index_P = torch.arange(batch.tokens_per_policy_P.numel(), device=batch.policies_N.device)
    own_PN = batch.policies_N[None, :] == index_P[:, None]

    def apart(x_N: Tensor) -> Tensor:
        x_N = x_N.detach().double()
        return torch.where(own_PN, x_N[None, :], torch.zeros_like(x_N)[None, :])

    def top(x_PN: Tensor) -> Tensor:
        return x_PN.amax(dim=1) if x_PN.shape[1] else x_PN.sum(dim=1)

    return Stats(
        tokens=own_PN.double().sum(dim=1),
        sums={name: apart(x).sum(dim=1) for name, x in sums.items()},
        counts={name: apart(x).sum(dim=1) for name, x in counts.items()},
        highest={name: top(apart(x)) for name, x in highest.items()},
    )
