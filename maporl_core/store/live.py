"""The watched discussion as it is being written: a few small rows, replaced with each new one.

In: what the discussion's listeners hear.  Out: rows of ``live_discussion`` and ``live_messages``,
each call one small transaction (about a tenth of a millisecond); the caller limits the rate.
Neighbours: ``writer`` owns it, ``reader.live`` shows it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from maporl_core.store.records import LiveMessage
from maporl_core.store.values import put_flag, put_json, put_optional_number, put_text
from maporl_core.types import Problem


class LiveWriter:
    """Use as ``writer.live``."""

    def __init__(self, write: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._write = write

    def begin(
        self, step: int, split: str, problem: Problem, agents: Sequence[str], turns: int
    ) -> None:
        """A new discussion is being watched; the one before is dropped from these rows."""
        with self._write() as connection:
            connection.execute("DELETE FROM live_messages")
            connection.execute(
                "INSERT INTO live_discussion VALUES (1, 1, ?, ?, ?, ?, ?, ?, ?, NULL, ?) "
                "ON CONFLICT(id) DO UPDATE SET version = version + 1, step = excluded.step, "
                "split = excluded.split, turns = excluded.turns, roster = excluded.roster, "
                "problem_id = excluded.problem_id, gold = excluded.gold, "
                "started = excluded.started, discussion = NULL, question = excluded.question",
                (
                    step,
                    split,
                    turns,
                    put_json(list(agents)),
                    put_text(problem.id),
                    put_text(problem.gold),
                    time.time(),
                    put_text(problem.question),
                ),
            )

    def update(self, messages: Sequence[LiveMessage]) -> None:
        """Put these messages in place of what was known of them."""
        with self._write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO live_messages(turn, agent, branch, phase, status, correct, "
                "score, reward, answer, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        message.turn,
                        message.agent,
                        message.branch,
                        message.phase,
                        message.status,
                        put_flag(message.correct),
                        put_optional_number(message.score),
                        put_optional_number(message.reward),
                        put_text(message.answer),
                        put_text(message.text),
                    )
                    for message in messages
                ],
            )

    def end(self, discussion: int | None = None) -> None:
        """The watched discussion is over; ``discussion`` is its id in the store, if it has one."""
        with self._write() as connection:
            connection.execute("UPDATE live_discussion SET discussion = ?", (discussion,))
