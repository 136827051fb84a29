"""The clipped objective of PPO, with a clipped value loss where there are values.

In and out: see ``objectives.base``.  Neighbour: ``losses`` holds its terms per token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.errors import TrainingError
from maporl_core.learning.losses import ValueTerms, policy_loss, value_loss
from maporl_core.learning.objectives.base import Loss, LossTokens, per_policy, statistics
from maporl_core.learning.padding import full


@dataclass(frozen=True, slots=True)
class Clipped:
    """Σ over tokens: (policy + value_coef · value − entropy_coef · entropy) / tokens of policy."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    value_clip: float = 0.2
    value_coef: float = 0.1
    entropy_coef: float = 0.0

    @property
    def needs_entropy(self) -> bool:
        return self.entropy_coef > 0

    def __call__(self, batch: LossTokens) -> Loss:
        """Half-precision inputs are raised to float32 first.  A policy without tokens contributes
        exactly 0 and finite statistics.  Raises TrainingError when an entropy bonus is set and the
        batch has no entropies.
        """
        if self.needs_entropy and batch.entropy_N is None:
            raise TrainingError("entropy_coef is above 0, so the batch needs entropies per token")
        policy = policy_loss(
            full(batch.logp_new_N),
            full(batch.logp_old_N).detach(),
            full(batch.advantages_N).detach(),
            self.clip_low,
            self.clip_high,
        )
        per_token_N, value = policy.loss_N, self._value(batch)
        if value is not None:
            per_token_N = per_token_N + self.value_coef * value.loss_N
        entropy_N = torch.zeros_like(policy.ratio_N)
        if batch.entropy_N is not None:
            entropy_N = full(batch.entropy_N)
            if self.needs_entropy:
                per_token_N = per_token_N - self.entropy_coef * entropy_N
        sums: dict[str, Tensor] = {
            "policy_loss": policy.loss_N,
            "entropy": entropy_N,
            "clip_fraction": policy.clipped_N,
            "ratio_mean": policy.ratio_N,
            "approx_kl": policy.approx_kl_N,
        }
        if value is not None:
            sums |= {"value_loss": value.loss_N, "value_clip_fraction": value.clipped_N}
        stats = statistics(
            batch,
            sums=sums,
            counts={"beyond_limit": policy.beyond_limit_N},
            highest={"ratio_max": policy.ratio_N},
        )
        return Loss(per_policy(batch, per_token_N), stats)

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
