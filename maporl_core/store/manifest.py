"""The list of a folder's files with their sizes and hashes, and whether they are still so.

In: a folder.  Out: ``manifest.json`` in it, or what is wrong with it.  Neighbours: ``checkpoint``
makes folders with it and chooses among them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maporl_core.kit.plain_text import one_line

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1


def verify(folder: Path, *, exact: bool = True) -> str | None:
    """None when the folder holds the files of its manifest, all as they were, and (``exact``) no
    others; else the first thing that is wrong.
    """
    manifest = read_manifest(folder)
    if isinstance(manifest, str):
        return manifest
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    try:
        for name, entry in files.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            size = path.stat().st_size
            if size != entry["size"]:
                return f"{name} has {size} bytes instead of {entry['size']}"
        extra = next((name for name in _others(folder) if name not in files), None)
        if exact and extra is not None:
            return f"{one_line(extra, 80)} does not belong to it"
        for name, entry in files.items():
            if _sha256(folder / name) != entry["sha256"]:
                return f"{name} is not what was written (its hash differs)"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None


def read_manifest(folder: Path) -> dict[str, Any] | str:
    """The manifest of a folder, or why there is none to trust."""
    path = folder / MANIFEST
    manifest: dict[str, Any]
    try:
        if not any(folder.iterdir()):
            return "it is empty"
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            return f"its {MANIFEST} is not a file"
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"it has no {MANIFEST}"
    except ValueError:
        return f"its {MANIFEST} is cut off or damaged"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not _well_formed(manifest):
        return f"its {MANIFEST} is damaged"
    if manifest["version"] > MANIFEST_VERSION:
        return f"it was written by a newer maporl (manifest version {manifest['version']})"
    return manifest


def _well_formed(manifest: Any) -> bool:
    if not (
        isinstance(manifest, dict)
        and isinstance(manifest.get("version"), int)
        and isinstance(manifest.get("created"), float)
        and isinstance(manifest.get("step", 0), int)
        and isinstance(manifest.get("score"), int | float | None)
        and isinstance(manifest.get("files"), dict)
    ):
        return False
    return all(
        isinstance(entry, dict)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("sha256"), str)
        and not Path(name).is_absolute()
        and ".." not in Path(name).parts
        for name, entry in manifest["files"].items()
    )


def _others(folder: Path) -> list[str]:
    """Everything in the folder but the manifest and its folders, by the manifest's names."""
    return [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
        if path != folder / MANIFEST
    ]


def write_manifest(folder: Path, notes: Mapping[str, Any]) -> None:
    """List every file of the folder, and wait until the list is on the disk."""
    files = {
        path.relative_to(folder).as_posix(): {
            "size": path.stat().st_size,
            "sha256": _sha256(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {"version": MANIFEST_VERSION, "created": time.time(), **notes, "files": files}
    path = folder / MANIFEST
    path.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    flush(path)
    flush(folder)


def flush_tree(folder: Path) -> None:
    """Wait until everything below the folder is on the disk."""
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def flush(path: Path) -> None:
    """Wait until the file, or the names in the folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
