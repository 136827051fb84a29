"""The rule verifier: v(t, a) = c(t, a), for tasks with gold answers.

In: graded messages.  Out: 1.0 for a right answer, 0.0 for a wrong one or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maporl_core.judging.verifier.base import known_verdict
from maporl_core.types import Judged


class RuleVerifier:
    needs_gold = True

    @property
    def settings(self) -> Mapping[str, object]:
        return {"kind": "rule"}

    def score(self, items: Sequence[Judged]) -> list[float]:
        """1.0 or 0.0 per message; seeds are not used.  Raises DataError without a verdict."""
        return [
            float(known_verdict(item, "rule") and item.message.answer is not None) for item in items
        ]
