"""Where a run's learned verifier stands: on the agents' own base wherever it is the same model.

In: a run's config and a verifier's folder.  Out: which base it shares, or the base it needs apart.
Neighbours: ``assembly`` loads the base with one more policy on it, ``saved`` reads the folder and
puts the weights in.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from maporl_core.config.schema import BaseModelConfig, PolicyConfig, RunConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.saved import Saved, check_files, read_saved
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file, is_folder, user_path
from maporl_core.models.adapter_files import ADAPTER_FILE, CONFIG_FILE, VALUE_FILE
from maporl_core.store.checkpoint import atomic_folder
from maporl_core.store.failures import store_errors

BUILT_IN = {"pocket": Path(__file__).parents[2] / "models" / "built_in" / "verifier"}
"""Fitted verifiers that come with the project, by the name that ``verifier.path`` gives them."""
APART = "(verifier)"
"""Name of the base that only the verifier stands on; no section of a config can have it."""
_KEPT = (files.CARD, CONFIG_FILE, ADAPTER_FILE, VALUE_FILE)


@dataclass(frozen=True, slots=True)
class Placed:
    """A verifier and its base; ``apart`` is the base's config where no agent stands on it."""

    folder: Path
    saved: Saved
    base: str
    apart: BaseModelConfig | None


def named_folder(name: str) -> Path:
    """The folder that a person means by ``name``: a built-in verifier's, or a path."""
    return BUILT_IN.get(name) or user_path(name)


def verifier_folder(config: RunConfig) -> Path:
    """The folder that ``verifier.path`` names.  Raises ConfigError when there is none."""
    named = config.verifier.path
    assert named is not None  # the config has checked
    folder = named_folder(named)
    if not is_folder(folder):
        raise ConfigError(
            f"verifier.path: no folder {one_line(named)}; make one with maporl verifier data and "
            "maporl verifier fit, and set --set verifier.path=FOLDER"
        )
    return folder


def place(config: RunConfig, folder: Path) -> Placed:
    """Decide what the verifier of ``folder`` stands on.

    Raises DataError for a folder that is no verifier, ConfigError where base or adapter layers
    cannot be shared though they would have to be.
    """
    saved = read_saved(folder)
    shared = {policy.base for policy in config.resolved_policies().values()}
    name = config.verifier.base
    if name is None:
        same = [base for base in config.bases if base in shared and _same(config, base, saved)]
        if not same:
            return Placed(folder, saved, APART, saved.base)
        name = same[0]
    _check_layers(config, name, saved.policy)
    return Placed(folder, saved, name, None if name in shared else config.bases[name])


def check(config: RunConfig) -> tuple[Placed, int]:
    """All that a run refuses a verifier for and that shows without loading a model.

    Returns where it stands, and the hidden width of the base that it was fitted on.  Raises
    ConfigError, DataError or ModelError as the run would.
    """
    placed = place(config, verifier_folder(config))
    check_whole(placed.folder)
    return placed, check_files(placed.folder, placed.saved)


def same_model(ours: BaseModelConfig, saved: Saved) -> bool:
    """Whether a base goes by the name of the model that the verifier was fitted on."""
    return (_model(ours.model), ours.revision) == (_model(saved.base.model), saved.base.revision)


def _same(config: RunConfig, base: str, saved: Saved) -> bool:
    """Whether a base is the model, in the chat format, that the verifier was fitted on."""
    ours = config.bases[base]
    return same_model(ours, saved) and ours.chat_template == saved.base.chat_template


def _model(name: str) -> str:
    """A local path in one spelling; anything else as it is."""
    path = user_path(name)
    return os.path.realpath(path) if is_folder(path) or is_file(path) else name


def _check_layers(config: RunConfig, base: str, policy: PolicyConfig) -> None:
    """All adapters on a base lie in the same layers."""
    for name, agents in config.resolved_policies().items():
        if agents.base == base and agents.target_modules != policy.target_modules:
            raise ConfigError(
                f"policies.{name}.target_modules: the verifier on the same base adapts "
                f"{_layers(policy)}, and all adapters of a base lie in the same layers; set "
                "it to the same, or give the verifier a base of its own (verifier.base)"
            )


def _layers(policy: PolicyConfig) -> str:
    """The adapted layers as ``--set`` takes them."""
    modules = policy.target_modules
    return modules if isinstance(modules, str) else one_line(f"[{', '.join(modules)}]", 120)


def fingerprint(folder: Path) -> str:
    """SHA-256 over card and weights of a verifier's folder."""
    digest = hashlib.sha256()
    with store_errors("read", folder):
        for name in _KEPT:
            digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    return digest.hexdigest()


def check_whole(folder: Path) -> None:
    """Raises DataError where a file that scoring needs is not there."""
    for name in _KEPT:
        if not is_file(folder / name):
            raise DataError(f"{one_line(folder)}: no {name}; fit the verifier again")


def keep(source: Path, target: Path) -> None:
    """Copy what a run needs of a verifier to ``target``, all at once.

    Raises DataError when the source is no verifier or not whole, StoreError when the disk refuses.
    """
    read_saved(source)
    check_whole(source)
    with atomic_folder(target) as building, store_errors("write", target):
        for name in _KEPT:
            shutil.copyfile(source / name, building / name)
