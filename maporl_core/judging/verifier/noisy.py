"""The noisy verifier: a rule verifier that errs as a learned one with a stated AUROC would.

In: graded messages and one seed per message.  Out: scores drawn from Beta(a, b) for right
answers and from its mirror image Beta(b, a) for wrong ones.  a + b is fixed, so that the spread
looks like a learned verifier's; b is solved from the AUROC, the chance that the score of a right
answer is above that of a wrong one.  At an AUROC of 0.95 the means are 0.71 and 0.29 and both
standard deviations are 0.17; at 0.5 both are Beta(3, 3) and the score says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from maporl_core.judging.verifier.base import known_verdict
from maporl_core.kit.seeds import stable_seed
from maporl_core.types import Judged

CONCENTRATION = 6.0  # a + b
_HALF_WIDTH = 16.0  # of the grid over logits; e^(-3 · 16) of either tail's mass is cut off
_GRID = np.linspace(-_HALF_WIDTH, _HALF_WIDTH, 6401)
_SMALLEST_B = 1e-18


def mirrored_auroc(a: float, b: float) -> float:
    """P(X > Y) for X ~ Beta(a, b) and Y ~ Beta(b, a), to about 1e-7; needs a >= b, a >= 3.

    With Y = 1 − X′ this is P(X + X′ > 1), and in logits z = ln(x / (1 − x)) it is P(z + z′ > 0)
    for two draws of the smooth density σ(z)^a σ(−z)^b / B(a, b).  What is summed is the
    complement, P(z + z′ < 0): it needs no values of z above the grid even when b is tiny.
    """
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    log_density = -a * np.logaddexp(0.0, -_GRID) - b * np.logaddexp(0.0, _GRID) - log_beta
    mass = np.exp(log_density) * (_GRID[1] - _GRID[0])
    below = np.cumsum(mass) - 0.5 * mass  # P(z′ < grid point)
    return float(1.0 - np.dot(mass, below[::-1]))


@lru_cache(maxsize=64)
def beta_parameters(auroc: float) -> tuple[float, float]:
    """(a, b) with a + b = CONCENTRATION whose mirrored pair has this AUROC in [0.5, 1)."""
    low, high = math.log(_SMALLEST_B), math.log(CONCENTRATION / 2)
    for _ in range(100):  # bisection on ln b; the AUROC falls from 1 to 0.5 as b grows
        middle = (low + high) / 2
        b = math.exp(middle)
        if mirrored_auroc(CONCENTRATION - b, b) > auroc:
            low = middle
        else:
            high = middle
    b = math.exp(high)
    return CONCENTRATION - b, b


class NoisyVerifier:
    """Draws v(t, a) around c(t, a).

    The draw of a message depends only on its seed, problem id, turn, agent and verdict, so
    batch size and order change nothing.
    """

    needs_gold = True

    def __init__(self, auroc: float) -> None:
        """``auroc`` in [0.5, 1); VerifierConfig checks the range."""
        self.auroc = auroc
        self._a, self._b = beta_parameters(auroc)

    @property
    def settings(self) -> Mapping[str, object]:
        return {"kind": "noisy", "auroc": self.auroc}

    def score(self, items: Sequence[Judged]) -> list[float]:
        """One draw per message; exactly 0 without a parsable answer.  DataError: no verdict."""
        return [self._score(item) for item in items]

    def _score(self, item: Judged) -> float:
        right = known_verdict(item, "noisy")
        message = item.message
        if message.answer is None:
            return 0.0
        entropy = stable_seed(item.seed, ascii(item.problem.id), message.turn, message.agent)
        draw = float(np.random.default_rng(entropy).beta(self._a, self._b))
        return draw if right else 1.0 - draw
