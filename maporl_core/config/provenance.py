"""Which kinds of a run come from outside, and from which version of what.

In: a RunConfig, or the text of a stored one.  Out: comments at the end of a stored description,
and what is different now.  Neighbours: ``config.load`` writes and reads them, checkpoints keep
them with their own description, ``runs.session`` puts all kinds into the store's meta.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from maporl_core.config.doors import REGISTRIES
from maporl_core.errors import ConfigError
from maporl_core.kit.registry import OWN, Kind

if TYPE_CHECKING:
    from maporl_core.config.schema import RunConfig

_LINE = re.compile(r"^# (\w+\.\w+) = (\S+) comes from (\S+) (\S*)$", re.MULTILINE)


def kinds_of(config: RunConfig) -> dict[str, Kind]:
    """Section → the kind that it chooses, bases' own engines as "bases.NAME.engine" last.

    Raises ConfigError for one that is gone.
    """
    kinds = {
        section: registry.find(str(getattr(getattr(config, section), registry.key.split(".")[1])))
        for section, registry in REGISTRIES.items()
    }
    for name, base in config.bases.items():
        if base.engine is not None:
            kinds[f"bases.{name}.engine"] = REGISTRIES["engine"].find(base.engine.kind)
    return kinds


def comments(config: RunConfig) -> str:
    """A comment for each kind that does not come with maporl; "" where all do."""
    lines = [
        f"# {REGISTRIES[kind.registry].key} = {kind.name} comes from {kind.distribution} "
        f"{kind.version}\n"
        for kind in kinds_of(config).values()
        if kind.distribution != OWN
    ]
    return "".join(["\n", *dict.fromkeys(lines)]) if lines else ""


def meta(config: RunConfig) -> dict[str, str]:
    """Facts for a store: steps, task, algorithm; section → kind, distribution, version, as JSON."""
    found = kinds_of(config).items()
    kinds = {section: [k.name, k.distribution, k.version] for section, k in found}
    return {
        "steps": str(config.train.steps),
        "task": config.task.name,
        "algorithm": config.method.kind.upper(),
        "kinds": json.dumps(kinds),
    }


def changed_since(text: str) -> list[str]:
    """A line for each kind of a stored description whose distribution has another version now."""
    lines = []
    for key, name, distribution, version in _LINE.findall(text):
        try:
            now = REGISTRIES[key.split(".")[0]].find(name)
        except (ConfigError, KeyError):
            continue  # whoever loads the description says so
        if (now.distribution, now.version) != (distribution, version):
            lines.append(
                f"{key} = {name!r} came from {distribution} {version} and comes from "
                f"{now.distribution} {now.version} now: the run may go on differently"
            )
    return lines


def missing(text: str) -> list[str]:
    """A line for each kind of a stored description that is not installed any more."""
    return [
        f"{key} = {name!r} came from {distribution} {version}, which is not installed: install it "
        "to open this run"
        for key, name, distribution, version in _LINE.findall(text)
        if key.split(".")[0] in REGISTRIES and name not in REGISTRIES[key.split(".")[0]].names()
    ]
