"""What became of a discussion, as the flags that the store can be filtered by.

In: a ``Discussion``.  Out: an ``Outcome``.  Neighbours: ``rows`` stores it.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from maporl_core.types import Discussion, Message

SCORE_THRESHOLD = 0.5  # without a gold answer a message counts as right from this score on


@dataclass(frozen=True, slots=True)
class Outcome:
    """``first_right`` and ``final_right`` count right agents; None where nothing tells them.

    corrected: some agent went wrong → right from one of its messages to the next.  broke: some
    agent went right → wrong.  persuaded: some agent changed to the verdict that the majority of the
    *other* agents had when it spoke (either way; a tie is no majority).  all_wrong, all_right: in
    the last turn, in which ``final_said`` agents spoke.
    """

    first_right: int | None = None
    final_right: int | None = None
    final_said: int | None = None
    corrected: bool = False
    broke: bool = False
    persuaded: bool = False
    all_wrong: bool = False
    all_right: bool = False


def outcome(discussion: Discussion) -> Outcome:
    """Flags of one discussion; all off where some answer has neither verdict nor score.

    A message of another phase than "answer" counts where something tells whether it is right.
    """
    rights = [
        {m.agent: right for m in discussion.said(turn) if (right := _right(m)) is not None}
        for turn in range(discussion.turns)
    ]
    answers = (m for turn in range(discussion.turns) for m in discussion.said(turn))
    if any(m.phase == "answer" and _right(m) is None for m in answers) or not any(rights):
        return Outcome()
    corrected = broke = persuaded = False
    latest: dict[int, bool] = {}
    for row in rights:
        for agent, after in row.items():
            if latest.get(agent, after) == after:
                continue
            corrected = corrected or after
            broke = broke or not after
            others = [right for other, right in latest.items() if other != agent]
            persuaded = persuaded or 2 * others.count(after) > len(others)
        latest |= row
    final = [*rights[-1].values()]
    return Outcome(
        first_right=sum(rights[0].values()) if rights[0] else None,
        final_right=sum(final) if final else None,
        final_said=len(final),
        corrected=corrected,
        broke=broke,
        persuaded=persuaded,
        all_wrong=bool(final) and not any(final),
        all_right=bool(final) and all(final),
    )


def _right(message: Message) -> bool | None:
    if message.correct is not None or message.score is None:
        return message.correct
    return message.score >= SCORE_THRESHOLD
