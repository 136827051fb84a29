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
from maporl_core.store.parts import declare_names
from maporl_core.store.records import MessageReward, Paid, last_before
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
from maporl_core.types import Discussion, Message, Place, Problem

Decode = Callable[[int, Sequence[int]], str]
"""Text of token ids as one agent's tokenizer writes them: (agent, ids) → text."""

_INDEXED = 200_000  # characters of one text that the word index covers
_NO_SPACES = re.compile("([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")


def _insert(table: str, columns: str) -> str:
    """Columns are named: an older store, once migrated, has them in another order."""
    return f"INSERT INTO {table}({columns}) VALUES ({','.join('?' * len(columns.split(',')))})"


_DISCUSSION = _insert(
    "discussions",
    "step, split, evaluation, problem, sample, roster, turns, agents, stopped_early, "
    "first_right, final_right, final_said, " + ", ".join(OUTCOME_FLAGS),
)
_MESSAGE = _insert(
    "messages",
    "discussion, turn, agent, branch, chosen, phase, correct, score, finish, tokens, "
    "prompt_tokens, continues, dropped_context, policy, answer, text, prompt",
)
_TOKENS = _insert("message_tokens", "discussion, turn, agent, branch, prompt, ids, logprobs")
_REWARD = _insert("rewards", "discussion, turn, agent, branch, total, advantage, kl")
_TERM = _insert("reward_terms", "discussion, turn, agent, branch, name, value")
_CHILDREN = ("messages", "message_tokens", "rewards", "reward_terms")


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
    _check_places(paid)
    flags = outcome(discussion)
    cursor = connection.execute(
        _DISCUSSION,
        (
            step,
            split,
            evaluation,
            _problem(connection, discussion.problem),
            discussion.sample,
            _roster(connection, discussion.agents),
            discussion.turns,
            len(discussion.agents),
            int(discussion.stopped_early),
            flags.first_right,
            flags.final_right,
            flags.final_said,
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
    _insert_rewards(connection, key, paid)
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


def _check_places(paid: Paid) -> None:
    """Every message has a place of its own, and only messages are paid."""
    said = paid.discussion.everything()
    places = {(message.turn, message.agent, message.branch) for message in said}
    if len(places) != len(said):
        raise ValueError("two messages have the same place")
    if any(m.turn != turn for turn, row in enumerate(paid.discussion.messages) for m in row):
        raise ValueError("a message stands in another turn than its own")
    rewards = paid.rewards or {}
    if len({place.discussion for place in rewards}) > 1:
        raise ValueError("rewards of more than one discussion")
    strangers = [place for place in rewards if place[1:] not in places]
    if strangers:
        raise ValueError(f"a reward for {strangers[0]}, where there is no message")


def _with_previous(discussion: Discussion) -> Iterable[tuple[Message, Message | None]]:
    """Every message with the same agent's message of before that its prompt continues."""
    for row in discussion.messages:
        for message in row:
            before = last_before(discussion, message)
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
        message.branch,
        int(message.chosen),
        message.phase,
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
        message.branch,
        pack_ints(_new_ids(message, before)),
        pack_ints(message.ids),
        pack_floats(message.logprobs),
    )


def _insert_rewards(connection: sqlite3.Connection, key: int, paid: Paid) -> None:
    rewards = {Place(key, *place[1:]): found for place, found in (paid.rewards or {}).items()}
    declare_names(connection, (name for found in rewards.values() for name in found.pay.parts))
    connection.executemany(
        _REWARD, ((*place, *_reward_values(rewards[place])) for place in sorted(rewards))
    )
    connection.executemany(
        _TERM,
        (
            (*place, name, put_number(value))
            for place in sorted(rewards)
            for name, value in sorted(rewards[place].pay.parts.items())
            if value != 0  # a declared part without a row is 0
        ),
    )


def _reward_values(reward: MessageReward) -> tuple[Any, ...]:
    return (
        put_number(reward.pay.total),
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
        "SELECT text FROM messages WHERE discussion = ? ORDER BY rowid", (key,)
    )
    texts = [get_text(question), get_optional_text(gold) or "", *(get_text(row[0]) for row in rows)]
    return searchable(texts)
