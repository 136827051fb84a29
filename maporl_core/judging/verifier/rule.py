"""The rule verifier: v(t, a) = c(t, a), for tasks with gold answers.

In: graded messages.  Out: 1.0 for a right answer, 0.0 for a wrong one or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from maporl_core.judging.verifier.base import known_verdict
from maporl_core.types import Message, Problem


class RuleVerifier:
    def score(
        self, problems: Sequence[Problem], messages: Sequence[Message], seeds: Sequence[int]
    ) -> list[float]:
        """1.0 or 0.0 per message; seeds are not used.  Raises DataError without a verdict."""
        return [
            float(known_verdict(problem, message, "rule") and message.answer is not None)
            for problem, message, _ in zip(problems, messages, seeds, strict=True)
        ]
