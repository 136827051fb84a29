"""The tables of ``run.db`` and their version.

In: an open SQLite connection.  Out: the same one holding the current schema.  Neighbours:
``database`` opens files and calls this; ``older`` knows the schemas of before; ``rows`` and
``load`` speak the tables named here.

``docs/store.md`` explains every table.  Booleans are 0/1; free text is written by
``values.put_text``; turns and agents count from 0.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from maporl_core.errors import StoreError

SCHEMA_VERSION = 3
APPLICATION_ID = 0x4D41504F  # "MAPO", at byte 68 of the file
BUCKET_WIDTHS = (16, 256)
"""Steps per row of ``metric_buckets``: long series are drawn from these, not step by step."""

OUTCOME_FLAGS = ("corrected", "broke", "persuaded", "all_wrong", "all_right")

_FLAGS = ",\n  ".join(f"{name} INTEGER NOT NULL" for name in OUTCOME_FLAGS)

PLACES = """
CREATE UNIQUE INDEX messages_key ON messages(discussion, turn, agent, branch);
CREATE UNIQUE INDEX message_tokens_key ON message_tokens(discussion, turn, agent, branch);
CREATE TABLE rewards(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  branch INTEGER NOT NULL, total REAL, advantage REAL, kl REAL,
  PRIMARY KEY(discussion, turn, agent, branch)
) WITHOUT ROWID;
CREATE TABLE reward_terms(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  branch INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
  PRIMARY KEY(discussion, turn, agent, branch, name)
) WITHOUT ROWID;
"""
LIVE_MESSAGES = """
CREATE TABLE live_messages(
  turn INTEGER NOT NULL, agent INTEGER NOT NULL, branch INTEGER NOT NULL DEFAULT 0,
  phase TEXT NOT NULL DEFAULT 'answer', status TEXT NOT NULL, correct INTEGER, score REAL,
  reward REAL, answer TEXT, text TEXT NOT NULL, PRIMARY KEY(turn, agent, branch)
);
"""

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
  problem INTEGER NOT NULL, sample INTEGER NOT NULL DEFAULT 0, roster INTEGER NOT NULL,
  turns INTEGER NOT NULL, agents INTEGER NOT NULL, stopped_early INTEGER NOT NULL,
  first_right INTEGER, final_right INTEGER, final_said INTEGER,
  {_FLAGS}
);
CREATE INDEX discussions_step ON discussions(step);
CREATE INDEX discussions_evaluation ON discussions(evaluation) WHERE evaluation IS NOT NULL;
CREATE INDEX discussions_problem ON discussions(problem);

CREATE TABLE messages(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  branch INTEGER NOT NULL DEFAULT 0, chosen INTEGER NOT NULL DEFAULT 1,
  phase TEXT NOT NULL DEFAULT 'answer',
  correct INTEGER, score REAL, finish TEXT NOT NULL, tokens INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL, continues INTEGER NOT NULL,
  dropped_context INTEGER NOT NULL, policy TEXT,
  answer TEXT, text TEXT NOT NULL, prompt TEXT
);
CREATE TABLE message_tokens(
  discussion INTEGER NOT NULL, turn INTEGER NOT NULL, agent INTEGER NOT NULL,
  branch INTEGER NOT NULL DEFAULT 0,
  prompt BLOB NOT NULL, ids BLOB NOT NULL, logprobs BLOB NOT NULL
);
{PLACES}
CREATE TABLE events(
  id INTEGER PRIMARY KEY, time REAL NOT NULL, level TEXT NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, step INTEGER
);
CREATE TABLE live_discussion(
  id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, step INTEGER NOT NULL,
  split TEXT NOT NULL, turns INTEGER NOT NULL, roster TEXT NOT NULL, problem_id TEXT NOT NULL,
  gold TEXT, started REAL NOT NULL, discussion INTEGER, question TEXT NOT NULL
);
{LIVE_MESSAGES}
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
