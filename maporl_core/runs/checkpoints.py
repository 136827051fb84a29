"""Saves a run so that it can go on, and lets it go on from where it was saved, if it may.

In: a run's folder and store, its updater with all policies.  Out: a checkpoint; or the newest whole
one loaded, and everything stored after it taken back.  Neighbours: ``store.checkpoint`` keeps the
folders, ``run_state`` fills and reads them, ``session`` decides when.

Nothing is changed before it is clear that the run can go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from maporl_core.config.load import dump_toml, load_stored
from maporl_core.config.provenance import changed_since
from maporl_core.config.resumable import check_resumable
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, StoreError
from maporl_core.learning.updater import Updater
from maporl_core.runs.run_state import load_run_state, save_run_state, seed_random_states
from maporl_core.runs.same_data import check_moved
from maporl_core.store.checkpoint import (
    Resumable,
    clean_leftovers,
    find_resumable,
    set_aside,
    write_checkpoint,
)
from maporl_core.store.failures import store_errors
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.tasks.base import Task

CONFIG = "config.toml"
"""The resolved config inside a checkpoint."""
LAST_SAVED = "last_saved"
"""Fact of the store: the step of the checkpoint that was written last."""

Say = Callable[[str, str, str], None]


def save(
    run: RunDir, store: StoreWriter, config: RunConfig, updater: Updater, step: int, bad_steps: int
) -> None:
    """Write everything a resumed run needs after ``step`` finished steps, with the config."""
    with write_checkpoint(
        run, step, keep=config.checkpoint.keep, score=_score(run, step)
    ) as folder:
        save_run_state(folder, updater.policies, updater, step, bad_steps)
        with store_errors("write", folder):
            (folder / CONFIG).write_text(dump_toml(config), encoding="utf-8")
    store.set_meta({LAST_SAVED: str(step)})


def _score(run: RunDir, step: int) -> float | None:
    """What "best" means: last-turn accuracy of the evaluation at this very step, if any."""
    with StoreReader(run) as reader:
        scores = [
            evaluation.summary.accuracy_T[-1].mean
            for evaluation in reader.evaluations()
            if evaluation.origin == "run"
            and evaluation.step == step
            and evaluation.summary.policy_state != "base"
        ]
    return scores[-1] if scores and math.isfinite(scores[-1]) else None


def restore(
    run: RunDir, store: StoreWriter, config: RunConfig, updater: Updater, task: Task, say: Say
) -> tuple[int, int, bool]:
    """Load the newest whole checkpoint into the updater and its policies.

    Returns (finished steps, non-finite steps in a row, whether there was a checkpoint).
    Raises StoreError when checkpoints were written and none is whole, and ConfigError, naming the
    keys, when the checkpoint was made with another config; nothing is changed then.
    """
    clean_leftovers(run)
    found = find_resumable(run)
    for line in found.lines():
        say("warning" if line.startswith("passed over") else "info", "resume", line)
    _refuse_to_start_over(run, found)
    step, bad_steps = 0, 0
    seed_random_states(config.seed)
    if found.checkpoint is not None:
        _check_config(run, found.checkpoint.path, config, task)
        for line in _other_versions(found.checkpoint.path):
            say("warning", "resume", line)
        step, bad_steps = load_run_state(found.checkpoint.path, updater.policies, updater)
    set_aside(path for path, _ in found.passed_over)
    store.truncate_after(step)
    return step, bad_steps, found.checkpoint is not None


def _refuse_to_start_over(run: RunDir, found: Resumable) -> None:
    """Starting from step 0 takes back all that is stored: only where nothing was ever saved."""
    if found.checkpoint is not None:
        return
    with StoreReader(run) as reader:
        last_saved = reader.meta().get(LAST_SAVED)
    what_to_do = (
        "put one back from a copy, or train anew under another name; what the run stored is kept"
    )
    if found.passed_over:
        reasons = "; ".join(f"{path.name}: {why}" for path, why in found.passed_over[:3])
        raise StoreError(
            f"run {run.name!r} cannot go on, because none of its checkpoints is whole "
            f"({reasons}): {what_to_do}"
        )
    if last_saved is not None:
        raise StoreError(
            f"run {run.name!r} cannot go on, because the checkpoints it wrote (the last one after "
            f"step {last_saved}) are gone from {run.checkpoints}: {what_to_do}"
        )


def _other_versions(folder: Path) -> list[str]:
    """A line for each plug-in that has another version than when the checkpoint was written."""
    path = folder / CONFIG
    return changed_since(path.read_text("utf-8")) if path.is_file() else []


def _check_config(run: RunDir, folder: Path, config: RunConfig, task: Task) -> None:
    """The run's own config.toml may have been edited since the checkpoint was written."""
    path = folder / CONFIG
    if not path.is_file():
        return
    try:
        made_with = load_stored(path)
    except ConfigError as error:
        raise StoreError(
            f"{folder} was made by another version of maporl, whose config this one does not "
            f"read: {error}"
        ) from error
    check_resumable(made_with, config)
    check_moved(run, made_with, config, task)
