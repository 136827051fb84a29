"""The tables of ``run.db``, their version, and how an older store is brought up to date.

In: an open SQLite connection.  Out: the same one holding the current schema.  Neighbours:
``database`` opens files and calls this; ``rows`` and ``reader`` speak the tables named here.

``docs/store.md`` explains every table.  Booleans are 0/1; free text is written by
``values.put_text``; turns and agents count from 0.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from maporl_core.errors import StoreError
from maporl_core.types import REWARD_PARTS

SCHEMA_VERSION = 2
APPLICATION_ID = 0x4D41504F  # "MAPO", at byte 68 of the file
BUCKET_WIDTHS = (16, 256)
"""Steps per row of ``metric_buckets``: long series are drawn from these, not step by step."""

OUTCOME_FLAGS = ("corrected", "broke", "persuaded", "all_wrong", "all_right")

_PARTS = ",\n  ".join(f"{name} REAL" for name in REWARD_PARTS)
_FLAGS = ",\n  ".join(f"{name} INTEGER NOT NULL" for name in OUTCOME_FLAGS)

# Small columns stand before long ones: SQLite then reads a row's head without its overflow pages.
TABLES = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

CREATE TABLE steps(step INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time REAL NOT NULL);
CREATE UNIQUE INDEX steps_seq ON steps(seq);
CREATE TABLE metric_names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE metrics(
  name INTEGER NOT NULL, step INTEGER NOT NULL, value REAL, PRIMARY KEY(name, step)
) WITHOUT ROWID;
CREATE TABLE metric_buckets(
  name INTEGER NOT NULL, width INTEGER NOT NULL, bucket INTEGER NOT NULL,
  count INTEGER NOT NULL, total REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
  PRIMARY KEY(name, width, bucket)
) WITHOUT ROWID;
CREATE VIEW named_metrics AS
  SELECT m.step AS step, n.name AS name, m.value AS value
  FROM metrics m JOIN metric_names n ON n.id = m.name;

CREATE TABLE problems(
  id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, problem_id TEXT NOT NULL,
  task TEXT NOT NULL, split TEXT NOT NULL, gold TEXT, meta TEXT NOT NULL, question TEXT NOT NULL
);
CREATE INDEX problems_problem_id ON problems(problem_id);
CREATE TABLE rosters(id INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE);

CREATE TABLE evaluations(
  id INTEGER PRIMARY KEY, step INTEGER NOT NULL, origin TEXT NOT NULL, label TEXT NOT NULL,
  policy_state TEXT NOT NULL, task TEXT NOT NULL, split TEXT NOT NULL,
  questions INTEGER NOT NULL, seed INTEGER NOT NULL, temperature REAL NOT NULL,
  created REAL NOT NULL, summary TEXT NOT NULL
);

CREATE TABLE discussions(
  id INTEGER PRIMARY KEY, step INTEGER NOT NULL, split TEXT NOT NULL, evaluation INTEGER,
  problem INTEGER NOT NULL, roster INTEGER NOT NULL, turns INTEGER NOT NULL,
  agents INTEGER NOT NULL, stopped_early INTEGER NOT NULL,
  first_right INTEGER, final_right INTEGER,
  {_FLAGS}
);
CREATE INDEX discussions_step ON discussions(step);
CREATE INDEX discussions_evaluation ON discussions(evaluation) WHERE evaluation IS NOT NULL;
CREATE INDEX discussions_problem ON discussions(problem);

CREATE TABLE messages(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  correct INTEGER, score REAL, finish TEXT NOT NULL, tokens INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL, continues INTEGER NOT NULL,
  dropped_context INTEGER NOT NULL, policy TEXT,
  answer TEXT, text TEXT NOT NULL, prompt TEXT
);
CREATE UNIQUE INDEX messages_key ON messages(discussion, turn, agent);
CREATE TABLE message_tokens(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  prompt BLOB NOT NULL, ids BLOB NOT NULL, logprobs BLOB NOT NULL
);
CREATE UNIQUE INDEX message_tokens_key ON message_tokens(discussion, turn, agent);
CREATE TABLE reward_parts(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  {_PARTS},
  total REAL, advantage REAL, kl REAL, PRIMARY KEY(discussion, turn, agent)
) WITHOUT ROWID;

CREATE TABLE events(
  id INTEGER PRIMARY KEY, time REAL NOT NULL, level TEXT NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, step INTEGER
);
CREATE TABLE live_discussion(
  id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, step INTEGER NOT NULL,
  split TEXT NOT NULL, turns INTEGER NOT NULL, roster TEXT NOT NULL, problem_id TEXT NOT NULL,
  gold TEXT, started REAL NOT NULL, discussion INTEGER, question TEXT NOT NULL
);
CREATE TABLE live_messages(
  turn INTEGER NOT NULL, agent INTEGER NOT NULL, status TEXT NOT NULL, correct INTEGER,
  score REAL, reward REAL, answer TEXT, text TEXT NOT NULL, PRIMARY KEY(turn, agent)
);
CREATE TABLE requests(
  id INTEGER PRIMARY KEY, time REAL NOT NULL, command TEXT NOT NULL, args TEXT NOT NULL,
  acknowledged REAL, result TEXT
);
CREATE INDEX requests_open ON requests(id) WHERE acknowledged IS NULL;
"""

# Words of questions and messages, one row per discussion, without a second copy of the text.
# Deleting a row needs the very text that was indexed: ``rows.searchable`` belongs to the schema.
# The beginnings of words of 3 and 4 letters are indexed too: they match most, so cost most.
SEARCH = (
    "CREATE VIRTUAL TABLE search USING fts5(words, content='', tokenize='unicode61', prefix='3 4')"
)


def _name_steps_of_events(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE events ADD COLUMN step INTEGER")


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _name_steps_of_events}
"""From version n to n + 1, each run inside one transaction."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Fill an empty database, inside a transaction that stays open.

    Without FTS5 the store works and text search scans instead.
    """
    connection.executescript("BEGIN;" + TABLES)
    try:
        connection.execute(SEARCH)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
    connection.execute("INSERT INTO meta VALUES ('generation', '0')")


def stored_version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of an open store.

    Raises StoreError for a database that is not a maporl store or was made by a newer version.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is not a maporl store: name the folder of a run")
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    try:
        version = int(row[0])
    except (TypeError, ValueError):
        raise StoreError(f"{path} names no schema version: it is not a whole store") from None
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer maporl (schema {version}, this one knows "
            f"{SCHEMA_VERSION}): upgrade maporl to open it"
        )
    return version


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a writable store to the current schema, all steps or none."""
    if stored_version(connection, path) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = stored_version(connection, path)  # another process may have been faster
        while version < SCHEMA_VERSION:
            step = MIGRATIONS.get(version)
            if step is None:
                raise StoreError(
                    f"{path} has schema {version}, which this maporl no longer reads: "
                    "open it once with the version that wrote it and export it"
                )
            step(connection)
            version += 1
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(version),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
