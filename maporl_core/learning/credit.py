"""Credit, formed once per update over the messages of all bases.

In: what ``measure`` found on each base, flat.  Out: advantages and returns of the same tokens.  A
group may span agents on different bases; whitening runs over all tokens of a policy in the update.
Neighbours: the method's estimator does the maths, ``base_update`` trains on what comes out.

Axes: M messages, L tokens of the longest, N = sum of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from maporl_core.learning.estimators.base import Credit, CreditInputs, Estimator
from maporl_core.learning.keys import MessageKey
from maporl_core.learning.methods.base import Method
from maporl_core.learning.padding import length_mask, to_flat, to_padded
from maporl_core.learning.ranks import Ranks

WHITEN_FLOOR = 1e-6  # spread, relative to max(1, largest advantage), that counts as no spread


@dataclass(frozen=True, slots=True)
class Earned:
    """What the trained messages of one base bring to the update's credit (CPU)."""

    token_rewards_N: Tensor
    values_N: Tensor | None
    lengths_M: Tensor
    rewards_M: Tensor
    keys: tuple[MessageKey, ...]


@dataclass(frozen=True, slots=True)
class TokenCredit:
    """Advantages and returns of the tokens of one base; no returns without values."""

    advantages_N: Tensor
    returns_N: Tensor | None


def form_credit(
    parts: Sequence[Earned], method: Method, state: Mapping[str, float], ranks: Ranks
) -> tuple[list[TokenCredit], Mapping[str, float]]:
    """Credit of each part, and the estimator's state after this update."""
    gathered = ranks.gather(tuple(parts))
    everything = [part for of_rank in gathered for part in of_rank]
    if not everything:
        return [], state
    lengths_M = torch.cat([part.lengths_M for part in everything])
    values = [part.values_N for part in everything if part.values_N is not None]
    keys = [key for part in everything for key in part.keys]
    inputs = CreditInputs(
        token_rewards_ML=to_padded(
            torch.cat([part.token_rewards_N for part in everything]), lengths_M
        ),
        lengths_M=lengths_M,
        rewards_M=torch.cat([part.rewards_M for part in everything]),
        keys=keys,
        groups=[method.group(key) for key in keys],
        values_ML=to_padded(torch.cat(values), lengths_M) if values else None,
    )
    credit = estimate(inputs, method.estimator, state)
    first = sum(
        len(part.token_rewards_N) for of_rank in gathered[: ranks.index] for part in of_rank
    )
    return _split(credit, lengths_M, first, parts), credit.state


def _split(
    credit: Credit, lengths_M: Tensor, first: int, parts: Sequence[Earned]
) -> list[TokenCredit]:
    """The tokens of ``parts``, which begin at token ``first`` of the whole update."""
    advantages_N = to_flat(credit.advantages_ML, lengths_M)
    returns_N = None if credit.returns_ML is None else to_flat(credit.returns_ML, lengths_M)
    found = []
    for part in parts:
        own = slice(first, first + len(part.token_rewards_N))
        found.append(TokenCredit(advantages_N[own], None if returns_N is None else returns_N[own]))
        first = own.stop
    return found


def estimate(inputs: CreditInputs, estimator: Estimator, state: Mapping[str, float]) -> Credit:
    """What the estimator says, its advantages whitened per policy unless they are normalised.

    Whitening runs over all tokens of a policy in the update, so this is called once per update, not
    per base or micro-batch.  Returns are left as the estimator made them.
    """
    credit = estimator(inputs, state)
    if credit.normalised:
        return credit
    mask_ML = length_mask(inputs.lengths_M, inputs.token_rewards_ML.shape[1])
    whitened_ML = torch.zeros_like(credit.advantages_ML)
    for policy in dict.fromkeys(key.policy for key in inputs.keys):
        own_M = torch.tensor([key.policy == policy for key in inputs.keys], device=mask_ML.device)
        whitened_ML = whitened_ML + whiten(credit.advantages_ML, mask_ML & own_M[:, None])
    return replace(credit, advantages_ML=whitened_ML)


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
