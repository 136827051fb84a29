"""Leaf helper: tokens of messages, flat or right-padded, and the mask that lengths make.

Axes: M messages, L tokens of the longest message, N = sum of lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor


def length_mask(lengths_M: Tensor, width: int) -> Tensor:
    """Bool [M, width]: True on the first ``lengths_M[m]`` places of row m."""
    return torch.arange(width, device=lengths_M.device)[None, :] < lengths_M[:, None]


def to_padded(flat_N: Tensor, lengths_M: Tensor) -> Tensor:
    """Flat tokens, message after message, to right-padded rows [M, L]; padding is 0."""
    width = int(lengths_M.max()) if lengths_M.numel() else 0
    padded_ML = flat_N.new_zeros((lengths_M.numel(), width))
    padded_ML[length_mask(lengths_M, width)] = flat_N
    return padded_ML


def to_flat(padded_ML: Tensor, lengths_M: Tensor) -> Tensor:
    """The inverse of ``to_padded``: [N], padding left out."""
    return padded_ML[length_mask(lengths_M, padded_ML.shape[1])]


def full(x: Tensor) -> Tensor:
    """At least float32, so that half precision is summed in full."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
