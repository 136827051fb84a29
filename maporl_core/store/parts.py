"""The parts of a reward that a run declares: their order, and what each of them says.

In: an open connection.  Out: ``Part`` records, kept as JSON under ``reward_parts`` in ``meta``.
Neighbours: ``writer`` declares them, ``rows`` adds what nobody declared, ``load`` orders by them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from maporl_core.store.values import get_text, put_json
from maporl_core.types import Part

KEY = "reward_parts"


def read_parts(connection: sqlite3.Connection) -> tuple[Part, ...]:
    """The declared parts in their order; none in a run that has paid nothing yet."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (KEY,)).fetchone()
    return () if row is None else tuple(Part(*pair) for pair in json.loads(get_text(row[0])))


def declare(connection: sqlite3.Connection, parts: Sequence[Part]) -> None:
    """Make these the parts of the run; those that only older steps paid stay after them."""
    names = {part.name for part in parts}
    put_parts(connection, [*parts, *(p for p in read_parts(connection) if p.name not in names)])


def declare_names(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Add the parts among ``names`` that nobody declared, with nothing to say of them."""
    known = read_parts(connection)
    have = {part.name for part in known}
    missing = [Part(name, "") for name in dict.fromkeys(names) if name not in have]
    if missing:
        put_parts(connection, [*known, *missing])


def put_parts(connection: sqlite3.Connection, parts: Iterable[Part]) -> None:
    """Keep exactly these."""
    connection.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (KEY, parts_json(parts)),
    )


def parts_json(parts: Iterable[Part]) -> str:
    return put_json([[part.name, part.says] for part in parts])
