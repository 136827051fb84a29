"""The learned verifier: v(t, a) is what an adapter and score head make of (question, message).

In: a base that holds the verifier as one of its policies, the temperature that calibrates it.  Out:
scores in [0, 1].  Neighbours: ``fitting`` loads one from a folder; whoever composes a run puts
the verifier's policy beside those of the agents, so that they share one frozen base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maporl_core.judging.verifier.calibration import sigmoid
from maporl_core.judging.verifier.head import all_logits, encode
from maporl_core.models.policy import Base
from maporl_core.types import Judged

POLICY = "(verifier)"
"""Name of the verifier's policy on its base; no agent or policy of a config can have it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Logits before calibration [M], and how many rows were cut to the length limit."""

    logits: NDArray[np.float64]
    cut: int


class LearnedVerifier:
    """Scores messages on the base that it shares with the agents."""

    needs_gold = False

    def __init__(
        self,
        base: Base,
        *,
        temperature: float,
        max_length: int,
        micro_tokens: int = 16_384,
        policy: str = POLICY,
    ) -> None:
        """``policy`` lives on ``base``; ``temperature`` > 0 divides logits; lengths in tokens."""
        self.base, self.policy = base, policy
        self.temperature = temperature
        self.max_length = min(max_length, base.context)
        self.micro_tokens = micro_tokens

    def logits(self, pairs: Sequence[tuple[str, str]]) -> Scored:
        """Logits of (question, answer) pairs, in order; equal pairs are read once."""
        places: dict[tuple[str, str], int] = {}
        for question, answer in pairs:
            places.setdefault((question, answer.strip()), len(places))
        encoded = [
            encode(self.base.codec, question, answer, self.max_length)
            for question, answer in places
        ]
        found = all_logits(self.base, self.policy, [ids for ids, _ in encoded], self.micro_tokens)
        chosen = [places[question, answer.strip()] for question, answer in pairs]
        return Scored(
            np.array([found[place] for place in chosen], np.float64),
            sum(encoded[place][1] for place in chosen),
        )

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """σ(logit / temperature) of each pair, in order."""
        return [float(p) for p in sigmoid(self.logits(pairs).logits / self.temperature)]

    @property
    def settings(self) -> Mapping[str, object]:
        return {
            "kind": "learned",
            "base": self.base.name,
            "temperature": self.temperature,
            "max_length": self.max_length,
        }

    def score(self, items: Sequence[Judged]) -> list[float]:
        """v(t, a) of each message, all in one pass; seeds are not used.

        Exactly 0 without a parsable answer.  The verdict is never looked at, so problems need no
        gold answer.
        """
        pairs = [
            (item.problem.question, item.message.text)
            for item in items
            if item.message.answer is not None
        ]
        scores = iter(self.probabilities(pairs))
        return [0.0 if item.message.answer is None else next(scores) for item in items]
