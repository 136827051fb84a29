"""The clipped objective of PPO, with a clipped value loss where there are values, and the KL to
the base where the loss has its price.

In and out: see ``objectives.base``.  Neighbour: ``losses`` holds its terms per token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.errors import TrainingError
from maporl_core.learning.losses import PolicyTerms, ValueTerms, k3, policy_loss, value_loss
from maporl_core.learning.objectives.base import Loss, LossTokens, per_policy, statistics
from maporl_core.learning.padding import full


@dataclass(frozen=True, slots=True)
class Clipped:
    """Σ over tokens of (policy + value_coef · value + kl_coef · k3 − entropy_coef · entropy)
    / tokens of the policy; ``kl_coef`` comes with the batch.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    value_clip: float = 0.2
    value_coef: float = 0.1
    entropy_coef: float = 0.0
    dual_clip: float | None = None

    @property
    def needs_entropy(self) -> bool:
        return self.entropy_coef > 0

    def __call__(self, batch: LossTokens) -> Loss:
        """Half-precision inputs are raised to float32 first.  A policy without tokens contributes
        exactly 0 and finite statistics.  Raises TrainingError when the batch lacks the entropies or
        reference log-probabilities that a coefficient asks for.
        """
        if self.needs_entropy and batch.entropy_N is None:
            raise TrainingError("entropy_coef is above 0, so the batch needs entropies per token")
        policy = policy_loss(
            full(batch.logp_new_N),
            full(batch.logp_old_N).detach(),
            full(batch.advantages_N).detach(),
            self.clip_low,
            self.clip_high,
            self.dual_clip,
        )
        per_token_N, value, kl_N = policy.loss_N, self._value(batch), self._kl(batch)
        if value is not None:
            per_token_N = per_token_N + self.value_coef * value.loss_N
        if kl_N is not None:
            per_token_N = per_token_N + batch.kl_coef * kl_N
        entropy_N = torch.zeros_like(policy.ratio_N)
        if batch.entropy_N is not None:
            entropy_N = full(batch.entropy_N)
            if self.needs_entropy:
                per_token_N = per_token_N - self.entropy_coef * entropy_N
        stats = statistics(
            batch,
            sums=_sums(policy, value, kl_N, entropy_N),
            counts={"beyond_limit": policy.beyond_limit_N},
            highest={"ratio_max": policy.ratio_N},
        )
        return Loss(per_policy(batch, per_token_N), stats)

    def _kl(self, batch: LossTokens) -> Tensor | None:
        """k3 per token; None where the loss does not pay for it."""
        if batch.kl_coef <= 0:
            return None
        if batch.logp_reference_N is None:
            raise TrainingError("the KL is in the loss, so the batch needs the base's logprobs")
        return k3(full(batch.logp_new_N), full(batch.logp_reference_N).detach())

    def _value(self, batch: LossTokens) -> ValueTerms | None:
        if batch.values_new_N is None:
            return None
        if batch.values_old_N is None or batch.returns_N is None:
            raise TrainingError("values are trained on old values and returns, which are missing")
        return value_loss(
            full(batch.values_new_N),
            full(batch.values_old_N).detach(),
            full(batch.returns_N).detach(),
            self.value_clip,
        )


def _sums(
    policy: PolicyTerms, value: ValueTerms | None, kl_N: Tensor | None, entropy_N: Tensor
) -> dict[str, Tensor]:
    """What is told of the tokens, as sums."""
    sums: dict[str, Tensor] = {
        "policy_loss": policy.loss_N,
        "entropy": entropy_N,
        "clip_fraction": policy.clipped_N,
        "ratio_mean": policy.ratio_N,
        "approx_kl": policy.approx_kl_N,
    }
    if policy.dual_N is not None:
        sums["dual_clip_fraction"] = policy.dual_N
    if kl_N is not None:
        sums["kl_loss"] = kl_N
    if value is not None:
        sums |= {"value_loss": value.loss_N, "value_clip_fraction": value.clipped_N}
    return sums
