"""Which discussions: filters as SQL, pages and counts.

In: a read connection and a ``DiscussionFilter``.  Out: records.  Neighbours: ``reader`` holds the
connection, ``load`` makes the records.

``discussions`` is a narrow table, so any combination of conditions is answered by one walk over
it, newest first, that ends when the page is full.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

from maporl_core.store.load import discussion_rows
from maporl_core.store.records import DiscussionFilter, DiscussionRow
from maporl_core.store.rows import has_search, searchable
from maporl_core.store.schema import OUTCOME_FLAGS
from maporl_core.store.values import put_text

SUMS = ("total", "advantage", "kl")
"""What is kept of a paid message beside the parts."""

_SHORTEST_PREFIX = 3  # shorter unfinished words would match too much to be quick or useful


def page(
    connection: sqlite3.Connection,
    wanted: DiscussionFilter,
    before: int | None,
    after: int | None,
    limit: int,
) -> tuple[DiscussionRow, ...]:
    """Up to ``limit`` discussions, newest first, with ids below ``before`` or above ``after``.

    With ``after`` the ones nearest to it are given, still newest first.
    """
    tables, where, values = _conditions(connection, wanted)
    order = "DESC"
    if before is not None:
        where.append("d.id < ?")
        values.append(before)
    if after is not None:
        where.append("d.id > ?")
        values.append(after)
        order = "ASC"
    keys = [
        key
        for (key,) in connection.execute(
            f"SELECT d.id FROM {tables} WHERE {' AND '.join(where) or '1'} "
            f"ORDER BY {_order_column(tables)} {order} LIMIT ?",
            (*values, limit),
        )
    ]
    return discussion_rows(connection, sorted(keys, reverse=True))


def count(connection: sqlite3.Connection, wanted: DiscussionFilter) -> int:
    """How many discussions pass the filter."""
    tables, where, values = _conditions(connection, wanted)
    row = connection.execute(
        f"SELECT count(*) FROM {tables} WHERE {' AND '.join(where) or '1'}", values
    ).fetchone()
    return int(row[0])


def reward_values(
    connection: sqlite3.Connection, part: str, steps: tuple[int, int], limit: int
) -> tuple[float, ...]:
    """A part, or one of ``SUMS``, of the paid messages of these steps, newest first, without NaN.

    A part that has no row is 0.
    """
    value, names, known = f"w.{part}", [], f"w.{part} IS NOT NULL"
    if part not in SUMS:
        known = "1"
        value = (
            "coalesce((SELECT coalesce(t.value, 'nan') FROM reward_terms t "
            "WHERE t.discussion = w.discussion AND t.turn = w.turn AND t.agent = w.agent "
            "AND t.branch = w.branch AND t.name = ?), 0.0)"
        )
        names = [part]
    rows = connection.execute(
        f"SELECT {value} FROM discussions d CROSS JOIN rewards w ON w.discussion = d.id "
        f"WHERE d.step BETWEEN ? AND ? AND +d.split = 'train' AND {known} "
        "ORDER BY d.id DESC LIMIT ?",
        (*names, *steps, limit),
    )
    return tuple(float(found) for (found,) in rows if found is not None and found != "nan")


def search_phrase(text: str) -> str:
    """The FTS5 query for words in this order, the last one possibly unfinished."""
    words = re.findall(r"[^\W_]+", searchable([text]))
    if not words:
        return '""'  # matches nothing
    phrase = '"' + " ".join(words) + '"'
    # A scanned script is cut into characters, so its last character is always a whole word.
    return phrase + ("*" if len(words[-1]) >= _SHORTEST_PREFIX else "")


def _conditions(
    connection: sqlite3.Connection, wanted: DiscussionFilter
) -> tuple[str, list[str], list[Any]]:
    tables = "discussions d"
    where: list[str] = []
    values: list[Any] = []
    plain = {
        "d.step >= ?": wanted.first_step,
        "d.step <= ?": wanted.last_step,
        "d.split = ?": wanted.split,
        "d.evaluation = ?": wanted.evaluation,
    }
    for condition, value in plain.items():
        if value is not None:
            where.append(condition)
            values.append(value)
    for flag in OUTCOME_FLAGS:
        choice = getattr(wanted, flag)
        if choice is not None:
            where.append(f"+d.{flag} = {int(choice)}")
    if wanted.majority_right is not None:
        said = "coalesce(d.final_said, d.agents)"
        where.append(f"(2 * d.final_right > {said}) IS {int(wanted.majority_right)}")
    if wanted.problem_id is not None:
        where.append("d.problem IN (SELECT id FROM problems WHERE problem_id = ?)")
        values.append(put_text(wanted.problem_id))
    if wanted.text is not None and wanted.text.strip():
        if has_search(connection):
            tables = "search CROSS JOIN discussions d ON d.id = search.rowid"
            where.insert(0, "search MATCH ?")
            values.insert(0, search_phrase(wanted.text))
        else:
            where.append(
                "EXISTS (SELECT 1 FROM messages m JOIN problems p ON p.id = d.problem "
                "WHERE m.discussion = d.id AND (instr(lower(CAST(m.text AS TEXT)), ?) "
                "OR instr(lower(CAST(p.question AS TEXT)), ?)))"
            )
            plain_text = searchable([wanted.text]).lower()
            values += [plain_text, plain_text]
    return tables, where, values


def _order_column(tables: str) -> str:
    return "search.rowid" if tables.startswith("search") else "d.id"
