"""Events, the watched discussion and requests, from rows to records.

In: a read connection.  Out: records.  Neighbours: ``reader`` holds the connection; ``writer``,
``live`` and ``requests`` write the rows.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from maporl_core.store.records import LiveDiscussion, LiveMessage, Request
from maporl_core.store.run_records import Event
from maporl_core.store.values import get_flag, get_optional_number, get_optional_text, get_text


def read_events(
    connection: sqlite3.Connection, where: str, values: tuple[int, ...]
) -> tuple[Event, ...]:
    """Events that pass ``where`` (SQL of this package's own); the last value is the limit."""
    rows = connection.execute(
        f"SELECT id, time, level, kind, text, step FROM events WHERE {where} LIMIT ?", values
    )
    return tuple(
        Event(key, when, level, kind, get_text(text), step)
        for key, when, level, kind, text, step in rows
    )


def read_requests(
    connection: sqlite3.Connection, where: str, values: tuple[int, ...]
) -> tuple[Request, ...]:
    """Requests that pass ``where`` (SQL of this package's own); the last value is the limit."""
    rows = connection.execute(
        f"SELECT id, time, command, args, acknowledged, result FROM requests WHERE {where} LIMIT ?",
        values,
    )
    return tuple(
        Request(key, when, command, json.loads(args), done, get_optional_text(result))
        for key, when, command, args, done, result in rows
    )


def read_live(connection: sqlite3.Connection) -> LiveDiscussion | None:
    """The watched discussion with its messages so far; None before the first."""
    head = connection.execute(
        "SELECT version, step, split, turns, roster, problem_id, gold, started, discussion, "
        "question FROM live_discussion"
    ).fetchone()
    if head is None:
        return None
    rows = connection.execute(
        "SELECT turn, agent, branch, phase, status, correct, score, reward, answer, text "
        "FROM live_messages ORDER BY turn, agent, branch"
    )
    version, step, split, turns, roster, problem_id, gold, started, key, question = head
    return LiveDiscussion(
        version=version,
        step=step,
        split=split,
        turns=turns,
        agents=tuple(json.loads(roster)),
        problem_id=get_text(problem_id),
        question=get_text(question),
        gold=get_optional_text(gold),
        started=started,
        discussion=key,
        messages=tuple(map(_live_message, rows)),
    )


def _live_message(row: tuple[Any, ...]) -> LiveMessage:
    turn, agent, branch, phase, status, correct, score, reward, answer, text = row
    return LiveMessage(
        turn=turn,
        agent=agent,
        branch=branch,
        phase=phase,
        status=status,
        text=get_text(text),
        answer=get_optional_text(answer),
        correct=get_flag(correct),
        score=get_optional_number(score),
        reward=get_optional_number(reward),
    )
