"""Log-probabilities of given tokens, without ever holding all logits of a large vocabulary.

In: hidden states [N, H] and the function that makes logits of them.  Out: [N] log-probabilities and
entropies of softmax(logits / temperature).  Neighbour: ``update``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_LOGITS = 1 << 26
"""Logits held at once (268 MB in fp32); above it, chunks are recomputed in the backward."""


def token_logprobs(
    logits_of: Callable[[Tensor], Tensor],
    hidden: Tensor,
    targets: Tensor,
    temperature: float,
    *,
    with_entropy: bool = False,
    max_logits: int = MAX_LOGITS,
) -> tuple[Tensor, Tensor | None]:
    """log π(target) in nats, shape [N], and the entropy of each distribution, [N], if asked for."""
    count = len(targets)
    if count == 0:
        empty = hidden.new_zeros(0, dtype=torch.float32)
        return empty, empty if with_entropy else None

    def piece(part: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits_of(part) / temperature
        total = torch.logsumexp(logits, dim=-1)
        chosen = logits.gather(-1, wanted[:, None]).squeeze(-1) - total
        if not with_entropy:
            return chosen, chosen
        # H = log Z − Σ p·z; 0·(−inf) of a masked token counts as 0.
        weighted = torch.softmax(logits, dim=-1) * logits.clamp_min(torch.finfo(logits.dtype).min)
        return chosen, total - weighted.sum(-1)

    vocabulary = int(logits_of(hidden[:1].detach()).shape[-1])
    rows = max(1, max_logits // vocabulary)
    if count <= rows:
        chosen, entropy = piece(hidden, targets)
        return chosen, entropy if with_entropy else None
    pieces = []
    for start in range(0, count, rows):
        part, wanted = hidden[start : start + rows], targets[start : start + rows]
        if torch.is_grad_enabled():
            pieces.append(checkpoint(piece, part, wanted, use_reentrant=False))
        else:
            pieces.append(piece(part, wanted))
    chosen = torch.cat([p[0] for p in pieces])
    return chosen, torch.cat([p[1] for p in pieces]) if with_entropy else None
