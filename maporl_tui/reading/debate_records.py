"""What a debate is to its readers: messages with verdicts, columns, and what changed.

Rows are turns and columns are agents with their candidates; where nobody spoke there is a gap.
Pure: no screen, no store.  Neighbours: ``debate_made`` makes them of what is stored or being
written, ``debate_answers`` says how answers converge, the Debate and Compare screens draw them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maporl_core.store.reader import (
    LiveMessage,
)
from maporl_core.types import Finish, Message
from maporl_tui.drawing.text import one_line

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
    if (before.correct and after.correct) or plain_answer(before.answer) == plain_answer(
        after.answer
    ):
        return "same answer"
    return "changed answer"


def writing_cell(debate: Debate) -> Cell | None:
    """Where the first message stands that is being written; None when none is."""
    for said in debate.everything():
        if said.status == "writing":
            return debate.cell_of(said)
    return None


def plain_answer(answer: str | None) -> str | None:
    return None if answer is None else " ".join(answer.casefold().split())
