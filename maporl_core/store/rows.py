"""Discussions to rows, inside a transaction that the caller opened.

In: an open connection and records.  Out: rows inserted or deleted.  Neighbours: ``writer`` opens
the transactions; ``schema`` defines the tables; ``load`` is the way back.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from maporl_core.store.outcomes import outcome
from maporl_core.store.records import MessageReward, Paid
from maporl_core.store.schema import OUTCOME_FLAGS
from maporl_core.store.values import (
    get_optional_text,
    get_text,
    pack_floats,
    pack_ints,
    put_flag,
    put_json,
    put_number,
    put_optional_number,
    put_text,
)
from maporl_core.types import REWARD_PARTS, Discussion, Message, Problem

Decode = Callable[[int, Sequence[int]], str]
"""Text of token ids as one agent's tokenizer writes them: (agent, ids) → text."""

_INDEXED = 200_000  # characters of one text that the word index covers
_NO_SPACES = re.compile("([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")

_MESSAGE = f"INSERT INTO messages VALUES ({','.join('?' * 14)})"
_TOKENS = "INSERT INTO message_tokens VALUES (?,?,?,?,?,?)"
_REWARD = f"INSERT INTO reward_parts VALUES ({','.join('?' * (6 + len(REWARD_PARTS)))})"
_DISCUSSION = f"INSERT INTO discussions VALUES ({','.join('?' * (11 + len(OUTCOME_FLAGS)))})"
_CHILDREN = ("messages", "message_tokens", "reward_parts")


def searchable(texts: Iterable[str]) -> str:
    """What the word index sees of these texts: valid Unicode, and scripts written without spaces
    cut into single characters, so that any part of them can be found."""
    joined = "\n".join(text[:_INDEXED] for text in texts)
    clean = joined.replace("\x00", " ").encode("utf-8", "replace").decode()
    return _NO_SPACES.sub(r" \1 ", clean)


def insert_discussion(
    connection: sqlite3.Connection,
    paid: Paid,
    step: int,
    split: str,
    evaluation: int | None,
    decode: Decode | None,
    keep_tokens: bool,
) -> int:
    """All rows of one discussion; returns its id."""
    discussion = paid.discussion
    _check_shape(paid)
    flags = outcome(discussion)
    cursor = connection.execute(
        _DISCUSSION,
        (
            None,
            step,
            split,
            evaluation,
            _problem(connection, discussion.problem),
            _roster(connection, discussion.agents),
            discussion.turns,
            len(discussion.agents),
            int(discussion.stopped_early),
            flags.first_right,
            flags.final_right,
            *(int(getattr(flags, name)) for name in OUTCOME_FLAGS),
        ),
    )
    key = cursor.lastrowid
    assert key is not None
    keyed = list(_with_previous(discussion))
    connection.executemany(
        _MESSAGE, (_message_row(key, message, before, decode) for message, before in keyed)
    )
    if keep_tokens:
        connection.executemany(
            _TOKENS, (_token_row(key, message, before) for message, before in keyed)
        )
    connection.executemany(_REWARD, _reward_rows(key, paid))
    words = searchable(_texts(discussion.problem, (message.text for message, _ in keyed)))
    if has_search(connection):
        connection.execute("INSERT INTO search(rowid, words) VALUES (?, ?)", (key, words))
    return key


def delete_discussions(
    connection: sqlite3.Connection, where: str, values: Sequence[Any] = ()
) -> int:
    """Remove the discussions that ``where`` selects with all their rows; returns how many."""
    keys = connection.execute(f"SELECT id FROM discussions WHERE {where}", values).fetchall()
    if has_search(connection):
        connection.executemany(
            "INSERT INTO search(search, rowid, words) VALUES ('delete', ?, ?)",
            ((key, _stored_words(connection, key)) for (key,) in keys),
        )
    for table in _CHILDREN:
        connection.executemany(f"DELETE FROM {table} WHERE discussion = ?", keys)
    connection.executemany("DELETE FROM discussions WHERE id = ?", keys)
    return len(keys)


def has_search(connection: sqlite3.Connection) -> bool:
    """Whether this store has a word index."""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchone()
    return row is not None


def _check_shape(paid: Paid) -> None:
    agents = len(paid.discussion.agents)
    rows = paid.discussion.messages
    shapes = [len(row) for row in rows]
    if any(length != agents for length in shapes):
        raise ValueError(f"{agents} agents, but turns of {shapes} messages")
    if paid.rewards_TA is not None and [len(row) for row in paid.rewards_TA] != shapes:
        raise ValueError("rewards_TA has not the shape of the messages")


def _with_previous(discussion: Discussion) -> Iterable[tuple[Message, Message | None]]:
    """Every message with the same agent's message of the turn before that its prompt continues."""
    for turn, row in enumerate(discussion.messages):
        for agent, message in enumerate(row):
            before = discussion.messages[turn - 1][agent] if turn else None
            if before is not None:
                known = (*before.prompt_ids, *before.ids)
                if message.prompt_ids[: len(known)] != known:
                    before = None
            yield message, before


def _new_ids(message: Message, before: Message | None) -> tuple[int, ...]:
    known = len(before.prompt_ids) + len(before.ids) if before is not None else 0
    return message.prompt_ids[known:]


def _message_row(
    key: int, message: Message, before: Message | None, decode: Decode | None
) -> tuple[Any, ...]:
    prompt = None
    if decode is not None:
        new = _new_ids(message, before)
        if before is not None and before.finish == "stop":
            new = (*before.ids[-1:], *new)  # the end token, which the message's text leaves out
        prompt = put_text(decode(message.agent, new))
    return (
        key,
        message.turn,
        message.agent,
        put_flag(message.correct),
        put_optional_number(message.score),
        message.finish,
        len(message.ids),
        len(message.prompt_ids),
        int(before is not None),
        message.dropped_context,
        put_text(message.policy),
        put_text(message.answer),
        put_text(message.text),
        prompt,
    )


def _token_row(key: int, message: Message, before: Message | None) -> tuple[Any, ...]:
    return (
        key,
        message.turn,
        message.agent,
        pack_ints(_new_ids(message, before)),
        pack_ints(message.ids),
        pack_floats(message.logprobs),
    )


def _reward_rows(key: int, paid: Paid) -> Iterable[tuple[Any, ...]]:
    for turn, row in enumerate(paid.rewards_TA or ()):
        for agent, reward in enumerate(row):
            yield key, turn, agent, *_reward_values(reward)


def _reward_values(reward: MessageReward) -> tuple[Any, ...]:
    return (
        *(put_number(getattr(reward.parts, name)) for name in REWARD_PARTS),
        put_number(reward.parts.total),
        put_optional_number(reward.advantage),
        put_optional_number(reward.kl),
    )


def _problem(connection: sqlite3.Connection, problem: Problem) -> int:
    """The id of a problem, stored once however often it is discussed."""
    meta = put_json(dict(problem.meta))
    facts = [problem.task, problem.split, problem.id, problem.question, problem.gold, meta]
    digest = hashlib.sha256(put_json(facts).encode()).digest()[:16]
    row = connection.execute("SELECT id FROM problems WHERE digest = ?", (digest,)).fetchone()
    if row is not None:
        return int(row[0])
    cursor = connection.execute(
        "INSERT INTO problems VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
        (
            digest,
            put_text(problem.id),
            put_text(problem.task),
            put_text(problem.split),
            put_text(problem.gold),
            meta,
            put_text(problem.question),
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _roster(connection: sqlite3.Connection, agents: Sequence[str]) -> int:
    names = put_json(list(agents))
    connection.execute("INSERT OR IGNORE INTO rosters(names) VALUES (?)", (names,))
    row = connection.execute("SELECT id FROM rosters WHERE names = ?", (names,)).fetchone()
    return int(row[0])


def _texts(problem: Problem, messages: Iterable[str]) -> list[str]:
    return [problem.question, problem.gold or "", *messages]


def _stored_words(connection: sqlite3.Connection, key: int) -> str:
    """Exactly what ``insert_discussion`` indexed for this discussion."""
    question, gold = connection.execute(
        "SELECT p.question, p.gold FROM discussions d JOIN problems p ON p.id = d.problem "
        "WHERE d.id = ?",
        (key,),
    ).fetchone()
    rows = connection.execute(
        "SELECT text FROM messages WHERE discussion = ? ORDER BY turn, agent", (key,)
    )
    texts = [get_text(question), get_optional_text(gold) or "", *(get_text(row[0]) for row in rows)]
    return searchable(texts)
