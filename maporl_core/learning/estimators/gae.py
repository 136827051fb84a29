"""Generalised advantage estimation over the tokens of each message.

In and out: see ``estimators.base``.  Masks come from lengths, never from token values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.errors import TrainingError
from maporl_core.learning.estimators.base import Credit, CreditInputs
from maporl_core.learning.padding import length_mask


@dataclass(frozen=True, slots=True)
class Gae:
    """``gae`` with γ = 1 over tokens; keeps no state."""

    lam: float = 0.95
    needs_values: bool = True

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit:
        if inputs.values_ML is None:
            raise TrainingError("gae needs the value of every token")
        advantages_ML, returns_ML = gae(
            inputs.token_rewards_ML, inputs.values_ML, inputs.lengths_M, 1.0, self.lam
        )
        return Credit(advantages_ML, returns_ML, state)


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
