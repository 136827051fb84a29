"""The settings a data folder was begun with: the same ones go on in it, others are refused by name.

In: everything that decides what is sampled, as plain tables.  Out: ``settings.json``, or a
ConfigError.  Neighbours: ``files`` writes, ``sampling`` gathers the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maporl_core.errors import ConfigError, DataError
from maporl_core.judging.verifier import files
from maporl_core.kit.plain_text import one_line
from maporl_core.store.failures import store_errors

_QUESTIONS = "questions"


def begin(folder: Path, settings: dict[str, Any], most: int) -> dict[str, Any]:
    """Settings of a new folder, or of one begun with the same; parts keep the size they have.

    A folder that was begun with fewer questions grows.

    ``settings["part_answers"]`` is at most ``most``.  Raises ConfigError that names the settings
    which differ, DataError when those in the folder cannot be read.
    """
    path = folder / files.SETTINGS
    if not path.exists():
        files.write_json(path, settings)
        return settings
    begun = files.read_json(path, "name another folder")
    size = begun.get("part_answers")
    if not isinstance(size, int) or not 1 <= size <= most:
        raise DataError(f"{one_line(path)}: is damaged; name another folder")
    settings = settings | {"part_answers": size}
    if _only_more_questions(begun, settings):
        _grow(folder, begun, settings)
        return settings
    before, now = _flat(begun), _flat(settings)
    other = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if other:
        shown = "; ".join(f"{k}: {before.get(k)!r} then, {now.get(k)!r} now" for k in other[:4])
        more = f"; and {len(other) - 4} more" if len(other) > 4 else ""
        raise ConfigError(
            f"{one_line(folder)} was begun with other settings ({one_line(shown, 600)}{more}); "
            "name another folder (only --questions may grow)"
        )
    return settings


def _only_more_questions(begun: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether ``settings`` ask the same of more questions."""
    sampling = begun.get("sampling")
    if not isinstance(sampling, dict):
        return False
    asked, wanted = sampling.get(_QUESTIONS), settings["sampling"][_QUESTIONS]
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked < wanted:
        return False
    grown = {**begun, "sampling": {**sampling, _QUESTIONS: wanted}}
    return _flat(grown) == _flat(settings)


def _grow(folder: Path, begun: dict[str, Any], settings: dict[str, Any]) -> None:
    """Take on ``settings``; the last part, if it was not full, is sampled again, now full.

    Questions come in the same order however many there are, so all parts before it stay.  Killed
    at any point, the folder goes on with the old or with the new number.
    """
    sampling = begun["sampling"]
    size = max(1, begun["part_answers"] // sampling["samples"])
    full, rest = divmod(sampling[_QUESTIONS], size)
    with store_errors("write", folder):
        (folder / files.CARD).unlink(missing_ok=True)  # no longer whole
        if rest:
            files.part_path(folder, full).unlink(missing_ok=True)
    files.write_json(folder / files.SETTINGS, settings)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of nested tables by dotted key; what JSON makes equal is equal."""
    if isinstance(value, Mapping):
        return {
            k: v for key, item in value.items() for k, v in _flat(item, f"{prefix}.{key}").items()
        }
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        return {
            k: v
            for i, item in enumerate(value)
            for k, v in _flat(item, f"{prefix}.{i + 1}").items()
        }
    return {prefix.removeprefix("."): list(value) if isinstance(value, tuple) else value}
