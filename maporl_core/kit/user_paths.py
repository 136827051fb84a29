"""Paths that people write: expanded and looked at without ever raising.

In: any text.  Out: a path, and whether something is there.  A home folder of nobody, a name that
is too long, a NUL or a link to itself lead to nothing, and whoever asked says so in one line.
Neighbours: whatever takes a path from a config or a command line, or writes a file for others.
"""

from __future__ import annotations

import os.path
import stat
from pathlib import Path


def user_path(text: str | Path) -> Path:
    """``text`` with ~ expanded; left as it is where ~ names nobody known here."""
    try:
        return Path(os.path.expanduser(text))  # noqa: PTH111 - the method of Path raises
    except ValueError:  # NUL or a lone surrogate in a user's name
        return Path(text)


def is_file(path: Path) -> bool:
    """Whether a regular file can be reached there: no folder, device or pipe."""
    return os.path.isfile(path)  # noqa: PTH113 - the method of Path raises


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - the method of Path raises


def exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - the method of Path raises


def whole_path(path: Path) -> str:
    """The path from the root on, so that it can be read from any other folder."""
    return os.path.abspath(path)  # noqa: PTH100 - links keep the names that people gave them


def share_as(path: Path, like: Path) -> None:
    """Let those read ``path`` who may read ``like``: some libraries write for the owner alone."""
    path.chmod(stat.S_IMODE(like.stat().st_mode))


def free_name(root: Path, name: str) -> str:
    """``name``, or with the first free suffix: pocket, pocket-2, pocket-3, …"""
    candidate, number = name, 2
    while (root / candidate).exists():
        suffix = f"-{number}"
        candidate = name[: 64 - len(suffix)] + suffix
        number += 1
    return candidate
