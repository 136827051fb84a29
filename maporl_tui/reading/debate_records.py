"""A debate as a person reads it: messages with verdicts, what changed, how the answers converge.

In: a ``StoredDiscussion`` or a ``LiveDiscussion`` of the store.  Out: a ``Debate`` of ``Said``
messages, the same for both, so that a debate that is being written is drawn like one of the past.
Pure: no screen, no store.  Neighbours: ``widgets.message_pane`` draws one ``Said``, the Debate and
Compare screens draw many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maporl_core.store.reader import (
    Evaluation,
    LiveDiscussion,
    LiveMessage,
    MessageReward,
    StoredDiscussion,
)
from maporl_core.types import Finish, Message

Status = Literal["waiting", "writing", "done", "scored", "stored"]
Change = Literal["wrong→right", "right→wrong", "changed answer", "same answer"]

MARKS = {True: "✓", False: "✗", None: "?"}
"""Right, wrong, unknown: what is said by colour is said by these too."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message as far as it is known; ``turn`` and ``agent`` count from 0.

    ``change`` is against the same agent's message a turn earlier, None in the first turn and while
    it cannot be known.  ``reward`` is the total.  ``finish`` is None while it is being written (and
    for one that only the live rows hold).  ``dropped``: prompt tokens that did not fit.
    """

    name: str
    turn: int
    agent: int
    text: str = ""
    answer: str | None = None
    correct: bool | None = None
    score: float | None = None
    change: Change | None = None
    reward: float | None = None
    finish: Finish | None = None
    dropped: int = 0
    status: Status = "stored"
    branch: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the whole message is there."""
        return self.status not in ("waiting", "writing")

    @property
    def mark(self) -> str:
        """✓, ✗, ?, or … before its verdict."""
        return MARKS[self.correct] if self.is_over else "…"


@dataclass(frozen=True, slots=True)
class Debate:
    """One discussion to show; ``rows_TA`` is turns × agents.

    ``key`` is its id in the store, None while it is being written; ``version`` then tells one
    watched discussion from another.  ``label`` says which evaluation it is of.
    """

    key: int | None
    step: int
    split: str
    problem_id: str
    question: str
    gold: str | None
    agents: tuple[str, ...]
    rows_TA: tuple[tuple[Said, ...], ...]
    label: str | None = None
    stopped_early: bool = False
    version: int | None = None

    @property
    def turns(self) -> int:
        return len(self.rows_TA)

    def said(self, turn: int, agent: int) -> Said | None:
        """One message; None where there is none."""
        if 0 <= turn < self.turns and 0 <= agent < len(self.agents):
            return self.rows_TA[turn][agent]
        return None


def change_of(before: Message | LiveMessage | Said, after: Message | LiveMessage | Said) -> Change:
    """What became of an agent's answer from one turn to the next.

    Two right answers are the same answer however they are written; others are compared as text.
    """
    if before.correct is False and after.correct:
        return "wrong→right"
    if before.correct and after.correct is False:
        return "right→wrong"
    if (before.correct and after.correct) or _plain(before.answer) == _plain(after.answer):
        return "same answer"
    return "changed answer"


def stored_debate(stored: StoredDiscussion, evaluations: Sequence[Evaluation] = ()) -> Debate:
    """A stored discussion; ``evaluations`` of the run give the label of a held-out one."""
    row, held = stored.row, stored.discussion
    rows = []
    for turn, messages in enumerate(held.messages):
        rewards = [stored.reward(message) for message in messages]
        earlier = held.messages[turn - 1] if turn else (None,) * len(messages)
        rows.append(
            tuple(
                said_of(held.agents[agent], message, reward, before)
                for agent, (message, reward, before) in enumerate(
                    zip(messages, rewards, earlier, strict=True)
                )
            )
        )
    return Debate(
        key=row.id,
        step=row.step,
        split=row.split,
        problem_id=row.problem_id,
        question=held.problem.question,
        gold=held.problem.gold,
        agents=held.agents,
        rows_TA=tuple(rows),
        label=evaluation_label(row.evaluation, evaluations),
        stopped_early=row.stopped_early,
    )


def said_of(
    name: str, message: Message, reward: MessageReward | None, before: Message | None
) -> Said:
    """A finished message of agent ``name``; ``before`` is its message a turn earlier."""
    return Said(
        name=name,
        turn=message.turn,
        agent=message.agent,
        text=message.text,
        answer=message.answer,
        correct=message.correct,
        score=message.score,
        change=None if before is None else change_of(before, message),
        reward=None if reward is None else reward.pay.total,
        finish=message.finish,
        dropped=message.dropped_context,
    )


def live_debate(live: LiveDiscussion) -> Debate:
    """The watched discussion as far as it is written; what nobody has said yet is waiting."""
    known = {(message.turn, message.agent): message for message in live.messages}
    turns = max([live.turns, *(message.turn + 1 for message in live.messages)])
    rows = tuple(
        tuple(_live_said(name, turn, agent, known) for agent, name in enumerate(live.agents))
        for turn in range(turns)
    )
    return Debate(
        key=live.discussion,
        step=live.step,
        split=live.split,
        problem_id=live.problem_id,
        question=live.question,
        gold=live.gold,
        agents=live.agents,
        rows_TA=rows,
        version=live.version,
    )


def _live_said(name: str, turn: int, agent: int, known: dict[tuple[int, int], LiveMessage]) -> Said:
    message, before = known.get((turn, agent)), known.get((turn - 1, agent))
    if message is None:
        return Said(name, turn, agent, status="waiting")
    judged = message.status in ("done", "scored")
    return Said(
        name=name,
        turn=turn,
        agent=agent,
        text=message.text,
        answer=message.answer,
        correct=message.correct,
        score=message.score,
        change=change_of(before, message) if judged and before is not None else None,
        reward=message.reward,
        status=message.status,
    )


def evaluation_label(key: int | None, evaluations: Sequence[Evaluation]) -> str | None:
    """ "after (trained)"; None for a training discussion, its number where it is not known."""
    if key is None:
        return None
    for evaluation in evaluations:
        if evaluation.id == key:
            return f"{evaluation.summary.label} ({evaluation.summary.policy_state})"
    return f"evaluation {key}"


def writing_place(debate: Debate) -> tuple[int, int] | None:
    """(turn, agent) of the first message that is being written; None when none is."""
    for row in debate.rows_TA:
        for said in row:
            if said.status == "writing":
                return said.turn, said.agent
    return None


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
    return tuple(_turn_answers(turn, row) for turn, row in enumerate(debate.rows_TA))


def _turn_answers(turn: int, row: Sequence[Said]) -> TurnAnswers:
    spoken = [said for said in row if said.is_over]
    gathered: dict[object, list[Said]] = {}
    for said in spoken:
        # All right answers are one answer, however they are written.
        kind = True if said.correct and said.answer is not None else _plain(said.answer)
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


def _plain(answer: str | None) -> str | None:
    return None if answer is None else " ".join(answer.casefold().split())
