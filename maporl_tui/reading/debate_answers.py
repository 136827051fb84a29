"""How the answers of a debate come together, turn by turn.

In: a ``Debate``.  Out: groups of agents that gave the same answer.  Pure.  Neighbours:
``debate_records`` says what a debate is; the strip on the Debate screen draws the groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from maporl_tui.reading.debate_records import Debate, Said, plain_answer


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """Agents that gave the same answer in one turn; ``answer`` None: no answer could be read."""

    answer: str | None
    correct: bool | None
    agents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnAnswers:
    """The answers of one turn: groups, the largest first, of those who have spoken.

    ``agreeing`` is the size of the largest group with an answer; ``right`` counts right messages,
    None where none is known to be right or wrong; ``missing`` have not finished yet.
    """

    turn: int
    groups: tuple[AnswerGroup, ...]
    spoken: int
    agreeing: int
    right: int | None
    missing: int


def convergence(debate: Debate) -> tuple[TurnAnswers, ...]:
    """How the answers come together, turn by turn."""
    chosen = [[said for said in debate.row(t) if said.chosen] for t in range(debate.turns)]
    return tuple(_turn_answers(turn, row) for turn, row in enumerate(chosen))


def _turn_answers(turn: int, row: Sequence[Said]) -> TurnAnswers:
    spoken = [said for said in row if said.is_over]
    gathered: dict[object, list[Said]] = {}
    for said in spoken:
        # All right answers are one answer, however they are written.
        kind = True if said.correct and said.answer is not None else plain_answer(said.answer)
        gathered.setdefault(kind, []).append(said)
    groups = tuple(
        AnswerGroup(
            answer=Counter(said.answer for said in members).most_common(1)[0][0],
            correct=members[0].correct,
            agents=tuple(said.agent for said in members),
        )
        for members in sorted(
            gathered.values(), key=lambda found: (-len(found), found[0].answer is None)
        )
    )
    known = [said.correct for said in spoken if said.correct is not None]
    return TurnAnswers(
        turn=turn,
        groups=groups,
        spoken=len(spoken),
        agreeing=max((len(g.agents) for g in groups if g.answer is not None), default=0),
        right=sum(known) if known else None,
        missing=len(row) - len(spoken),
    )
