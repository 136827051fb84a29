"""From logits to tokens: inverse-CDF sampling with one uniform number per row and step.

In: logits [B, V] and uniforms [B].  Out: tokens [B] and the log-probabilities of the distribution
they were drawn from.  A row's token depends on its own logits and its own seed only.
Neighbour: ``in_process`` calls it at every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_BLOCK = 128
"""Vocabulary entries whose weights are summed together before the running sum in fp64.

A running sum over 150,000 fp64 numbers per row is most of a step on a small model; over
blocks, and then inside the one block that holds the token, the result is the same.
"""

_KEY_BITS = (1 << 128) - 1


def uniforms(seeds: Sequence[int], steps: int) -> Tensor:
    """Numbers in [0, 1), [B, steps] in fp64: row b is Philox's stream with key ``seeds[b]``."""
    draws = np.empty((len(seeds), steps))
    for row, seed in enumerate(seeds):
        generator = np.random.Generator(np.random.Philox(key=seed & _KEY_BITS))
        generator.random(out=draws[row])
    return torch.from_numpy(draws)


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest tokens [B] and their log-probabilities [B] under softmax(logits)."""
    best, tokens = logits.max(-1)
    return tokens, best - logits.logsumexp(-1)


def sample(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Tokens [B] drawn from softmax(logits / temperature), and their log-probabilities [B].

    Row b takes the first token whose cumulative probability exceeds ``uniform[b]`` (fp64, in
    [0, 1)), in the order of the vocabulary; a token of probability 0 is never taken.
    """
    rows, vocabulary = logits.shape
    scaled = (logits - logits.amax(-1, keepdim=True)).div_(temperature)
    weights = scaled.new_zeros(rows, -(-vocabulary // _BLOCK) * _BLOCK)
    torch.exp(scaled, out=weights[:, :vocabulary])
    blocks = weights.view(rows, -1, _BLOCK)
    upto = blocks.sum(-1).double().cumsum(-1)  # [B, blocks]
    total = upto[:, -1:]
    target = uniform.unsqueeze(-1) * total
    block = torch.searchsorted(upto, target, right=True).clamp_max_(upto.shape[1] - 1)
    before = torch.where(block > 0, upto.gather(1, (block - 1).clamp_min(0)), 0.0)
    every = torch.arange(rows, device=logits.device)
    inner = blocks[every, block[:, 0]].double().cumsum(-1)  # [B, _BLOCK]
    inside = torch.searchsorted(inner, target - before, right=True)
    # The block's fp32 sum may be a rounding above its fp64 one: stay on its last real token.
    inside = torch.minimum(inside, torch.searchsorted(inner, inner[:, -1:].contiguous()))
    # Only logits that are not numbers lead beyond the vocabulary; their log-probability says so.
    tokens = (block * _BLOCK + inside).clamp_max_(vocabulary - 1)  # [B, 1]
    logprobs = scaled.gather(1, tokens).double() - total.log()
    return tokens[:, 0], logprobs[:, 0]
