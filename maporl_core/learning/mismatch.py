"""The sampler against the trainer: what each sampled token's loss is worth, and what is left out.

In: log-probabilities of the sampled tokens by the trainer, before the update, and by the sampler.
Out: a ``Correction``: weights, detached, and the tokens that are trained at all.  Neighbours:
``measure`` has the numbers, ``base_update`` weighs losses by them, ``update_metrics`` tells.

Tokens that an engine drew by slightly other numbers than the trainer's are from another policy; the
ratio of both is their importance weight, cut at ``cap`` so that no token is worth more than that.
A message with a token that the trainer holds for all but impossible is no evidence of anything.

Axes: N tokens, M messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from maporl_core.config.schema import RunConfig

How = Literal["none", "token", "sequence"]


@dataclass(frozen=True, slots=True)
class Correction:
    """All on the CPU.  ``weights_N`` are those of the kept tokens too, 0 where ``kept_N`` is not.

    ``capped_N``: the weight was cut at the cap.  ``left_out_M``: messages that are not trained.
    """

    weights_N: Tensor
    kept_N: Tensor
    capped_N: Tensor
    left_out_M: Tensor


def correction_of(
    config: RunConfig, base: str, old_N: Tensor, sampler_N: Tensor, message_N: Tensor
) -> Correction | None:
    """How a run corrects the tokens of one of its bases; None where it does not."""
    update = config.update
    how = _how(config, base)
    if how == "none":
        return None
    return correct(how, old_N, sampler_N, message_N, update.mismatch_cap, update.mismatch_floor)


def correct(
    how: How,
    old_N: Tensor,
    sampler_N: Tensor,
    message_N: Tensor,
    cap: float = 2.0,
    floor: float = 1e-4,
) -> Correction:
    """min(π_train / π_sampler, ``cap``) per token, or of a whole message for each of its tokens.

    A message with a token of a ratio below ``floor`` is left out.
    """
    gap_N = old_N.double() - sampler_N.double()
    messages = int(message_N.max()) + 1 if message_N.numel() else 0
    impossible_N = gap_N < math.log(floor) if floor > 0 else torch.zeros_like(gap_N).bool()
    left_out_M = torch.zeros(messages, dtype=torch.bool)
    left_out_M[message_N[impossible_N]] = True
    if how == "sequence":
        gap_N = torch.zeros(messages, dtype=torch.double).index_add(0, message_N, gap_N)[message_N]
    ratio_N, kept_N = gap_N.exp(), ~left_out_M[message_N]
    weights_N = ratio_N.clamp(max=cap).float() * kept_N
    return Correction(weights_N, kept_N, ratio_N > cap, left_out_M)


def correction_facts(correction: Correction, mine_N: Tensor, mine_M: Tensor) -> dict[str, float]:
    """What is told of one policy's tokens and messages."""
    kept_N = mine_N & correction.kept_N
    tokens = max(int(kept_N.sum()), 1)
    return {
        "mismatch_weight_mean": float(correction.weights_N[kept_N].double().sum()) / tokens,
        "mismatch_weight_capped": float(correction.capped_N[kept_N].sum()) / tokens,
        "mismatch_left_out": float(correction.left_out_M[mine_M].sum()),
    }


def _how(config: RunConfig, base: str) -> How:
    """ "auto": token by token, but for an engine that samples by the trainer's own weights."""
    how = config.update.mismatch_correct
    if how != "auto":
        return how
    return "none" if config.engine_of(base).kind in ("auto", "in_process") else "token"
