"""What became of a discussion, as the flags that the store can be filtered by.

In: a ``Discussion``.  Out: an ``Outcome``.  Neighbours: ``rows`` stores it.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from maporl_core.types import Discussion, Message

SCORE_THRESHOLD = 0.5  # without a gold answer a message counts as right from this score on


@dataclass(frozen=True, slots=True)
class Outcome:
    """``first_right`` and ``final_right`` count right agents; None where nothing tells them.

    corrected: some agent went wrong → right from one turn to the next.  broke: some agent went
    right → wrong.  persuaded: some agent changed to the verdict that the majority of the *other*
    agents had a turn earlier (either way; a tie is no majority).  all_wrong, all_right: in the
    last turn.
    """

    first_right: int | None = None
    final_right: int | None = None
    corrected: bool = False
    broke: bool = False
    persuaded: bool = False
    all_wrong: bool = False
    all_right: bool = False


def outcome(discussion: Discussion) -> Outcome:
    """Flags of one discussion; all off where some message has neither verdict nor score."""
    right_TA = [[_right(message) for message in row] for row in discussion.messages]
    if not right_TA or any(right is None for row in right_TA for right in row):
        return Outcome()
    corrected = broke = persuaded = False
    for before_A, after_A in pairwise(right_TA):
        for agent, (before, after) in enumerate(zip(before_A, after_A, strict=True)):
            if before == after:
                continue
            corrected = corrected or bool(after)
            broke = broke or bool(before)
            others = before_A[:agent] + before_A[agent + 1 :]
            agreeing = sum(bool(other) == bool(after) for other in others)
            persuaded = persuaded or 2 * agreeing > len(others)
    final = sum(map(bool, right_TA[-1]))
    return Outcome(
        first_right=sum(map(bool, right_TA[0])),
        final_right=final,
        corrected=corrected,
        broke=broke,
        persuaded=persuaded,
        all_wrong=final == 0,
        all_right=final == len(right_TA[-1]),
    )


def _right(message: Message) -> bool | None:
    if message.correct is not None or message.score is None:
        return message.correct
    return message.score >= SCORE_THRESHOLD
