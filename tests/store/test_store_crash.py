"""What a store survives: many processes, kill -9, full disks, removed and read-only folders."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import new_run, ordinary_user, paid, summary

from maporl_core.errors import ConfigError, StoreError
from maporl_core.store.database import is_store, network_file_system, open_for_writing
from maporl_core.store.lock import HEARTBEAT_LIMIT, holder
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter, StoreReader
from maporl_core.store.writer import Line, StoreWriter

HERE = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}"}

ASKER = """
import sys, time
from pathlib import Path
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter
from maporl_core.store.writer import StoreWriter
run, until = RunDir(Path(sys.argv[1])), time.time() + float(sys.argv[2])
asked = 0
while time.time() < until:
    RequestWriter(run).add("checkpoint", {"n": asked}, require_trainer=False)
    with StoreWriter(run) as writer:
        writer.event("info", "asker", str(asked))
    asked += 1
print(asked)
"""

TRAINER = """
import sys, time
from pathlib import Path
from store_samples import paid
from maporl_core.store.paths import RunDir
from maporl_core.store.records import LiveMessage
from maporl_core.store.writer import StoreWriter
run, until = RunDir(Path(sys.argv[1])), time.time() + float(sys.argv[2])
step = 0
with run.lock() as lock, StoreWriter(run) as writer:
    writer.set_state("running")
    while time.time() < until:
        step += 1
        writer.write_step(step, [paid(100 * step + i) for i in range(20)], {"a": float(step)})
        writer.live.begin(step, "train", paid(step).discussion.problem, ("Ada",), 1)
        writer.live.update([LiveMessage(0, 0, "writing", "..." * step)])
        for request in writer.poll_requests():
            writer.acknowledge(request.id, "done")
        lock.beat()
        print(step, flush=True)
"""


def python(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def test_a_trainer_and_four_writers_beside_a_reader_are_never_locked_out(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    seconds = float(os.environ.get("MAPORL_SOAK_SECONDS", "2"))
    askers = [python(ASKER, run.path, seconds) for _ in range(4)]
    trainer = python(TRAINER, run.path, seconds + 0.5)
    looks = 0
    with StoreReader(run) as reader:
        while any(process.poll() is None for process in (*askers, trainer)):
            rows = reader.page()
            for row in rows[:3]:
                reader.discussion(row.id)
            reader.metrics_since(0)
            reader.live()
            looks += 1
            time.sleep(0.01)
        outputs = [process.communicate() for process in (*askers, trainer)]
        assert [error for _, error in outputs] == [""] * 5
        asked = sum(int(out) for out, _ in outputs[:4])
        steps = len(outputs[4][0].split())
        assert asked > 0
        assert looks > 10
        assert len(reader.requests_since(limit=10**6)) == asked
        assert len(reader.events_since(limit=10**6)) == asked
        assert reader.status().step == steps
        assert reader.count() == 20 * steps


def test_a_killed_writer_loses_nothing_committed_and_swallows_nothing_after(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committed = 0
    for _ in range(3):
        trainer = python(TRAINER, run.path, 60)
        assert trainer.stdout is not None
        for _ in range(4):
            trainer.stdout.readline()
        time.sleep(0.02)  # into the middle of a write
        trainer.kill()
        rest, _ = trainer.communicate()
        with StoreReader(run) as reader:
            status = reader.status()
            assert status.state == "died"
            # The last step may be committed and not yet printed.
            printed = [int(line) for line in rest.split()]
            assert status.step >= max(printed, default=4)
            assert reader.count() == 20 * status.step
            assert [s for s, _, _ in reader.metrics_since(0).rows] == [*range(1, status.step + 1)]
        with StoreWriter(run) as writer:
            writer.truncate_after(0)
            committed += 1
            writer.event("info", "test", f"after kill {committed}")
        with StoreReader(run) as reader:
            assert reader.last_events(1)[0].text == f"after kill {committed}"
            assert reader.count() == 0
    connection = sqlite3.connect(run.database)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


KILLED_IN_LINE = """
import os, signal, sys
from pathlib import Path
from store_samples import paid, summary
from maporl_core.store.paths import RunDir
from maporl_core.store.writer import Line, StoreWriter
run, after = RunDir(Path(sys.argv[1])), sys.argv[2]
with StoreWriter(run) as writer:
    writer._connection.set_trace_callback(
        lambda sql: sql.startswith(after) and os.kill(os.getpid(), signal.SIGKILL)
    )
    writer.write_evaluation(0, summary(), [paid(1)], lines=[Line("warning", "context", "cut", 0)])
"""


@pytest.mark.parametrize("moment", ["INSERT INTO events", "COMMIT"])
def test_an_evaluation_and_its_line_are_there_together_or_not_at_all(
    tmp_path: Path, moment: str
) -> None:
    run = new_run(tmp_path)
    words = [sys.executable, "-c", KILLED_IN_LINE, str(run.path), moment]
    assert subprocess.run(words, env=ENVIRONMENT, check=False).returncode == -signal.SIGKILL
    with StoreReader(run) as reader:
        assert (reader.evaluations(), reader.events_since()) == ((), ())
    with StoreWriter(run) as writer:
        writer.write_evaluation(0, summary(), [paid(1)], lines=[Line("warning", "context", "cut")])
    with StoreReader(run) as reader:
        assert len(reader.evaluations()) == len(reader.events_since()) == 1
    assert run.log_tail()[-1].endswith("warning context: cut")


def test_a_half_written_step_is_not_there_after_a_kill(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    code = """
import os, sys
from pathlib import Path
from store_samples import paid
from maporl_core.store.paths import RunDir
from maporl_core.store.writer import StoreWriter
writer = StoreWriter(RunDir(Path(sys.argv[1])))
writer.write_step(1, [paid(1)], {})
def endless():
    for i in range(5000):
        yield paid(i)
    os.kill(os.getpid(), 9)
writer.write_step(2, endless(), {})
"""
    process = python(code, run.path)
    process.wait(30)
    assert process.returncode == -signal.SIGKILL
    process.communicate()
    with StoreWriter(run) as writer:
        writer.write_step(2, [paid(7)], {"a": 1.0})
    with StoreReader(run) as reader:
        assert [row.problem_id for row in reader.page()] == ["q7", "q1"]


def test_only_one_trainer_at_a_time_and_the_refusal_names_it(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with run.lock(), pytest.raises(StoreError, match=f"process {os.getpid()} on"):
        run.lock().acquire()
    with run.lock() as lock:
        assert lock.held


def test_a_dead_trainer_does_not_keep_the_lock_even_if_its_child_lives(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    code = """
import os, sys, time
from pathlib import Path
from maporl_core.store.paths import RunDir
lock = RunDir(Path(sys.argv[1])).lock().acquire()
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
print(child, flush=True)
time.sleep(30)
"""
    trainer = python(code, run.path)
    assert trainer.stdout is not None
    child = int(trainer.stdout.readline())
    try:
        with pytest.raises(StoreError, match=f"process {trainer.pid} on"):
            run.lock().acquire()
        trainer.kill()
        trainer.wait(10)
        with run.lock() as lock:
            assert lock.held
    finally:
        os.kill(child, signal.SIGKILL)
        trainer.communicate()


def test_a_reader_looking_at_the_lock_does_not_stop_a_trainer(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    code = """
import sys, time
from pathlib import Path
from maporl_core.store.lock import holder
end = time.time() + 2
while time.time() < end:
    holder(Path(sys.argv[1]))
"""
    looker = python(code, run.lock_file)
    time.sleep(0.3)
    for _ in range(50):
        with run.lock() as lock:
            assert lock.held
    looker.kill()
    assert looker.communicate()[1] == ""


def test_where_the_file_system_has_no_locks_the_note_of_a_living_trainer_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    run = new_run(tmp_path)
    assert holder(run.lock_file) is None
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    note = {"pid": sleeper.pid, "host": socket.gethostname(), "since": 0.0}
    run.lock_file.write_text(json.dumps(note))
    try:
        found = holder(run.lock_file)
        assert found is not None
        assert found.pid == sleeper.pid
        with pytest.raises(StoreError, match=f"process {sleeper.pid} on"):
            run.lock().acquire()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert holder(run.lock_file) is None
    with run.lock() as lock:
        assert lock.held


def test_a_trainer_on_another_machine_lives_as_long_as_its_heartbeat(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.lock_file.write_text(json.dumps({"pid": 1, "host": "far-away", "since": 0.0}))
    found = holder(run.lock_file)
    assert found is not None
    assert (found.pid, found.host) == (1, "far-away")
    old = time.time() - HEARTBEAT_LIMIT - 1
    os.utime(run.lock_file, (old, old))
    assert holder(run.lock_file) is None


def test_status_follows_the_trainer_not_only_its_words(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreReader(run) as reader, StoreWriter(run) as writer:
        assert reader.status().state == "new"
        with run.lock() as lock:
            writer.set_state("running")
            lock.beat()
            status = reader.status()
            assert (status.state, status.pid, status.steps) == ("running", os.getpid(), 10)
            assert status.quiet is not None
            assert status.quiet < 60
            os.utime(run.lock_file, (time.time() + 9e5, time.time() + 9e5))  # the clock went back
            assert reader.status().quiet == 0.0
            writer.set_state("paused")
            assert reader.status().state == "paused"
        assert reader.status().state == "died"
        writer.set_state("failed", "loss is not finite")
        assert (reader.status().state, reader.status().reason) == ("failed", "loss is not finite")
        with pytest.raises(ValueError, match="unknown state"):
            writer.set_state("fine")


def test_requests_reach_a_living_trainer_and_are_answered_once(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    asker = RequestWriter(run)
    with pytest.raises(StoreError, match="no living trainer to pause"):
        asker.add("pause")
    with pytest.raises(ConfigError, match="did you mean 'checkpoint'"):
        asker.add("chekpoint")
    with run.lock(), StoreWriter(run) as writer, StoreReader(run) as reader:
        key = asker.add("stop", {"after": "step \ud800"})
        (request,) = writer.poll_requests()
        assert (request.id, request.command, request.args) == (
            key,
            "stop",
            {"after": "step \ud800"},
        )
        writer.acknowledge(key, "stopping after step 3")
        writer.acknowledge(key, "a second answer")
        assert writer.poll_requests() == ()
        answered = reader.request(key)
        assert answered.result == "stopping after step 3"
        assert answered.acknowledged is not None
        asker.add("pause")
        assert writer.expire_requests("the run ended before it could") == 1
        assert reader.requests_since(key)[0].result == "the run ended before it could"


def test_a_removed_or_replaced_store_stops_the_writer_with_one_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [paid(1)], {})
        away = tmp_path / "away"
        run.path.rename(away)
        with pytest.raises(StoreError, match="was removed or replaced"):
            writer.write_step(2, [], {})
        with pytest.raises(StoreError, match="is gone"):
            reader.page()
        away.rename(run.path)
        writer.write_step(2, [], {})
        assert reader.count() == 1
        shutil.copy(run.database, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(run.database)
        with pytest.raises(StoreError, match="was removed or replaced"):
            writer.write_step(3, [], {})


def test_a_reader_goes_on_when_the_run_is_made_anew(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreReader(run) as reader:
        assert reader.count() == 0
        shutil.rmtree(run.path)
        new_run(tmp_path)
        with StoreWriter(run) as writer:
            writer.write_step(1, [paid(5)], {})
        assert [row.problem_id for row in reader.page()] == ["q5"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a maporl store"),
        (b"not a database, just some text that is long enough to be read as a header\n" * 20,
         "not a maporl store"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    run = new_run(tmp_path)
    run.database.write_bytes(content)
    for opener in (StoreReader, StoreWriter):
        with pytest.raises(StoreError, match=why):
            opener(run)


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.database.unlink()
    connection = sqlite3.connect(run.database)
    connection.execute("CREATE TABLE mine(a)")
    connection.commit()
    connection.close()
    before = run.database.read_bytes()
    for opener in (StoreReader, StoreWriter):
        with pytest.raises(StoreError, match="not a maporl store"):
            opener(run)
    assert run.database.read_bytes() == before


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer:
        writer.write_step(1, [paid(i) for i in range(200)], {})
    data = bytearray(run.database.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    run.database.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="damaged") as caught, StoreReader(run) as reader:
        reader.page()
    assert "\n" not in str(caught.value)


def test_a_full_database_is_one_line_and_keeps_what_was_there(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [paid(1)], {})
        pages = writer._connection.execute("PRAGMA page_count").fetchone()[0]
        writer._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="disk is full: free some space") as caught:
            writer.write_step(2, [paid(i, text="x" * 5000) for i in range(50)], {})
        assert caught.value.exit_code == 5
        assert reader.count() == 1
        writer._connection.execute("PRAGMA max_page_count = 1000000")
        writer.write_step(2, [paid(2)], {})
        assert reader.count() == 2


FULL_DISK = """
import sys
from pathlib import Path
from store_samples import new_run, paid
from maporl_core.errors import StoreError
from maporl_core.store.checkpoint import find_resumable, write_checkpoint
from maporl_core.store.reader import StoreReader
from maporl_core.store.state_files import save_state
from maporl_core.store.writer import StoreWriter
run = new_run(Path(sys.argv[1]))
writer = StoreWriter(run)
step = 0
with write_checkpoint(run, 1, keep=3) as folder:
    (folder / "a").write_bytes(b"small")
try:
    with write_checkpoint(run, 2, keep=3) as folder:
        (folder / "a").write_bytes(b"x" * 10_000_000)
except StoreError as error:
    assert "disk is full" in str(error), error
    print("checkpoint")
try:
    import torch
    with write_checkpoint(run, 2, keep=3) as folder:
        save_state(folder / "state", torch.zeros(3_000_000))
except StoreError as error:
    assert "disk is full" in str(error), error
    print("tensors")
found = find_resumable(run)
assert found.checkpoint.step == 1 and found.passed_over == ()
assert [p.name for p in run.checkpoints.iterdir()] == ["step-000001"]
try:
    while True:
        step += 1
        writer.write_step(step, [paid(i, text="x" * 20_000) for i in range(20)], {"a": 1.0})
except StoreError as error:
    assert "disk is full" in str(error), error
    print("store")
with StoreReader(run) as reader:
    assert step > 1 and reader.status().step == step - 1
    assert reader.count() == 20 * (step - 1)
"""


@pytest.mark.skipif(
    sys.platform != "linux"
    or subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="cannot mount a small disk here",
)
def test_a_disk_that_really_fills_up_keeps_everything_before(tmp_path: Path) -> None:
    script = tmp_path / "fill.py"
    script.write_text(FULL_DISK)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c",
         f"mount -t tmpfs -o size=6m none /mnt && exec {sys.executable} {script} /mnt"],
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["checkpoint", "tensors", "store"], 0), (
        done.stderr
    )


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder an ordinary user can reach; pytest's own are closed to all but their owner."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755)


@pytest.mark.parametrize("left_behind", ["nothing", "log", "log without index"])
def test_a_read_only_folder_shows_everything_committed(
    public_folder: Path, left_behind: str
) -> None:
    run = new_run(public_folder)
    with StoreWriter(run) as writer:
        writer.write_step(1, [paid(1)], {})
        killed = public_folder / "killed"
        shutil.copytree(run.path, killed)  # as a kill would leave it
    frozen = run if left_behind == "nothing" else RunDir(killed)
    if left_behind == "log without index":
        killed.joinpath("run.db-shm").unlink()
    assert (frozen.path / "run.db-wal").exists() == (left_behind != "nothing")
    with ordinary_user(public_folder):
        for path in (*frozen.path.iterdir(), frozen.path):
            path.chmod(0o555 if path.is_dir() else 0o444)
        with StoreReader(frozen) as reader:
            assert reader.count() == 1
            assert reader.discussion(1).row.problem_id == "q1"
            assert not [reader.changed(), reader.changed()][1]
        with pytest.raises(StoreError, match="permission denied"):
            StoreWriter(frozen)


def test_a_run_cannot_be_made_in_a_read_only_folder(public_folder: Path) -> None:
    with ordinary_user(public_folder):
        public_folder.chmod(0o555)
        with pytest.raises(StoreError, match="permission denied"):
            new_run(public_folder)
        public_folder.chmod(0o755)


def test_a_network_file_system_gets_a_rollback_journal_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    part = type("Part", (), {"mountpoint": str(tmp_path.resolve()), "fstype": "nfs4"})
    monkeypatch.setattr(psutil, "disk_partitions", lambda all=False: [part])
    assert network_file_system(tmp_path / "x" / "run.db") == "nfs4"
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [paid(1)], {})
        assert writer._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert "rollback journal" in reader.last_events(1)[0].text
        assert reader.count() == 1
    assert "nfs4" in run.log.read_text()
    monkeypatch.setattr(psutil, "disk_partitions", lambda all=False: [])
    connection = open_for_writing(run.database)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_store_held_locked_by_somebody_else_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maporl_core.store.database.WRITE_PATIENCE", 0.1)
    run = new_run(tmp_path)
    with StoreWriter(run) as writer:
        other = sqlite3.connect(run.database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds the store locked"):
            writer.write_step(1, [], {})
        other.execute("ROLLBACK")
        other.close()
        writer.write_step(1, [], {})


def test_the_log_tells_the_same_story_in_any_text(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert run.log_tail() == ()
    with StoreWriter(run) as writer:
        writer.event("warning", "loss", "not finite\nin message 3 \ud800")
        for i in range(50):
            writer.event("info", "step", f"step {i}")
    assert run.log_tail(2)[-1].endswith("info step: step 49")
    assert len(run.log_tail(7)) == 7
    first, second = run.log.read_text().splitlines()[:2]
    assert first.endswith("warning loss: not finite")
    assert second == "    in message 3 \\ud800"


def test_only_stores_look_like_stores(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert is_store(run.database)
    assert not is_store(run.config)
    assert not is_store(tmp_path)
    assert not is_store(tmp_path / "nothing")
