"""Stores of older versions: shown as they are to readers, brought up to date by a writer.

In: an open connection to a store of an older schema.  Out: views by which it reads like a current
one, or the current tables in place of the old ones.  Neighbours: ``database`` calls this when it
opens a file; ``schema`` has the tables of today.

Views are temporary and belong to one connection: reading changes nothing in the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from maporl_core.errors import StoreError
from maporl_core.store import schema
from maporl_core.store.parts import KEY, parts_json, put_parts
from maporl_core.types import Part

SCHEMA_2_PARTS = (
    Part("own", "share of the verification reward that comes from the message's own score"),
    Part("influence", "share of it that comes from the scores of others and of later turns"),
    Part("critical", "changed its verdict against the majority of the others"),
    Part("persuaded", "changed its verdict to that of the majority of the others"),
    Part("constructive", "the others then changed their verdict away from its own"),
    Part("persuasive", "the others then changed their verdict to its own"),
    Part("format", "penalty: no answer can be read"),
    Part("unfinished", "penalty: cut off at the length limit"),
)
"""What a store paid before runs declared the parts of their rewards: one column each."""

_NAMES = sorted(part.name for part in SCHEMA_2_PARTS)  # rows then come in the order of their key
_REWARDS = (
    "SELECT discussion, turn, agent, 0 AS branch, total, advantage, kl FROM main.reward_parts"
)
_TERMS = f"""
SELECT discussion, turn, agent, 0 AS branch, name, value FROM (
  SELECT w.*, n.name AS name,
    CASE n.name {" ".join(f"WHEN '{name}' THEN w.{name}" for name in _NAMES)} END AS value
  FROM main.reward_parts w
  CROSS JOIN ({" UNION ALL ".join(f"SELECT '{name}' AS name" for name in _NAMES)}) n
) WHERE value IS NOT 0
"""
_LIVE = "turn, agent, status, correct, score, reward, answer, text"
_MESSAGES = "*, 0 AS branch, 1 AS chosen, 'answer' AS phase"


def _quoted(text: str) -> str:
    """Text as SQL writes it: a view takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


_VIEWS: dict[int, dict[str, str]] = {
    1: {"events": "SELECT *, NULL AS step FROM main.events"},
    2: {
        "discussions": "SELECT *, 0 AS sample, NULL AS final_said FROM main.discussions",
        "messages": f"SELECT rowid, {_MESSAGES} FROM main.messages",
        "message_tokens": "SELECT *, 0 AS branch FROM main.message_tokens",
        "rewards": _REWARDS,
        "reward_terms": _TERMS,
        "live_messages": f"SELECT {_MESSAGES} FROM main.live_messages",
        "meta": "SELECT key, value FROM main.meta "
        f"UNION ALL SELECT '{KEY}', {_quoted(parts_json(SCHEMA_2_PARTS))}",
    },
}
"""What a store of version n shows in place of its own tables, and all later n with it."""


def adapt(connection: sqlite3.Connection, path: Path) -> int:
    """Let a store of any known version read like a current one; returns its version.

    Raises StoreError for one that is too old or too new.
    """
    version = schema.stored_version(connection, path)
    for number in range(version, schema.SCHEMA_VERSION):
        _migration(number, path)
        for name, query in _VIEWS.get(number, {}).items():
            connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
    return version


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a writable store to the current schema, all steps or none."""
    if schema.stored_version(connection, path) == schema.SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema.stored_version(connection, path)  # another process may have been faster
        for number in range(version, schema.SCHEMA_VERSION):
            _migration(number, path)(connection)
        connection.execute(
            "UPDATE meta SET value = ? WHERE key = 'schema'", (str(schema.SCHEMA_VERSION),)
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migration(version: int, path: Path) -> Callable[[sqlite3.Connection], None]:
    if version not in MIGRATIONS:
        raise StoreError(
            f"{path} has schema {version}, which this maporl no longer reads: "
            "open it once with the version that wrote it and export it"
        )
    return MIGRATIONS[version]


def _name_steps_of_events(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE events ADD COLUMN step INTEGER")


def _give_messages_places(connection: sqlite3.Connection) -> None:
    """Branches, phases and samples; a row per part of a reward in place of a column."""
    for statement in (
        "ALTER TABLE discussions ADD COLUMN sample INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE discussions ADD COLUMN final_said INTEGER",
        "ALTER TABLE messages ADD COLUMN branch INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN chosen INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE messages ADD COLUMN phase TEXT NOT NULL DEFAULT 'answer'",
        "ALTER TABLE message_tokens ADD COLUMN branch INTEGER NOT NULL DEFAULT 0",
        "DROP INDEX messages_key",
        "DROP INDEX message_tokens_key",
        *schema.PLACES.split(";"),
        f"INSERT INTO rewards {_REWARDS}",
        f"INSERT INTO reward_terms {_TERMS}",
        "DROP TABLE reward_parts",
        "ALTER TABLE live_messages RENAME TO old_live_messages",
        schema.LIVE_MESSAGES,
        f"INSERT INTO live_messages({_LIVE}) SELECT {_LIVE} FROM old_live_messages",
        "DROP TABLE old_live_messages",
    ):
        connection.execute(statement)
    put_parts(connection, SCHEMA_2_PARTS)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: _name_steps_of_events,
    2: _give_messages_places,
}
"""From version n to n + 1, all within one transaction."""
