"""Runs that a learned verifier scores, and what they stored."""

from __future__ import annotations

from typing import Any

from run_samples import small

from maporl_core.config.schema import RunConfig
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader


def learned(kind: str = "learned", **changes: Any) -> RunConfig:
    verifier = {"kind": kind, "path": "pocket", **changes.pop("verifier", {})}
    reward = {"critical": 0.5, "persuaded": 0.5, "constructive": 0.5, "persuasive": 0.5}
    task = changes.pop("task", {"options": {"lean": 0.9}})
    return small(verifier=verifier, reward=reward, task=task, **changes)


def stored(run: RunDir) -> list[Any]:
    with StoreReader(run) as reader:
        return [s for s in reader.discussions() if s.row.split == "train"]


def messages(run: RunDir) -> list[tuple[Any, Any]]:
    return [
        (s.discussion.problem, m) for s in stored(run) for row in s.discussion.messages for m in row
    ]


def refitting(steps: int) -> RunConfig:
    """Readings do not lean as they did where the verifier learned: it is far too sure."""
    return learned(
        verifier={"refit_every": 2, "fit": {"lr": 3e-3, "batch": 8, "epochs": 1}},
        task={"options": {}},
        train={"steps": steps, "problems_per_step": 24},
        eval={"questions": 0},
        checkpoint={"every": 3},
    )
