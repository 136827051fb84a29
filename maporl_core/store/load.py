"""Stored rows back to records: lines of a list, and whole discussions.

In: a read connection and ids.  Out: records.  Neighbours: ``queries`` and ``reader`` ask for them,
``rows`` is the way in.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from maporl_core.store.parts import read_parts
from maporl_core.store.records import (
    DiscussionRow,
    MessageReward,
    NewPrompt,
    StoredDiscussion,
)
from maporl_core.store.schema import OUTCOME_FLAGS
from maporl_core.store.values import (
    get_flag,
    get_number,
    get_optional_number,
    get_optional_text,
    get_text,
    preview,
    unpack_floats,
    unpack_ints,
)
from maporl_core.types import Discussion, Message, Pay, Place, Problem

_PREVIEW = 200

_ROW_COLUMNS = (
    "d.id, d.step, d.split, d.evaluation, p.problem_id, p.gold, r.names, d.turns, d.sample, "
    "d.stopped_early, " + ", ".join(f"d.{flag}" for flag in OUTCOME_FLAGS)
)
_ROW_TABLES = "discussions d JOIN problems p ON p.id = d.problem JOIN rosters r ON r.id = d.roster"


def discussion_rows(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> tuple[DiscussionRow, ...]:
    """List rows of these discussions, in the order of ``keys``; unknown ids are left out."""
    if not keys:
        return ()
    marks = _marks(keys)
    verdicts: defaultdict[int, _Verdicts] = defaultdict(lambda: defaultdict(list))
    for key, turn, correct in connection.execute(
        f"SELECT discussion, turn, correct FROM messages WHERE discussion IN {marks} AND chosen "
        "ORDER BY discussion, turn, agent",
        keys,
    ):
        verdicts[key][turn].append(get_flag(correct))
    found = {}
    for values in connection.execute(
        f"SELECT {_ROW_COLUMNS}, substr(p.question, 1, {4 * _PREVIEW}) FROM {_ROW_TABLES} "
        f"WHERE d.id IN {marks}",
        keys,
    ):
        row = _discussion_row(values, verdicts[values[0]])
        found[row.id] = row
    return tuple(found[key] for key in keys if key in found)


def whole_discussions(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> tuple[StoredDiscussion, ...]:
    """Everything about these discussions, in the order of ``keys``; unknown ids are left out."""
    rows = discussion_rows(connection, keys)
    known = [row.id for row in rows]
    if not known:
        return ()
    marks = _marks(known)
    problems = {
        key: Problem(
            id=get_text(problem_id),
            question=get_text(question),
            gold=get_optional_text(gold),
            task=get_text(task),
            split=get_text(split),
            meta=json.loads(meta),
        )
        for key, problem_id, question, gold, task, split, meta in connection.execute(
            "SELECT d.id, p.problem_id, p.question, p.gold, p.task, p.split, p.meta "
            f"FROM {_ROW_TABLES} WHERE d.id IN {marks}",
            known,
        )
    }
    turns = {row.id: row.turns for row in rows}
    messages, prompts = _messages(connection, turns, _tokens(connection, known))
    rewards = _rewards(connection, known)
    return tuple(
        StoredDiscussion(
            row=row,
            discussion=Discussion(
                problem=problems[row.id],
                agents=row.agents,
                messages=tuple(map(tuple, messages[row.id])),
                stopped_early=row.stopped_early,
                sample=row.sample,
            ),
            rewards=rewards.get(row.id),
            prompts=prompts[row.id],
        )
        for row in rows
    )


_Verdicts = Mapping[int, list[bool | None]]


def _discussion_row(values: tuple[Any, ...], verdicts: _Verdicts) -> DiscussionRow:
    key, step, split, evaluation, problem_id, gold, names, turns, sample, stopped, *rest = values
    flags = dict(zip(OUTCOME_FLAGS, map(bool, rest[:-1]), strict=True))
    return DiscussionRow(
        id=key,
        step=step,
        split=split,
        evaluation=evaluation,
        problem_id=get_text(problem_id),
        question=preview(rest[-1], _PREVIEW),
        gold=get_optional_text(gold),
        agents=tuple(json.loads(names)),
        turns=turns,
        stopped_early=bool(stopped),
        correct_TA=tuple(tuple(verdicts.get(turn, ())) for turn in range(turns)),
        sample=sample,
        **flags,
    )


_Tokens = dict[Place, tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]]


def _tokens(connection: sqlite3.Connection, keys: Sequence[int]) -> _Tokens:
    """(new prompt ids, ids, log-probabilities) by place."""
    return {
        Place(*place): (unpack_ints(prompt), unpack_ints(ids), unpack_floats(logprobs))
        for *place, prompt, ids, logprobs in connection.execute(
            "SELECT discussion, turn, agent, branch, prompt, ids, logprobs FROM message_tokens "
            f"WHERE discussion IN {_marks(keys)}",
            keys,
        )
    }


def _messages(
    connection: sqlite3.Connection, turns: Mapping[int, int], tokens: _Tokens
) -> tuple[dict[int, list[list[Message]]], dict[int, dict[Place, NewPrompt]]]:
    """Per discussion its messages by turn, in the order they were spoken, and their prompts."""
    messages: dict[int, list[list[Message]]] = {
        key: [[] for _ in range(count)] for key, count in turns.items()
    }
    prompts: dict[int, dict[Place, NewPrompt]] = {key: {} for key in turns}
    last: dict[tuple[int, int], list[Message]] = defaultdict(list)  # an agent's chosen messages
    for values in connection.execute(
        "SELECT discussion, turn, agent, branch, chosen, phase, correct, score, finish, continues, "
        "dropped_context, policy, answer, text, prompt FROM messages "
        f"WHERE discussion IN {_marks(list(turns))} ORDER BY rowid",
        list(turns),
    ):
        key, turn, agent, branch, chosen, *facts, prompt = values
        continues = facts[4]
        place = Place(key, turn, agent, branch)
        new, ids, logprobs = tokens.get(place, ((), (), ()))
        if continues and place in tokens:
            before = next(m for m in reversed(last[key, agent]) if m.turn < turn)
            new = (*before.prompt_ids, *before.ids, *new)
        message = _message(place, bool(chosen), facts, (new, ids, logprobs))
        if chosen:
            last[key, agent].append(message)
        messages[key][turn].append(message)
        if prompt is not None:
            prompts[key][place] = NewPrompt(get_text(prompt), bool(continues))
    return messages, prompts


def _message(
    place: Place,
    chosen: bool,
    facts: Sequence[Any],
    tokens: tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]],
) -> Message:
    phase, correct, score, finish, _continues, dropped, policy, answer, text = facts
    prompt_ids, ids, logprobs = tokens
    return Message(
        turn=place.turn,
        agent=place.agent,
        policy=get_optional_text(policy),
        prompt_ids=prompt_ids,
        ids=ids,
        logprobs=logprobs,
        text=get_text(text),
        finish=finish,
        answer=get_optional_text(answer),
        correct=get_flag(correct),
        score=get_optional_number(score),
        dropped_context=dropped,
        branch=place.branch,
        phase=phase,
        chosen=chosen,
    )


def _rewards(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> dict[int, dict[Place, MessageReward]]:
    """Per discussion what its messages were paid, with every part that the run declares."""
    names = [part.name for part in read_parts(connection)]
    marks = _marks(keys)
    terms: defaultdict[Place, dict[str, float]] = defaultdict(lambda: dict.fromkeys(names, 0.0))
    for *place, name, value in connection.execute(
        "SELECT discussion, turn, agent, branch, name, value FROM reward_terms "
        f"WHERE discussion IN {marks}",
        keys,
    ):
        terms[Place(*place)][name] = get_number(value)
    rewards: dict[int, dict[Place, MessageReward]] = defaultdict(dict)
    for *spot, advantage, kl in connection.execute(
        f"SELECT discussion, turn, agent, branch, advantage, kl FROM rewards "
        f"WHERE discussion IN {marks} ORDER BY discussion, turn, agent, branch",
        keys,
    ):
        place = Place(*spot)
        rewards[place.discussion][place] = MessageReward(
            Pay(terms[place]), get_optional_number(advantage), get_optional_number(kl)
        )
    return rewards


def _marks(keys: Sequence[int]) -> str:
    return f"({','.join('?' * len(keys))})"
