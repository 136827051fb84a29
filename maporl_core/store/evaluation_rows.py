"""Evaluations to rows, inside a transaction that the caller opened.

In: an open connection and a summary.  Out: rows inserted or deleted.  Neighbours: ``writer`` opens
the transactions; ``rows`` has the discussions; ``evaluations`` is the way back.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from maporl_core.store.rows import delete_discussions
from maporl_core.store.values import put_json, put_text
from maporl_core.types import EvalSummary

_COLUMNS = (
    "step, origin, label, policy_state, task, split, questions, seed, temperature, created, summary"
)


def insert_evaluation(
    connection: sqlite3.Connection, step: int, origin: str, summary: EvalSummary
) -> int:
    """The row of one evaluation; one of the same kind that the run made at this step is replaced.

    Returns its id.
    """
    if origin == "run":
        texts = (summary.label, summary.policy_state, summary.task, summary.split)
        delete_evaluations(
            connection,
            "step = ? AND origin = 'run' AND label = ? AND policy_state = ? AND task = ? "
            "AND split = ?",
            (step, *map(put_text, texts)),
        )
    cursor = connection.execute(
        f"INSERT INTO evaluations({_COLUMNS}) VALUES ({','.join('?' * 11)})",
        (
            step,
            origin,
            put_text(summary.label),
            put_text(summary.policy_state),
            put_text(summary.task),
            put_text(summary.split),
            summary.questions,
            summary.seed,
            summary.temperature,
            time.time(),
            put_json(dataclasses.asdict(summary)),
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def delete_evaluations(connection: sqlite3.Connection, where: str, values: Sequence[Any]) -> int:
    """Remove the evaluations that ``where`` selects with their discussions; returns how many."""
    keys = connection.execute(f"SELECT id FROM evaluations WHERE {where}", values).fetchall()
    for key in keys:
        delete_discussions(connection, "evaluation = ?", key)
        connection.execute("DELETE FROM evaluations WHERE id = ?", key)
    if keys:
        next_generation(connection)
    return len(keys)


def next_generation(connection: sqlite3.Connection) -> None:
    """Tell readers that rows they may have seen are gone, so ids after them are new rows."""
    connection.execute(
        "UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'"
    )
