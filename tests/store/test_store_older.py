"""Stores of other versions: read as they are, brought up to date by a writer, or refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from store_samples import new_run, ordinary_user, paid, summary

from maporl_core.errors import StoreError
from maporl_core.store import older, schema
from maporl_core.store.database import open_for_writing
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import (
    DiscussionFilter,
    RequestWriter,
    StoredDiscussion,
    StoreReader,
)
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Place

HERE = Path(__file__).parents[1]
KEPT = HERE / "data" / "schema2" / "old"
EXPECTED = HERE / "data" / "schema2" / "expected"
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}"}


@pytest.fixture
def old(tmp_path: Path) -> RunDir:
    """A copy of the run that the writer of schema 2 made."""
    shutil.copytree(KEPT, tmp_path / "old")
    return RunDir(tmp_path / "old")


def digest(run: RunDir) -> str:
    return hashlib.sha256(run.database.read_bytes()).hexdigest()


def everything(run: RunDir) -> tuple[list[StoredDiscussion], list[tuple[int, ...]], list[object]]:
    """All that a reader shows of a run's discussions, and of what hangs on them."""
    filters = [DiscussionFilter(**{flag: True}) for flag in schema.OUTCOME_FLAGS]
    filters += [DiscussionFilter(majority_right=right) for right in (True, False)]
    filters += [DiscussionFilter(text="cards"), DiscussionFilter(split="eval")]
    with StoreReader(run) as reader:
        pages = [tuple(row.id for row in reader.page(wanted)) for wanted in filters]
        values = [reader.reward_values(p.name) for p in reader.reward_parts()]
        rest: list[object] = [reader.reward_parts(), values, reader.reward_values("advantage")]
        rest += [reader.outcomes(e.id) for e in reader.evaluations()]
        rest += [reader.live(), reader.events_since(0), reader.requests_since(0)]
        return list(reader.discussions()), pages, rest


def version(run: RunDir) -> str:
    connection = sqlite3.connect(run.database)
    (found,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    connection.close()
    return str(found)


def set_version(run: RunDir, number: str) -> None:
    connection = sqlite3.connect(run.database)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (number,))
    connection.commit()
    connection.close()


# Reading -----------------------------------------------------------------------------------------


def test_reading_leaves_an_older_store_byte_for_byte_as_it_was(old: RunDir) -> None:
    before = digest(old)
    found, pages, _ = everything(old)
    assert len(found) == 24
    assert any(pages)
    assert digest(old) == before == digest(RunDir(KEPT))


def test_an_older_store_shows_its_pay_part_by_part(old: RunDir) -> None:
    with StoreReader(old) as reader:
        assert [part.name for part in reader.reward_parts()][:3] == ["own", "influence", "critical"]
        stored = reader.discussion(7)
    assert stored.rewards is not None
    reward = stored.rewards[Place(7, 1, 1)]
    wanted = next(
        message["reward"]
        for line in (EXPECTED / "discussions.jsonl").read_text("utf-8").splitlines()
        if (row := json.loads(line))["id"] == 7
        for message in row["messages"]
        if (message["turn"], message["agent"]) == (2, 2)
    )
    assert reward.pay.parts == {n: v for n, v in wanted.items() if n in reward.pay.parts}
    assert [reward.pay.total, reward.advantage] == [wanted["total"], wanted["advantage"]]


def test_an_older_store_in_a_folder_that_cannot_be_written_is_read(old: RunDir) -> None:
    """In a folder that an ordinary user can reach; pytest's own are closed to others."""
    wanted = everything(old)
    with tempfile.TemporaryDirectory() as name:
        public = Path(name)
        public.chmod(0o755)
        frozen = RunDir(public / "old")
        shutil.copytree(KEPT, frozen.path)
        with ordinary_user(public):
            for path in (frozen.database, frozen.path):
                path.chmod(0o555 if path.is_dir() else 0o444)
            assert everything(frozen) == wanted
            with pytest.raises(StoreError, match="permission denied"):
                StoreWriter(frozen)
            frozen.path.chmod(0o755)
        assert digest(frozen) == digest(RunDir(KEPT))


def test_a_reader_goes_on_when_a_writer_brings_its_store_up_to_date(old: RunDir) -> None:
    with StoreReader(old) as reader:
        before = reader.discussion(8)
        with StoreWriter(old):
            pass
        assert version(old) == str(schema.SCHEMA_VERSION)
        assert reader.discussion(8) == before
        assert reader.meta()["schema"] == str(schema.SCHEMA_VERSION)


def test_the_queries_of_an_older_store_use_its_keys(old: RunDir) -> None:
    """A view that SQLite had to compute whole would make every page of a long run wait."""
    with StoreReader(old) as reader, reader._view.read() as connection:
        for query in (
            "SELECT * FROM messages WHERE discussion IN (7, 8) ORDER BY rowid",
            "SELECT * FROM reward_terms WHERE discussion IN (7, 8)",
            "SELECT value FROM reward_terms WHERE discussion = 7 AND turn = 0 AND agent = 0 "
            "AND branch = 0 AND name = 'own'",
            "SELECT * FROM rewards WHERE discussion IN (7, 8)",
        ):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert any("SEARCH" in line and "discussion=?" in line for line in plan), plan
            assert not any(line.startswith(("SCAN main", "SCAN w", "SCAN me")) for line in plan)


def test_a_store_of_the_first_version_is_read_and_migrated(old: RunDir) -> None:
    """It lacked only the steps of events."""
    connection = sqlite3.connect(old.database)
    connection.execute("ALTER TABLE events DROP COLUMN step")
    connection.close()
    set_version(old, "1")
    with StoreReader(old) as reader:
        assert [event.step for event in reader.events_since(0)] == [None] * 3
        assert len(list(reader.discussions())) == 24
    wanted = everything(old)
    with StoreWriter(old):
        pass
    assert everything(old) == wanted


# Writing -----------------------------------------------------------------------------------------


def test_a_migrated_store_shows_what_it_showed_before(old: RunDir) -> None:
    before = everything(old)
    with StoreWriter(old):
        pass
    assert version(old) == str(schema.SCHEMA_VERSION)
    assert everything(old) == before


def test_a_migrated_store_takes_new_steps_and_forgets_old_ones(old: RunDir) -> None:
    with StoreWriter(old) as writer, StoreReader(old) as reader:
        (key,) = writer.write_step(4, [paid(4, text="afresh")], {"a": 1.0})
        assert reader.discussion(key).row.problem_id == "q4"
        assert [row.id for row in reader.page(DiscussionFilter(text="afresh"))] == [key]
        assert writer.truncate_after(2) == 2
        writer.write_evaluation(2, summary("again"), [paid(5)])
        assert reader.status().step == 2
        assert reader.count(DiscussionFilter(split="train")) == 6
        assert reader.count(DiscussionFilter(text="afresh")) == 0
    connection = sqlite3.connect(old.database)
    connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_request_leaves_the_store_of_an_older_trainer_as_it_is(old: RunDir) -> None:
    key = RequestWriter(old).add("pause", require_trainer=False)
    assert version(old) == "2"
    with StoreReader(old) as reader:
        assert reader.request(key).command == "pause"


def test_the_store_of_a_run_that_another_process_trains_is_not_migrated(old: RunDir) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from maporl_core.store.paths import RunDir\n"
        "with RunDir(Path(sys.argv[1])).lock():\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, str(old.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=ENVIRONMENT, stdin=pipe, stdout=pipe) as trainer:
        assert trainer.stdout is not None
        trainer.stdout.readline()
        with pytest.raises(StoreError, match=f"trained by process {trainer.pid}.*wait"):
            StoreWriter(old)
        trainer.communicate()
    assert version(old) == "2"
    with old.lock(), StoreWriter(old):  # its own trainer may
        pass
    assert version(old) == str(schema.SCHEMA_VERSION)


@pytest.mark.parametrize("statement", ["INSERT INTO reward_terms", "DROP TABLE reward_parts"])
def test_a_migration_killed_midway_leaves_the_old_store_whole(old: RunDir, statement: str) -> None:
    wanted = everything(old)
    program = (
        "import os, signal, sqlite3, sys; from pathlib import Path\n"
        "from maporl_core.store import older, schema\n"
        "from maporl_core.store.database import open_for_writing\n"
        "def killed(connection):\n"
        "    connection.execute('PRAGMA cache_size = 1')  # so that much is on disk already\n"
        "    connection.set_trace_callback(lambda sql: sys.argv[2] in sql\n"
        "                                  and os.kill(os.getpid(), signal.SIGKILL))\n"
        "    older._give_messages_places(connection)\n"
        "older.MIGRATIONS[2] = killed\n"
        "open_for_writing(Path(sys.argv[1]))\n"
    )
    words = [sys.executable, "-c", program, str(old.database), statement]
    assert subprocess.run(words, env=ENVIRONMENT, check=False).returncode == -signal.SIGKILL
    assert version(old) == "2"
    assert everything(old) == wanted
    with StoreWriter(old):
        pass
    assert everything(old) == wanted


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    set_version(run, "0")

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half(a)")
        raise sqlite3.OperationalError("no such table: x")

    monkeypatch.setitem(older.MIGRATIONS, 0, half)
    with pytest.raises(StoreError, match="not a whole maporl store"):
        StoreWriter(run)
    connection = sqlite3.connect(run.database)
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None
    connection.close()


# Refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opener", [StoreReader, StoreWriter])
def test_a_version_without_a_way_up_is_refused(
    tmp_path: Path, opener: type[StoreReader | StoreWriter]
) -> None:
    run = new_run(tmp_path)
    set_version(run, "-3")
    with pytest.raises(StoreError, match="no longer reads"):
        opener(run)


@pytest.mark.parametrize("opener", [StoreReader, StoreWriter])
def test_a_store_of_a_newer_version_is_refused(
    tmp_path: Path, opener: type[StoreReader | StoreWriter]
) -> None:
    run = new_run(tmp_path)
    set_version(run, "99")
    with pytest.raises(StoreError, match=r"newer maporl \(schema 99.*upgrade"):
        opener(run)


def test_a_current_store_is_opened_without_a_migration(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    open_for_writing(run.database, lambda: pytest.fail("asked to migrate")).close()
