"""What a run meets through the command: damage, a full disk, a vanished store, a second trainer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Command, command, tiny
from kills.killed_run import CHECKPOINT, ROLLOUT, STORE
from store_samples import ordinary_user

from maporl_core.store.checkpoint import find_resumable, list_checkpoints
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs folder of a run of four steps with checkpoints 2 and 4."""
    folder = tmp_path_factory.mktemp("finished")
    assert command(folder, "run", tiny(folder), "--root", folder / "runs")[0] == 0
    return folder / "runs"


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "runs")
    return tmp_path / "runs"


def steps_of(run: RunDir) -> list[int]:
    with StoreReader(run) as reader:
        return sorted({step for step, _, _ in reader.metrics_since(0).rows})


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (empty, "it is empty"),
    "a file cut off": (
        lambda f: (f / "trainer.safetensors").write_bytes(b"x"),
        "trainer.safetensors has 1 bytes instead of",
    ),
    "a file too many": (lambda f: (f / "more").touch(), "more does not belong to it"),
    "a link too many": (lambda f: (f / "more").symlink_to("/nowhere"), "more does not belong"),
    "a file missing": (lambda f: (f / "trainer.json").unlink(), "trainer.json is missing"),
    "a bit turned": (
        lambda f: (f / "trainer.json").write_bytes((f / "trainer.json").read_bytes()[:-1] + b" "),
        "trainer.json is not what was written (its hash differs)",
    ),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "it has no manifest.json"),
    "a manifest that is a pipe": (
        lambda f: ((f / "manifest.json").unlink(), os.mkfifo(f / "manifest.json")),
        "its manifest.json is not a file",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_and_none_whole_is_an_error(
    kind: str, root: Path, tmp_path: Path
) -> None:
    spoil, why = DAMAGE[kind]
    run = RunDir(root / "tiny")
    spoil(run.checkpoints / "step-000004")
    found = find_resumable(run)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 2
    assert f"passed over step-000004: {why}" in found.lines()[0]
    spoil(run.checkpoints / "step-000002")
    code, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=6")
    assert code == 5
    last = said.rstrip().splitlines()[-1]
    assert "'tiny' cannot go on, because none of its checkpoints is whole (step-000004: " in last
    assert steps_of(run) == [1, 2, 3, 4]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [
        "step-000002",
        "step-000004",
    ]


def test_the_newest_whole_checkpoint_is_used_with_a_line_for_those_passed_over(
    root: Path, tmp_path: Path
) -> None:
    run = RunDir(root / "tiny")
    (run.checkpoints / "step-000004" / "trainer.json").unlink()
    code, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=5")
    assert code == 0
    assert "warning: passed over step-000004: trainer.json is missing" in said
    assert "resuming from step-000002: the newest that is whole" in said
    assert steps_of(run) == [1, 2, 3, 4, 5]


def test_a_file_that_may_not_be_read_is_passed_over(tmp_path: Path, finished: Path) -> None:
    run = RunDir(tmp_path / "tiny")
    shutil.copytree(finished / "tiny", run.path)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and os.geteuid() == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    with ordinary_user(tmp_path):
        (run.checkpoints / "step-000004" / "trainer.json").chmod(0)
        found = find_resumable(run)
    assert found.passed_over[0][1] == "it cannot be read (Permission denied)"


def test_when_the_checkpoints_are_gone_nothing_stored_is_taken_back(
    root: Path, tmp_path: Path
) -> None:
    run = RunDir(root / "tiny")
    empty(run.checkpoints)
    code, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=6")
    assert code == 5
    assert "the checkpoints it wrote (the last one after step 4) are gone" in said
    assert steps_of(run) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("seed=7", 2),
        ("update.lr=0.5", 2),
        ("discussion.turns=3", 2),
        ("task.name=gsm8k", 2),
        ("eval.every=1", 0),
        ("checkpoint.every=1", 0),
        ("checkpoint.keep=9", 0),
        ("train.steps=5", 0),
    ],
)
def test_only_what_does_not_change_the_run_may_change_on_resume(
    change: str, code: int, root: Path, tmp_path: Path
) -> None:
    found, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", change)
    assert found == code, said
    if code:
        assert f"other values of {change.split('=')[0]};" in said


def test_a_config_edited_behind_the_checkpoints_back_is_refused(root: Path, tmp_path: Path) -> None:
    run = RunDir(root / "tiny")
    text = run.config.read_text("utf-8")
    assert "lr = 0.001" in text
    run.config.write_text(text.replace("lr = 0.001", "lr = 0.1"), "utf-8")
    code, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=6")
    assert code == 2
    assert "the run was made with other values of update.lr;" in said
    assert steps_of(run) == [1, 2, 3, 4]


def test_a_checkpoint_of_another_version_is_refused_in_one_line(root: Path, tmp_path: Path) -> None:
    run = RunDir(root / "tiny")
    for saved in list_checkpoints(run):
        path = saved.path / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    code, said = command(tmp_path, "resume", "tiny", "--root", root, "--set", "train.steps=6")
    assert code == 5
    assert "written by a newer maporl (manifest version 99)" in said


def test_a_second_trainer_is_refused_while_the_first_lives_and_only_then(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    first = Command(["run", str(tiny(tmp_path)), "--root", str(root)], tmp_path).until(ROLLOUT)
    first.signal(19)  # SIGSTOP: it lives but does nothing
    code, said = command(tmp_path, "resume", "tiny", "--root", root)
    assert code == 5
    assert "run 'tiny' is being trained by process" in said
    first.signal(9)
    assert first.end()[0] == -9
    assert command(tmp_path, "resume", "tiny", "--root", root)[0] == 0


@pytest.mark.parametrize("what", ["run.db", "."])
def test_a_store_removed_under_the_run_ends_it_with_one_line(what: str, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    running = Command(["run", str(tiny(tmp_path)), "--root", str(root)], tmp_path).until(ROLLOUT, 3)
    victim = root / "tiny" / what
    victim.rename(tmp_path / "away")
    code, said = running.end()
    assert code == 5, said
    assert "was removed or replaced while the run was using it" in said
    assert "Traceback" not in said
    (tmp_path / "away").rename(victim)
    assert steps_of(RunDir(root / "tiny"))[:1] == [1]
    assert command(tmp_path, "resume", "tiny", "--root", root)[0] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_runs_folder_is_one_line(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir(mode=0o555)
    code, said = command(tmp_path, "run", tiny(tmp_path), "--root", root)
    assert code == 5
    assert "permission denied" in said


def can_mount() -> bool:
    try:
        words = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="cannot mount a small disk here")
def test_a_runs_folder_on_a_disk_that_is_read_only_is_one_line(tmp_path: Path) -> None:
    maporl = f"{sys.executable} -m maporl_core"
    script = (
        "mount -t tmpfs none /mnt && mount -o remount,ro /mnt || exit 99\n"
        f"{maporl} run {tiny(tmp_path)} --root /mnt/runs\n"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stdout + done.stderr
    assert "the file system is read-only: choose another runs folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not can_mount(), reason="cannot mount a small disk here")
@pytest.mark.parametrize(("size", "where"), [("64k", "run.db"), ("600k", "run.db"), ("2m", "step")])
def test_a_full_disk_ends_the_run_with_one_line_and_what_was_saved_stays(
    size: str, where: str, tmp_path: Path
) -> None:
    """Real disks of three sizes: too small for a store, for the first steps, for a checkpoint."""
    maporl = f"{sys.executable} -m maporl_core"
    script = (
        f"mount -t tmpfs -o size={size} none /mnt || exit 99\n"
        f"{maporl} run {tiny(tmp_path)} --root /mnt --set checkpoint.every=1 --steps 40\n"
        f"code=$?\ncp -r /mnt/. {tmp_path}/kept; exit $code\n"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stdout + done.stderr
    assert "the disk is full" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    run = RunDir(tmp_path / "kept" / "tiny")
    if where == "step":
        found = find_resumable(run)
        assert found.checkpoint is not None
        assert found.passed_over == ()
        assert command(tmp_path, "resume", "tiny", "--root", run.path.parent, "--set",
                       f"train.steps={found.checkpoint.step + 1}")[0] == 0  # fmt: skip


@pytest.mark.parametrize("phase", [STORE, CHECKPOINT])
def test_a_disk_that_refuses_to_write_more_ends_the_run_with_one_line(
    phase: str, tmp_path: Path
) -> None:
    import resource

    root = tmp_path / "runs"
    running = Command(["run", str(tiny(tmp_path)), "--root", str(root)], tmp_path).until(phase)
    # Files may grow no more: what a limit of the batch system does.
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (10_000, 10_000))
    code, said = running.end()
    assert code == 5, said
    assert "Traceback" not in said
    assert "file size limit" in said
