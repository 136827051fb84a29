"""Muon, the optimiser of the matrices inside layers.

In: matrices and their gradients.  Out: steps.  Neighbour: ``teach``, which leaves embeddings,
output and norms to AdamW.

Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks") moves a matrix
by its momentum with all singular values brought near 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_ROUNDS = 5
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # of x, x³ and x⁵: steep at 0, and 1 lands near 1
_ADAM_LIKE = 0.2  # root mean square of a usual AdamW step at rate 1 (Liu et al. 2025)


class Muon:
    """Momentum steps with near-equal singular values, for parameters [rows, columns].

    A step has a root mean square near 0.2 · rate whatever the shape, so one rate suits AdamW too.
    """

    def __init__(self, matrices: Sequence[nn.Parameter]) -> None:
        self.matrices = tuple(matrices)
        self.momentum = [torch.zeros_like(matrix) for matrix in matrices]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every matrix that has a gradient."""
        for matrix, momentum in zip(self.matrices, self.momentum, strict=True):
            if matrix.grad is None:
                continue
            momentum.lerp_(matrix.grad, 1.0 - _MOMENTUM)
            ahead = matrix.grad.lerp(momentum, _MOMENTUM)  # Nesterov
            scale = _ADAM_LIKE * math.sqrt(max(matrix.shape))
            matrix.add_(near_orthogonal(ahead), alpha=-rate * scale)


def near_orthogonal(matrix: Tensor) -> Tensor:
    """[rows, columns] with the singular vectors of ``matrix`` and singular values near 1."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_ROUNDS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if tall else x
