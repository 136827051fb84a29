"""Folders that are whole or not there: checkpoints with a manifest, and which one to resume from.

In: a run and a block that fills a folder.  Out: ``checkpoints/step-NNNNNN/`` with ``manifest.json``
(sizes and hashes of every file).  Neighbours: ``run_state`` fills it, ``train`` decides when,
``state_files`` writes tensors and plain state.  Knows nothing of what is inside; no torch.

A folder is filled under a temporary name, every file and folder is flushed to disk, and only then
it is renamed.  Whatever moment the machine stops at, what carries the final name is whole.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maporl_core.errors import StoreError
from maporl_core.store.failures import os_error, store_errors
from maporl_core.store.manifest import flush, flush_tree, read_manifest, verify, write_manifest
from maporl_core.store.paths import RunDir

_NAME = re.compile(r"step-(\d{6,})")
_OLD = re.compile(r"\.old-(step-\d{6,})-\d+")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint with a readable manifest; its files are not checked yet.

    ``score``: how good it was (higher is better), None if it was not measured.
    """

    path: Path
    step: int
    created: float
    score: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resumable:
    """The checkpoint to go on from, or None, and the newer ones that cannot be used, with why."""

    checkpoint: Checkpoint | None
    passed_over: tuple[tuple[Path, str], ...] = ()

    def lines(self) -> tuple[str, ...]:
        """What to tell the user, one line per checkpoint."""
        skipped = tuple(f"passed over {path.name}: {why}" for path, why in self.passed_over)
        if self.checkpoint is None and skipped:
            return (*skipped, "no checkpoint is whole")
        if self.checkpoint is None:
            return ("no checkpoint yet: starting from step 0",)
        chosen = self.checkpoint.path.name
        return (*skipped, f"resuming from {chosen}: the newest that is whole")


def step_name(step: int) -> str:
    return f"step-{step:06d}"


@contextmanager
def write_checkpoint(
    run: RunDir,
    step: int,
    *,
    keep: int,
    score: float | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends well it becomes the checkpoint of ``step``.

    Afterwards only the newest ``keep`` and the one with the best score stay.  Call with the run's
    lock held.  Raises StoreError when the disk refuses; older checkpoints are then untouched.
    """
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    clean_leftovers(run)
    known = score if score is not None and math.isfinite(score) else None
    with atomic_folder(
        run.checkpoints / step_name(step),
        {"step": step, "score": known, "facts": dict(facts or {})},
    ) as folder:
        yield folder
    prune(run, keep)


@contextmanager
def atomic_folder(
    target: Path, notes: Mapping[str, Any] | None = None, manifest: bool = True
) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends well it takes the place of ``target``.

    ``notes`` go into its ``manifest``, where it gets one.  If the block raises, the folder is
    removed and ``target`` is as it was.  What the disk refuses becomes a StoreError, whichever
    library met it.
    """
    building = target.with_name(f".tmp-{target.name}-{os.getpid()}")
    try:
        with store_errors("write", target):
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir(parents=True)
        yield building
        with store_errors("write", target):
            flush_tree(building)
            if manifest:
                write_manifest(building, dict(notes or {}))
            _put_in_place(building, target)
    except BaseException as error:
        shutil.rmtree(building, ignore_errors=True)
        refused = os_error(error) or (error.__cause__ and os_error(error.__cause__))
        if refused is not None:
            with store_errors("write", target):
                raise refused from error
        raise


def list_checkpoints(run: RunDir) -> tuple[Checkpoint, ...]:
    """Checkpoints with a readable manifest, oldest first.  Cheap: files are not checked."""
    found = (_read(path) for path in _folders(run))
    return tuple(entry for entry in found if isinstance(entry, Checkpoint))


def find_resumable(run: RunDir) -> Resumable:
    """The newest checkpoint that verifies, and what was passed over on the way to it."""
    passed_over: list[tuple[Path, str]] = []
    for path in reversed(_folders(run)):
        why = verify(path)
        entry = _read(path)
        if why is None and isinstance(entry, Checkpoint):
            return Resumable(entry, tuple(passed_over))
        passed_over.append((path, why or str(entry)))
    return Resumable(None, tuple(passed_over))


def newest_adapters(run: RunDir) -> Checkpoint | None:
    """Where the newest whole adapters of a run lie: ``final/``, or a checkpoint that is newer.

    A finished run that was resumed and then stopped has both.  None when there are none.
    Raises StoreError when ``final/`` is damaged and nothing newer is whole.
    """
    found = find_resumable(run).checkpoint
    if not run.final.is_dir():
        return found
    manifest = read_manifest(run.final)
    step = -1 if isinstance(manifest, str) else int(manifest.get("step", -1))
    if found is not None and found.step > step:
        return found
    why = verify(run.final, exact=False)  # people put notes beside adapters they hand on
    if why is not None:
        raise StoreError(f"{run.final} cannot be used: {why}; name a checkpoint instead")
    assert not isinstance(manifest, str)
    return Checkpoint(run.final, step, manifest["created"])


def set_aside(paths: Iterable[Path]) -> None:
    """Rename damaged checkpoints, so that they take no place among the kept ones."""
    for path in paths:
        with store_errors("rename", path):
            path.rename(path.with_name(f"damaged-{path.name}-{os.getpid()}"))


def checkpoint_at(run: RunDir, step: int) -> Checkpoint:
    """The whole checkpoint of one step.  Raises StoreError when there is none, or says why not."""
    path = run.checkpoints / step_name(step)
    if not path.is_dir():
        steps = ", ".join(str(entry.step) for entry in list_checkpoints(run)) or "none"
        raise StoreError(f"run {run.name!r} has no checkpoint of step {step}; it has: {steps}")
    why = verify(path)
    entry = _read(path)
    if why is not None or not isinstance(entry, Checkpoint):
        raise StoreError(f"{path} cannot be used: {why or entry}")
    return entry


def prune(run: RunDir, keep: int) -> tuple[Path, ...]:
    """Remove all but the newest ``keep`` and the best scored; returns what was removed."""
    entries = list_checkpoints(run)
    newest = {entry.path for entry in entries[-keep:]} if keep > 0 else set()
    scored = [entry for entry in entries if entry.score is not None]
    best = max(scored, key=lambda entry: (entry.score, entry.step), default=None)
    doomed = [
        entry.path
        for entry in entries
        if entry.path not in newest and (best is None or entry.path != best.path)
    ]
    for path in doomed:
        with store_errors("remove", path):
            # Out of sight first, so that a half removed one never looks like a checkpoint.
            hidden = path.with_name(f".tmp-{path.name}-removed")
            shutil.rmtree(hidden, ignore_errors=True)
            path.rename(hidden)
            shutil.rmtree(hidden)
    return tuple(doomed)


def clean_leftovers(run: RunDir) -> None:
    """Remove what an interrupted writer left behind.  Call with the run's lock held.

    A checkpoint that was being replaced when the machine stopped gets its name back.
    """
    with store_errors("clean", run.path):
        for path in run.path.glob(".tmp-*"):
            shutil.rmtree(path)
    if not run.checkpoints.is_dir():
        return
    with store_errors("clean", run.checkpoints):
        for path in run.checkpoints.iterdir():
            replaced = _OLD.fullmatch(path.name)
            if replaced and not (run.checkpoints / replaced[1]).exists():
                path.rename(run.checkpoints / replaced[1])
            elif replaced or path.name.startswith(".tmp-"):
                shutil.rmtree(path)


def _folders(run: RunDir) -> list[Path]:
    """Folders named like checkpoints, oldest first."""
    try:
        paths = [path for path in run.checkpoints.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted((path for path in paths if path.is_dir()), key=lambda path: int(path.name[5:]))


def _read(folder: Path) -> Checkpoint | str:
    """The checkpoint, or why it is none."""
    manifest = read_manifest(folder)
    if isinstance(manifest, str):
        return manifest
    if step_name(manifest.get("step", -1)) != folder.name:
        return f"its manifest is that of step {manifest.get('step')}"
    return Checkpoint(
        path=folder,
        step=manifest["step"],
        created=manifest["created"],
        score=manifest.get("score"),
        facts=manifest.get("facts", {}),
    )


def _put_in_place(building: Path, target: Path) -> None:
    old = None
    if target.exists():
        old = target.with_name(f".old-{target.name}-{os.getpid()}")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    building.rename(target)
    flush(target.parent)
    if old is not None:
        shutil.rmtree(old)
