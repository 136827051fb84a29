"""Stored rows back to records: lines of a list, and whole discussions.

In: a read connection and ids.  Out: records.  Neighbours: ``queries`` and ``reader`` ask for them,
``rows`` is the way in.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

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
from maporl_core.types import REWARD_PARTS, Discussion, Message, Problem, RewardParts

_Item = TypeVar("_Item")
_PREVIEW = 200

_ROW_COLUMNS = (
    "d.id, d.step, d.split, d.evaluation, p.problem_id, p.gold, r.names, d.turns, d.stopped_early, "
    + ", ".join(f"d.{flag}" for flag in OUTCOME_FLAGS)
)
_ROW_TABLES = "discussions d JOIN problems p ON p.id = d.problem JOIN rosters r ON r.id = d.roster"


def discussion_rows(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> tuple[DiscussionRow, ...]:
    """List rows of these discussions, in the order of ``keys``; unknown ids are left out."""
    if not keys:
        return ()
    marks = _marks(keys)
    verdicts: defaultdict[int, dict[int, dict[int, bool | None]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for key, turn, agent, correct in connection.execute(
        f"SELECT discussion, turn, agent, correct FROM messages WHERE discussion IN {marks}", keys
    ):
        verdicts[key][turn][agent] = get_flag(correct)
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
    tokens = _tokens(connection, known)
    messages, prompts = _messages(connection, known, tokens)
    rewards = _rewards(connection, known)
    return tuple(
        StoredDiscussion(
            row=row,
            discussion=Discussion(
                problem=problems[row.id],
                agents=row.agents,
                messages=_square(messages[row.id]),
                stopped_early=row.stopped_early,
            ),
            rewards_TA=_square(rewards[row.id]) if row.id in rewards else None,
            prompts_TA=_square(prompts[row.id]),
        )
        for row in rows
    )


def _discussion_row(
    values: tuple[Any, ...], verdicts: dict[int, dict[int, bool | None]]
) -> DiscussionRow:
    key, step, split, evaluation, problem_id, gold, names, turns, stopped, *rest = values
    flags = dict(zip(OUTCOME_FLAGS, map(bool, rest[:-1]), strict=True))
    agents = tuple(json.loads(names))
    return DiscussionRow(
        id=key,
        step=step,
        split=split,
        evaluation=evaluation,
        problem_id=get_text(problem_id),
        question=preview(rest[-1], _PREVIEW),
        gold=get_optional_text(gold),
        agents=agents,
        turns=turns,
        stopped_early=bool(stopped),
        correct_TA=tuple(
            tuple(verdicts[turn].get(agent) for agent in range(len(agents)))
            for turn in range(turns)
        ),
        **flags,
    )


_Tokens = dict[tuple[int, int, int], tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]]


def _tokens(connection: sqlite3.Connection, keys: Sequence[int]) -> _Tokens:
    """(new prompt ids, ids, log-probabilities) by (discussion, turn, agent)."""
    return {
        (key, turn, agent): (unpack_ints(prompt), unpack_ints(ids), unpack_floats(logprobs))
        for key, turn, agent, prompt, ids, logprobs in connection.execute(
            "SELECT discussion, turn, agent, prompt, ids, logprobs FROM message_tokens "
            f"WHERE discussion IN {_marks(keys)}",
            keys,
        )
    }


def _messages(
    connection: sqlite3.Connection, keys: Sequence[int], tokens: _Tokens
) -> tuple[dict[int, list[list[Message]]], dict[int, list[list[NewPrompt | None]]]]:
    messages: dict[int, list[list[Message]]] = defaultdict(list)
    prompts: dict[int, list[list[NewPrompt | None]]] = defaultdict(list)
    for values in connection.execute(
        "SELECT discussion, turn, agent, correct, score, finish, continues, dropped_context, "
        f"policy, answer, text, prompt FROM messages WHERE discussion IN {_marks(keys)} "
        "ORDER BY discussion, turn, agent",
        keys,
    ):
        key, turn, agent, correct, score, finish, continues, dropped, *texts = values
        policy, answer, text, prompt = texts
        new, ids, logprobs = tokens.get((key, turn, agent), ((), (), ()))
        if continues and (key, turn, agent) in tokens:
            before = messages[key][turn - 1][agent]
            new = (*before.prompt_ids, *before.ids, *new)
        message = Message(
            turn=turn,
            agent=agent,
            policy=get_optional_text(policy),
            prompt_ids=new,
            ids=ids,
            logprobs=logprobs,
            text=get_text(text),
            finish=finish,
            answer=get_optional_text(answer),
            correct=get_flag(correct),
            score=get_optional_number(score),
            dropped_context=dropped,
        )
        known = None if prompt is None else NewPrompt(get_text(prompt), bool(continues))
        if turn == len(messages[key]):
            messages[key].append([])
            prompts[key].append([])
        messages[key][turn].append(message)
        prompts[key][turn].append(known)
    return messages, prompts


def _rewards(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> dict[int, list[list[MessageReward]]]:
    rewards: dict[int, list[list[MessageReward]]] = defaultdict(list)
    for key, turn, _agent, *values in connection.execute(
        f"SELECT discussion, turn, agent, {', '.join(REWARD_PARTS)}, advantage, kl "
        f"FROM reward_parts WHERE discussion IN {_marks(keys)} ORDER BY discussion, turn, agent",
        keys,
    ):
        *parts, advantage, kl = values
        if turn == len(rewards[key]):
            rewards[key].append([])
        rewards[key][turn].append(
            MessageReward(
                RewardParts(**dict(zip(REWARD_PARTS, map(get_number, parts), strict=True))),
                get_optional_number(advantage),
                get_optional_number(kl),
            )
        )
    return rewards


def _square(rows: Iterable[Iterable[_Item]]) -> tuple[tuple[_Item, ...], ...]:
    return tuple(tuple(row) for row in rows)


def _marks(keys: Sequence[int]) -> str:
    return f"({','.join('?' * len(keys))})"
