"""Where the parts of a run lie, how a run is made, and how one is found by name.

In: a runs folder and a name, or a path.  Out: a ``RunDir``.  Neighbours: ``train`` creates and
locks it, ``reader`` and ``writer`` open its database, ``checkpoint`` fills its checkpoints folder.

    runs/<name>/  config.toml  run.db  trainer.lock  log.txt  checkpoints/step-NNNNNN/  final/
                  verifier/ (a copy of the learned one, where there is one)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from maporl_core.errors import ConfigError, StoreError
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file, user_path
from maporl_core.store.database import create_database, is_store
from maporl_core.store.failures import store_errors
from maporl_core.store.lock import RunLock

DATABASE = "run.db"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one run."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def final(self) -> Path:
        return self.path / "final"

    @property
    def verifier(self) -> Path:
        """The run's own copy of its learned verifier; made when the run starts, if it has one."""
        return self.path / "verifier"

    @property
    def lock_file(self) -> Path:
        return self.path / "trainer.lock"

    def lock(self) -> RunLock:
        """The trainer's lock, not yet taken: ``with run.lock() as lock: …``."""
        return RunLock(self.lock_file)

    def config_text(self) -> str:
        """The resolved config as TOML.  Raises StoreError when it cannot be read."""
        with store_errors("read", self.config):
            return self.config.read_text(encoding="utf-8")

    def log_tail(self, lines: int = 20) -> tuple[str, ...]:
        """The last lines of the log; empty when there is none."""
        try:
            with self.log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 400 * lines))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(text.splitlines()[-lines:])

    @classmethod
    def create(
        cls, root: Path, name: str, config_toml: str, meta: Mapping[str, str] | None = None
    ) -> Self:
        """Make runs/<name> with its config and an empty store; all of it appears at once.

        ``meta`` are facts for the store (task, steps, …).  Raises ConfigError for a name that is
        taken or not allowed, StoreError when the disk refuses.
        """
        check_name(name)
        _check_root(root)
        path = root / name
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigError(_taken(path))
        with store_errors("create", path):
            root.mkdir(parents=True, exist_ok=True)
            building = root / f".{name}.new-{os.getpid()}"
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir()
            try:
                part = cls(building)
                part.config.write_text(config_toml, encoding="utf-8")
                part.checkpoints.mkdir()
                part.lock_file.touch()
                create_database(part.database, {**(meta or {}), "name": name})
                _move_into_place(building, path)
            except BaseException:
                shutil.rmtree(building, ignore_errors=True)
                raise
        return cls(path)

    @classmethod
    def find(cls, root: Path, text: str) -> Self:
        """The existing run that ``text`` names: a name below ``root``, or a path to its folder.

        Raises ConfigError for an unknown one, with the nearest name that exists.
        """
        for path in (root / text, user_path(text)):
            if text and is_file(path / DATABASE):
                return cls(path)
        path = user_path(text)
        if text and path.name == DATABASE and is_file(path):
            return cls(path.parent)
        names = [run.name for run in runs_below(root)]
        near = nearest(text, names)
        if near:
            hint = f"did you mean {near!r}?"
        elif names:
            hint = "see `maporl runs list`"
        else:
            hint = "it holds no runs yet; start one with `maporl run`"
        raise ConfigError(f"no run {one_line(text, 80)!r} in {root}: {hint}")


def check_name(name: str) -> None:
    """Raise ConfigError unless ``name`` is one plain folder name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"run name {name[:80]!r} is not allowed: use letters, digits, '_', '-' and '.', "
            "starting with a letter or digit, at most 64"
        )


def runs_below(root: Path) -> tuple[RunDir, ...]:
    """Every folder in ``root`` that holds a run, by name; empty when ``root`` is not there.

    Raises ConfigError when ``root`` is something else than a folder.
    """
    _check_root(root)
    try:
        paths = sorted(root.iterdir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreError(f"cannot list {root}: {error.strerror}") from error
    return tuple(
        RunDir(path)
        for path in paths
        if not path.name.startswith(".") and (path / DATABASE).is_file()
    )


def _check_root(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise ConfigError(f"{root} is a file: --root takes the folder that holds the runs")


def remove_run(run: RunDir) -> None:
    """Delete a run's folder for good.

    Raises StoreError for anything that is not a maporl run, for a link to one, and while a
    trainer holds it.
    """
    path = run.path
    if path.is_symlink():
        raise StoreError(f"{path} is a link: remove the folder it points to instead")
    if not is_store(run.database):
        raise StoreError(f"{path} is not a maporl run: nothing was removed")
    with run.lock(), store_errors("remove", path):
        # Out of sight first, so that an interrupted removal never looks like a run.
        doomed = path.with_name(f".{path.name}.removed-{os.getpid()}")
        path.rename(doomed)
        shutil.rmtree(doomed)


def _taken(path: Path) -> str:
    if (path / DATABASE).is_file():
        return (
            f"run {path.name!r} exists in {path.parent}: go on with `maporl resume {path.name}`, "
            f"take another --set name, or `maporl runs remove {path.name}`"
        )
    return f"{path} exists and is not a maporl run: take another --set name"


def _move_into_place(building: Path, path: Path) -> None:
    try:
        building.rename(path)  # onto nothing or an empty folder only
    except OSError as error:
        if path.exists() and any(path.iterdir()):
            raise ConfigError(_taken(path)) from error
        raise
