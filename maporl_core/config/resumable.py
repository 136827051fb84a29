"""Whether a run may go on with a changed description, and which keys differ between two.

In: the stored RunConfig and the wanted one.  Out: nothing, or a ConfigError that names the keys.
Neighbours: ``config.load`` makes both; ``maporl resume`` and the checkpoints ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maporl_core.config.load import plain
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError

HARMLESS_KEYS: frozenset[str] = frozenset(
    {
        "name",
        "train.steps",
        "eval.every",
        "checkpoint.every",
        "checkpoint.keep",
        "engine.max_batch",
        "update.micro_tokens",
        "update.max_bad_steps",
        "update.mismatch_warn",
        "verifier.gap_warn",
        "task.path",
    }
)
"""Keys that a resumed run may change: they decide when it stops, looks and saves, how much memory
it takes, and when it warns, not what it learns; the data may lie in another place, where
``runs.same_data`` finds it unchanged."""

_OF_AN_ENGINE = re.compile(r"bases\..+\.engine\.max_batch")
"""The same of a base's own engine."""


def config_diff(a: RunConfig, b: RunConfig) -> list[str]:
    """Dotted keys whose values differ, sorted; a key on one side only counts."""
    return _diff(plain(a), plain(b))


def _diff(a: Any, b: Any) -> list[str]:
    left, right = _flatten(a), _flatten(b)
    absent = object()
    return sorted(
        key
        for key in left.keys() | right.keys()
        if not _same(left.get(key, absent), right.get(key, absent))
    )


def check_resumable(stored: RunConfig, wanted: RunConfig) -> None:
    """Raise ConfigError, naming the keys, where ``wanted`` cannot go on from a ``stored`` run."""
    changed = [
        key
        for key in _diff(_with_engines(stored), _with_engines(wanted))
        if key not in HARMLESS_KEYS and not _OF_AN_ENGINE.fullmatch(key)
    ]
    if stored.update.schedule != "constant" and stored.train.steps != wanted.train.steps:
        raise ConfigError(
            f"train.steps: the run's learning rate falls ({stored.update.schedule}) over its "
            f"{stored.train.steps} steps, so another number would change what it learns; start a "
            "new run for that"
        )
    if changed:
        more = f" and {len(changed) - 6} more" if len(changed) > 6 else ""
        raise ConfigError(
            f"the run was made with other values of {', '.join(changed[:6])}{more}; a resumed run "
            f"may change only {', '.join(sorted(HARMLESS_KEYS))} (and a base's own "
            "engine.max_batch); start a new run for the rest"
        )


def _with_engines(config: RunConfig) -> dict[str, Any]:
    """The plain description with each base's engine written out, its own or the run's."""
    table = plain(config)
    engines = {name: config.engine_of(name).model_dump(exclude_none=True) for name in config.bases}
    return table | {"bases": {n: b | {"engine": engines[n]} for n, b in table["bases"].items()}}


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Dotted key → value; lists of tables by index, other lists whole."""
    if isinstance(value, Mapping):  # an empty one is the same as none
        items: list[tuple[str, Any]] = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {path: value}
    flat: dict[str, Any] = {}
    for key, item in items:
        flat |= _flatten(item, f"{path}.{key}" if path else key)
    return flat
