"""Keys of run descriptions of earlier versions, and what they are called now.

In: the tables of a run description.  Out: the same under today's names, and a line for each key
that was renamed.  Neighbours: ``config.load`` and ``config.overrides`` tell users the lines;
``schema`` renames silently, so that a stored run's own config goes on loading.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

_LOG = logging.getLogger("maporl")

_UPDATE = (
    *("lr", "value_lr", "schedule", "warmup_steps", "epochs", "minibatches", "micro_tokens"),
    *("max_grad_norm", "weight_decay", "max_bad_steps", "mismatch_warn"),
)
_METHOD = (
    *("gae_lambda", "clip_low", "clip_high", "value_clip", "value_coef"),
    *("kl_coef", "kl_target", "kl_horizon", "entropy_coef"),
)

KEYS: Mapping[str, str] = {
    **{f"ppo.{key}": f"update.{key}" for key in _UPDATE},
    **{f"ppo.{key}": f"method.{key}" for key in _METHOD},
}
"""Old dotted key → new one."""

VALUES: Mapping[str, Mapping[str, str]] = {"engine.kind": {"hf": "in_process"}}
"""Dotted key → old value → new one."""

GONE: Mapping[tuple[str, str], str] = {("ppo.advantage", "gae"): "method.kind"}
"""(old key, its only value that meant today's default) → the key that decides now."""


def say_renamed(line: str) -> None:
    """One line to the log, which is standard error unless the program says otherwise."""
    _LOG.warning("%s", line)


def renamed(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """``data`` with old names replaced, and one line for each; ``data`` itself stays as it is.

    Where an old key and its new one are both given, the old one stays for the schema to refuse.
    """
    out: dict[str, Any] = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()
    }
    lines: list[str] = []
    for old in [f"{name}.{key}" for name, _ in _old_sections(out) for key in list(out[name])]:
        section, key = old.split(".", 1)
        value = out[section][key]
        new = GONE.get((old, value)) if isinstance(value, str) else None
        if new is not None:
            del out[section][key]
            lines.append(f"{old}: {new} decides it now; leave it out")
        elif old in KEYS and _put(out, KEYS[old], value):
            del out[section][key]
            lines.append(f"{old}: now called {KEYS[old]}")
    for name, table in _old_sections(out):
        if not table:
            del out[name]
    for dotted, values in VALUES.items():
        section, key = dotted.split(".")
        value = out[section].get(key) if isinstance(out.get(section), dict) else None
        if isinstance(value, str) and value in values:
            out[section][key] = values[value]
            lines.append(f"{dotted}: {value!r} is now called {values[value]!r}")
    return out, lines


def _old_sections(data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    names = dict.fromkeys(key.split(".")[0] for key in KEYS)
    return [(name, data[name]) for name in names if isinstance(data.get(name), dict)]


def _put(data: dict[str, Any], dotted: str, value: Any) -> bool:
    section, key = dotted.split(".")
    table = data.setdefault(section, {})
    if not isinstance(table, dict) or key in table:
        return False
    table[key] = value
    return True
