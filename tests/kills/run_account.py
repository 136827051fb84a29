"""All of a finished run that must not depend on how often it was interrupted.

In: the folder of a run.  Out: its parts by name, comparable with ``==`` or part by part.  Left out
is only what a clock or the memory of the process decides.  Neighbour: ``kill_resume`` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.manifest import MANIFEST
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader

CLOCKED = ("time/", "speed/", "memory/")
"""Metrics that measure the process and not the run."""


def account(path: Path) -> dict[str, Any]:
    """The parts of the run in ``path``."""
    run = RunDir(path)
    saved = list_checkpoints(run)
    with StoreReader(run) as reader:
        batch = reader.metrics_since(0).rows
        stored = list(reader.discussions())
        events = [event for event in reader.events_since(0, 10**6) if event.step is not None]
        steps = sorted({step for step, _, _ in batch})
        state = reader.status()
        evaluations = reader.evaluations()
    return {
        "state and steps": (state.state, state.step, steps == list(range(1, state.step + 1))),
        "adapters and value heads": files(run.final),
        "optimisers, KL coefficient and random states": files(saved[-1].path),
        "checkpoints": [(entry.path.name, entry.score) for entry in saved],
        "metrics": sorted(
            (step, name, repr(value)) for step, name, value in batch if not name.startswith(CLOCKED)
        ),
        "discussions": [(s.row, s.discussion) for s in stored],
        "rewards": [repr(s.rewards_TA) for s in stored],
        "evaluations": [(e.id, e.step, replace(e.summary, seconds=0.0)) for e in evaluations],
        "events": sorted(
            (event.step, event.kind, event.text) for event in events if event.kind != "checkpoint"
        ),
        # A kill between a checkpoint and its event leaves that out; none may be there twice.
        "events said once": not [e for e in events if [o.text for o in events].count(e.text) > 1],
    }


def files(folder: Path) -> dict[str, bytes]:
    """Contents of every file below a folder but its manifest, which tells the time."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Names of the parts that differ."""
    return [name for name in wanted if wanted[name] != found[name]]
