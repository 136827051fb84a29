"""A debate as a person reads it: messages with verdicts, what changed, how the answers converge.

In: a ``StoredDiscussion`` or a ``LiveDiscussion`` of the store.  Out: a ``Debate`` of ``Said``
messages, the same for both, so that a debate that is being written is drawn like one of the past.
Pure: no screen, no store.  Neighbours: ``widgets.message_pane`` draws one ``Said``, the Debate and
Compare screens draw many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from maporl_core.store.reader import (
    Evaluation,
    LiveDiscussion,
    LiveMessage,
    MessageReward,
    StoredDiscussion,
)
from maporl_core.store.records import last_before
from maporl_core.types import Discussion, Finish, Message
from maporl_tui.drawing.text import one_line

_PHASE = next(one.default for one in fields(Message) if one.name == "phase")
"""What a message is asked for where the topology does not say."""

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
    chosen: bool = True
    number: str = ""
    phase: str = ""

    @property
    def title(self) -> str:
        """ "Ada · turn 2", with what tells it from other candidates and phases."""
        phase = f" · {one_line(self.phase, 20)}" if self.phase else ""
        return f"{one_line(self.name, 30)}{self.number} · turn {self.turn + 1}{phase}"

    @property
    def is_over(self) -> bool:
        """Whether the whole message is there."""
        return self.status not in ("waiting", "writing")

    @property
    def mark(self) -> str:
        """✓, ✗, ?, or … before its verdict."""
        return MARKS[self.correct] if self.is_over else "…"


Column = tuple[int, int]
"""(agent, branch): who speaks in a column of a debate, and which of its candidates stand there."""
Cell = tuple[int, int]
"""(turn, column), both from 0."""


@dataclass(frozen=True, slots=True)
class Debate:
    """One discussion to show.

    ``rows_TC``: per turn one message for each of ``columns``, None where nobody spoke; every agent
    has a column, and one more for each further candidate.  ``key`` is its id in the store, None
    while it is being written; ``version`` then tells one watched discussion from another.
    ``label`` says which evaluation it is of, ``sample`` which of several on the same problem
    (from 1; None where there is one).
    """

    key: int | None
    step: int
    split: str
    problem_id: str
    question: str
    gold: str | None
    agents: tuple[str, ...]
    columns: tuple[Column, ...]
    rows_TC: tuple[tuple[Said | None, ...], ...]
    label: str | None = None
    stopped_early: bool = False
    version: int | None = None
    sample: int | None = None

    @property
    def turns(self) -> int:
        return len(self.rows_TC)

    def said(self, turn: int, column: int) -> Said | None:
        """One message; None where there is none."""
        if 0 <= turn < self.turns and 0 <= column < len(self.columns):
            return self.rows_TC[turn][column]
        return None

    def row(self, turn: int) -> tuple[Said, ...]:
        """All messages of a turn, column by column."""
        return tuple(said for said in self.rows_TC[turn] if said is not None)

    def everything(self) -> tuple[Said, ...]:
        """All messages, turn by turn."""
        return tuple(said for turn in range(self.turns) for said in self.row(turn))

    def cell(self, turn: int, agent: int, branch: int = 0) -> Cell:
        """Where a message stands, or the nearest that there is."""
        wanted = (agent, branch)
        column = self.columns.index(wanted) if wanted in self.columns else agent
        return self.nearest((turn, column))

    def cell_of(self, said: Said) -> Cell:
        return self.cell(said.turn, said.agent, said.branch)

    def nearest(self, cell: Cell) -> Cell:
        """This cell, or that of the message which is nearest to it."""
        if self.said(*cell) is not None:
            return cell
        known = [
            (turn, column)
            for turn, row in enumerate(self.rows_TC)
            for column, said in enumerate(row)
            if said is not None
        ]
        far = [(abs(t - cell[0]), abs(c - cell[1]), (t, c)) for t, c in known]
        return min(far)[2] if far else (0, 0)

    def beside(self, cell: Cell, down: int, right: int) -> Cell:
        """The next message in a direction, over cells where nobody spoke; the same at the end."""
        turn, column = cell[0] + down, cell[1] + right
        while 0 <= turn < self.turns and 0 <= column < len(self.columns):
            if self.said(turn, column) is not None:
                return turn, column
            turn, column = turn + down, column + right
        return cell

    def column_name(self, column: int) -> str:
        """The agent of a column, with the number of its candidate where there are several."""
        agent, branch = self.columns[column]
        several = sum(one == agent for one, _ in self.columns) > 1
        return f"{one_line(self.agents[agent], 24)}{f'/{branch + 1}' if several else ''}"


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


def columns_of(agents: int, spoken: Iterable[Column]) -> tuple[Column, ...]:
    """A column for every agent, and for each further candidate of one."""
    return tuple(sorted({*((agent, 0) for agent in range(agents)), *spoken}))


def stored_debate(
    stored: StoredDiscussion, evaluations: Sequence[Evaluation] = (), samples: int = 1
) -> Debate:
    """A stored discussion; ``evaluations`` of the run give the label of a held-out one.

    ``samples``: how many discussions of one problem the run holds in a step.
    """
    row, held = stored.row, stored.discussion
    every = held.everything()
    columns = columns_of(len(held.agents), ((m.agent, m.branch) for m in every))
    phases = phases_of([message.phase for message in every])
    said = {
        (m.turn, m.agent, m.branch): replace(
            said_of(held.agents[m.agent], m, stored.reward(m), last_before(held, m)),
            number=_number(held, m),
            phase=m.phase if phases else "",
        )
        for m in every
    }
    return Debate(
        key=row.id,
        step=row.step,
        split=row.split,
        problem_id=row.problem_id,
        question=held.problem.question,
        gold=held.problem.gold,
        agents=held.agents,
        columns=columns,
        rows_TC=tuple(
            tuple(said.get((turn, *column)) for column in columns) for turn in range(held.turns)
        ),
        label=evaluation_label(row.evaluation, evaluations),
        stopped_early=row.stopped_early,
        sample=held.sample + 1 if held.sample or (samples > 1 and row.split == "train") else None,
    )


def phases_of(phases: Sequence[str]) -> bool:
    """Whether phases are worth a word: they differ, or are not what every message is asked for."""
    return bool({*phases} - {_PHASE})


def _number(held: Discussion, message: Message) -> str:
    several = sum(one.agent == message.agent for one in held.messages[message.turn]) > 1
    return f"/{message.branch + 1}{' ★' if message.chosen else ''}" if several else ""


def said_of(
    name: str, message: Message, reward: MessageReward | None, before: Message | None
) -> Said:
    """A finished message of agent ``name``; ``before`` is what it had said before."""
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
        branch=message.branch,
        chosen=message.chosen,
    )


def live_debate(live: LiveDiscussion) -> Debate:
    """The watched discussion as far as it is written; what may still be said is waiting."""
    known = {(m.turn, m.agent, m.branch): m for m in live.messages}
    last = max((message.turn for message in live.messages), default=0)
    turns = max(live.turns, last + 1)
    columns = columns_of(len(live.agents), ((m.agent, m.branch) for m in live.messages))
    phases = phases_of([message.phase for message in live.messages])
    rows = tuple(
        tuple(_live_said(live, (turn, *column), known, turn < last, phases) for column in columns)
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
        columns=columns,
        rows_TC=rows,
        version=live.version,
    )


def _live_said(
    live: LiveDiscussion,
    spot: tuple[int, int, int],
    known: Mapping[tuple[int, int, int], LiveMessage],
    is_past: bool,
    phases: bool,
) -> Said | None:
    turn, agent, branch = spot
    name, message = live.agents[agent], known.get(spot)
    earlier = (known.get((t, agent, 0)) for t in range(turn - 1, -1, -1))
    before = next((one for one in earlier if one is not None), None)
    if message is None:  # in turns that are over, and of candidates, nothing more is to come
        return None if is_past or branch else Said(name, turn, agent, status="waiting")
    judged = message.status in ("done", "scored")
    several = any((turn, agent, other) in known for other in (1, branch) if other)
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
        branch=branch,
        number=f"/{branch + 1}" if several else "",
        phase=message.phase if phases else "",
    )


def evaluation_label(key: int | None, evaluations: Sequence[Evaluation]) -> str | None:
    """ "after (trained)"; None for a training discussion, its number where it is not known."""
    if key is None:
        return None
    for evaluation in evaluations:
        if evaluation.id == key:
            return f"{evaluation.summary.label} ({evaluation.summary.policy_state})"
    return f"evaluation {key}"


def writing_cell(debate: Debate) -> Cell | None:
    """Where the first message stands that is being written; None when none is."""
    for said in debate.everything():
        if said.status == "writing":
            return debate.cell_of(said)
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
    chosen = [[said for said in debate.row(t) if said.chosen] for t in range(debate.turns)]
    return tuple(_turn_answers(turn, row) for turn, row in enumerate(chosen))


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
