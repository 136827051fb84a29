"""What a checkpoint holds beyond files: everything a resumed run needs to continue exactly.

In: policies, the updater, the step.  Out: a folder with one PEFT adapter and value head per policy,
optimiser moments, KL coefficient, random states; and back.  Neighbours: ``store.checkpoint`` makes
the folder safe on disk, ``adapter_files`` writes PEFT's format, ``train`` decides when.

Data order, sampling and shuffling are functions of (seed, step), so their position is the step.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maporl_core.errors import StoreError
from maporl_core.kit.seeds import stable_seed
from maporl_core.learning.updater import Updater
from maporl_core.models.adapter_files import load_adapter, save_adapter
from maporl_core.models.policy import Policies
from maporl_core.store.checkpoint import checkpoint_at, list_checkpoints, newest_adapters
from maporl_core.store.paths import RunDir
from maporl_core.store.state_files import load_state, save_state

POLICIES = "policies"
TRAINER = "trainer"


def save_policies(folder: Path, policies: Policies) -> None:
    """Every policy as ``folder/policies/<name>/`` in PEFT's format with its value head."""
    for name, policy in policies.saved().items():
        save_adapter(policy, folder / POLICIES / name)


def load_policies(folder: Path, policies: Policies) -> None:
    """The inverse of ``save_policies``.  Raises StoreError when a policy is missing."""
    for name, policy in policies.saved().items():
        place = folder / POLICIES / name
        if not place.is_dir():
            raise StoreError(f"{folder}: has no policy {name!r}; was it made with another config?")
        load_adapter(policy, place)


def save_run_state(
    folder: Path, policies: Policies, updater: Updater, step: int, bad_steps: int
) -> None:
    """A whole training state after ``step`` finished steps."""
    save_policies(folder, policies)
    save_state(
        folder / TRAINER,
        {
            "step": step,
            "bad_steps": bad_steps,
            "updater": updater.state(),
            "random": random_states(),
        },
    )


def load_run_state(folder: Path, policies: Policies, updater: Updater) -> tuple[int, int]:
    """Restore everything; (finished steps, non-finite steps in a row)."""
    load_policies(folder, policies)
    state = load_state(folder / TRAINER)
    try:
        updater.load_state(state["updater"])
        restore_random_states(state["random"])
        return int(state["step"]), int(state["bad_steps"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{folder}: its training state was made by another version of maporl ({error!r})"
        ) from error


def seed_random_states(seed: int) -> None:
    """Start every generator of the process from the run's seed.

    Dropout draws from torch's; the others are seeded so that nothing a library draws from them
    makes two processes differ.
    """
    random.seed(stable_seed(seed, "python"))
    np.random.seed(stable_seed(seed, "numpy") % 2**32)
    torch.manual_seed(stable_seed(seed, "torch"))


def random_states() -> dict[str, Any]:
    """States of every generator in the process: Python's, NumPy's and torch's."""
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])


def load_policy_state(run: RunDir, policies: Policies, policy_state: str) -> int:
    """Load the adapters of a run: "trained" (the newest whole ones) or a checkpoint by name such
    as "step-000010"; "base" loads nothing.  Returns after which step they were saved.

    Raises StoreError when there is nothing to load, naming what exists, or it is damaged.
    """
    if policy_state == "base":
        return 0
    if policy_state == "trained":
        found = newest_adapters(run)
        if found is None:
            raise StoreError(
                f"run {run.name!r} has no trained adapters yet: wait for its first checkpoint, or "
                "ask its untrained agents with --base"
            )
    else:
        steps = {entry.path.name: entry.step for entry in list_checkpoints(run)}
        if policy_state not in steps:
            raise StoreError(
                f"run {run.name!r} has no checkpoint {policy_state!r}; there is: "
                f"{', '.join(steps) or 'none'}"
            )
        found = checkpoint_at(run, steps[policy_state])
    load_policies(found.path, policies)
    return found.step


def load_newest_verifier(run: RunDir, policies: Policies) -> int:
    """Put the run's newest fit of its verifier in place, whoever's agents are asked.

    So untrained agents, a checkpoint's and the trained ones are judged alike.  Returns after which
    step it was saved; 0 for the verifier that the run began with, which is there already.
    """
    guest = policies.guest
    found = newest_adapters(run) if guest is not None and guest.saved else None
    if guest is None or found is None:
        return 0
    load_adapter(policies.saved()[guest.name], found.path / POLICIES / guest.name)
    return found.step
