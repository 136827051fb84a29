"""Stored evaluations and how each of their questions went.

In: a read connection.  Out: records.  Neighbours: ``reader`` holds the connection,
``writer.write_evaluation`` writes the rows; comparing two evaluations pairs these outcomes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from maporl_core.store.records import Evaluation, QuestionOutcome
from maporl_core.store.values import get_flag, get_optional_number, get_optional_text, get_text
from maporl_core.types import EvalSummary, Interval

_Cell = tuple[bool | None, str | None, float | None]
"""Verdict, answer and score of a message."""


def read_evaluations(connection: sqlite3.Connection) -> tuple[Evaluation, ...]:
    """All evaluations, oldest first."""
    rows = connection.execute(
        "SELECT id, step, origin, created, summary FROM evaluations ORDER BY id"
    )
    return tuple(
        Evaluation(key, step, origin, created, _summary(json.loads(summary)))
        for key, step, origin, created, summary in rows
    )


def read_outcomes(connection: sqlite3.Connection, evaluation: int) -> tuple[QuestionOutcome, ...]:
    """Every question of one evaluation, in the order they were asked; empty when unknown."""
    questions: dict[int, str] = {}
    cells: dict[int, list[dict[int, _Cell]]] = {}
    for key, turns, problem_id in connection.execute(
        "SELECT d.id, d.turns, p.problem_id FROM discussions d "
        "JOIN problems p ON p.id = d.problem WHERE d.evaluation = ? ORDER BY d.id",
        (evaluation,),
    ):
        questions[key] = get_text(problem_id)
        cells[key] = [{} for _ in range(turns)]
    for key, turn, agent, correct, answer, score in connection.execute(
        "SELECT m.discussion, m.turn, m.agent, m.correct, m.answer, m.score FROM discussions d "
        "JOIN messages m ON m.discussion = d.id WHERE d.evaluation = ? AND m.chosen "
        "ORDER BY m.discussion, m.turn, m.agent",
        (evaluation,),
    ):
        cells[key][turn][agent] = (
            get_flag(correct),
            get_optional_text(answer),
            get_optional_number(score),
        )
    return tuple(_outcome(problem_id, key, cells[key]) for key, problem_id in questions.items())


def _outcome(
    problem_id: str, discussion: int, spoken: Sequence[Mapping[int, _Cell]]
) -> QuestionOutcome:
    """``spoken``: per turn, what each agent that spoke in it gave."""
    stood: dict[int, _Cell] = {}
    rows = []
    for turn in spoken:
        stood |= turn
        rows.append([stood[agent] for agent in sorted(stood)])
    return QuestionOutcome(
        problem_id=problem_id,
        discussion=discussion,
        correct_TA=tuple(tuple(cell[0] for cell in row) for row in rows),
        answer_TA=tuple(tuple(cell[1] for cell in row) for row in rows),
        score_TA=tuple(tuple(cell[2] for cell in row) for row in rows),
    )


def _summary(facts: dict[str, Any]) -> EvalSummary:
    """An EvalSummary from the JSON that ``dataclasses.asdict`` gave."""
    return EvalSummary(
        **{
            **facts,
            "agents": tuple(facts["agents"]),
            "accuracy_T": _intervals(facts["accuracy_T"]),
            "accuracy_TA": tuple(map(tuple, facts["accuracy_TA"])),
            "majority_T": _intervals(facts["majority_T"]),
            "oracle_T": tuple(facts["oracle_T"]),
            "agreement_T": tuple(facts["agreement_T"]),
        }
    )


def _intervals(values: Sequence[dict[str, float]]) -> tuple[Interval, ...]:
    return tuple(Interval(**value) for value in values)
