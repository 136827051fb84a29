"""A run description as a form: which fields there are, what was changed, and the same as a command.

In: a preset or file, and what its user typed.  Out: fields, problems, ``--set`` words, a RunConfig.
Pure but for reading the source.  Neighbours: ``form_values`` turns text into values and back, the
Launch screen draws it.

The form holds plain data, as TOML would: it may be wrong at any moment, and the config itself says
what is wrong.  The words are the difference between that data and the source, so that
``maporl run SOURCE --set …`` is the same run.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maporl_core.config.doors import REGISTRIES
from maporl_core.config.keys import KeyFact, chooses, dotted, key_facts, section_at
from maporl_core.config.kinded import SHARED, forget_other_kinds
from maporl_core.config.load import build_config, load_config, plain
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_tui.screens.launch.form_values import dotted_key, value_text, word_text

Path = tuple[str | int, ...]

TOP = "run"
"""Name of the section of keys that stand in no section."""
FREE = ("agents", "policies", "bases")
"""Sections whose rows can be added and removed."""
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the form; ``fact.key`` has "<n>" or "<name>" where ``path`` has the row."""

    path: Path
    fact: KeyFact

    @property
    def key(self) -> str:
        return dotted(self.path)

    @property
    def label(self) -> str:
        first, *rest = self.path
        return ".".join(map(str, rest[1:] if first in FREE else rest)) or str(first)


def section_names() -> tuple[str, ...]:
    """Sections in the order of the config, those without one first."""
    found = dict.fromkeys(
        fact.key.split(".")[0] if "." in fact.key else TOP for fact in key_facts()
    )
    return tuple(found)


class Form:
    """What is on the screen; every method that changes it leaves it consistent."""

    def __init__(self, source: str) -> None:
        """Raises ConfigError when the source cannot be read."""
        self.source = source
        self.base = plain(load_config(source))
        self.data: dict[str, Any] = copy.deepcopy(self.base)

    # Values ---------------------------------------------------------------------------------------

    def value(self, path: Path) -> Any:
        """The value at a path, None where there is none."""
        return _get(self.data, path)

    def set(self, path: Path, value: Any) -> None:
        """Put a value there; None takes the key away."""
        target: Any = self.data
        for part in path[:-1]:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if value is None:
            target.pop(path[-1], None)
        else:
            target[path[-1]] = value
        if section := chooses(path):
            forget_other_kinds(target, section)
        if not target and path[0] in FREE and len(path) > 3:
            self.set(path[:-1], None)  # an empty section in a row is the same as none to its user

    def reset(self, path: Path) -> None:
        """The source's own value again (a row that was added keeps the config's default)."""
        found = _get(self.base, path, _ABSENT)
        self.set(path, None if found is _ABSENT else copy.deepcopy(found))

    def changed(self, path: Path) -> bool:
        """Whether the value is another than the source's."""
        return bool(_get(self.base, path, _ABSENT) != _get(self.data, path, _ABSENT))

    def changes(self, section: str) -> int:
        """How many fields of a section differ from the source."""
        return sum(self.changed(field.path) for field in self.fields(section))

    # Rows -----------------------------------------------------------------------------------------

    def rows(self, section: str) -> tuple[str | int, ...]:
        """Rows of a free section: positions of agents, names of policies and bases."""
        found = self.data.get(section) or {}
        return tuple(range(len(found))) if isinstance(found, list) else tuple(found)

    def row_title(self, section: str, row: str | int) -> str:
        name = self.value((section, row, "name")) if isinstance(row, int) else row
        return f"{section.removesuffix('s').replace('policie', 'policy')} {name}"

    def add(self, section: str, name: str) -> None:
        """Add a row.  Raises ConfigError when the name is taken or none."""
        name = name.strip()
        names = [
            self.value(("agents", row, "name")) if section == "agents" else row
            for row in self.rows(section)
        ]
        if not name or name in names:
            raise ConfigError(f"{section}: {name!r} is taken" if name else f"{section}: no name")
        if section == "agents":
            self.data["agents"] = [*self.data["agents"], {"name": name, "role": ""}]
        else:
            row = _defaults(section)
            if section == "policies":
                row["base"] = next(iter(self.data["bases"]), "main")
            self.data.setdefault(section, {})[name] = row

    def remove(self, section: str, row: str | int) -> None:
        """Take a row away; what named it is then a problem that the config tells."""
        del self.data[section][row]

    # Fields ---------------------------------------------------------------------------------------

    def fields(self, section: str) -> Iterator[Field]:
        """Fields of a section, row after row."""
        for fact in key_facts():
            first, _, rest = fact.key.partition(".")
            if section == TOP and not rest:
                yield Field((first,), fact)
            elif first == section and rest and first not in FREE:
                path: Path = (first, *rest.split("."))
                if self._has(fact, path):
                    yield Field(path, fact)
        if section in FREE:
            for row in self.rows(section):
                for fact in key_facts():
                    first, *below = fact.key.split(".")
                    within: Path = (section, row, *below[1:])
                    if first == section and self._has(fact, within):
                        yield Field(within, fact)

    def _has(self, fact: KeyFact, path: Path) -> bool:
        """Whether the kind that is chosen in the key's section has the key."""
        shared = section_at(path[:-1])
        if shared is None or not fact.kinds:
            return True
        registry = REGISTRIES[SHARED[shared]]
        kind = self.value((*path[:-1], registry.key.split(".")[1]))
        return (registry.default if kind is None else kind) in fact.kinds

    def found(self, word: str) -> Iterator[Field]:
        """Fields of all sections whose key or meaning has ``word``."""
        for section in section_names():
            for field in self.fields(section):
                if word.casefold() in f"{field.key} {field.fact.meaning}".casefold():
                    yield field

    # As a whole -----------------------------------------------------------------------------------

    def config(self) -> RunConfig:
        """The run that the form describes.  Raises ConfigError with one line per fault."""
        return build_config(self.data)

    def problems(self) -> dict[str, str]:
        """Dotted key → what is wrong there; "" for what belongs to no key."""
        try:
            self.config()
        except ConfigError as error:
            found: dict[str, str] = {}
            for line in str(error).splitlines():
                key, colon, rest = line.partition(": ")
                known = bool(colon) and " " not in key
                found.setdefault(key if known else "", rest if known else line)
            return found
        return {}

    def words(self) -> tuple[str, ...]:
        """ "key=value" for each ``--set`` that makes the source into this form."""
        return tuple(_difference(self.base, self.data))

    def command(self, root: str = "runs") -> tuple[str, ...]:
        """The words of the command that starts this run."""
        command = ["maporl", "run", self.source]
        for word in self.words():
            command += ["--set", word]
        return tuple(command if root == "runs" else [*command, "--root", root])

    def command_line(self, root: str = "runs") -> str:
        """``command`` as one types it into a shell."""
        return shlex.join(self.command(root))


def _difference(base: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*base, *data)):
        old, new = base.get(key), data.get(key)
        if old == new and _order(old) == _order(new):
            continue
        if key == "agents":
            yield from _agents(old or [], new or [])
        elif key in ("bases", "policies"):
            yield from _tables(key, old or {}, new or {})
        elif isinstance(new, Mapping):
            yield from _keys((key,), old or {}, new)
        else:
            yield f"{key}={'' if new is None else word_text((key,), new)}"


def _order(value: Any) -> Any:
    return list(value) if isinstance(value, Mapping) else None


def _keys(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*old, *new)):
        if old.get(key, _ABSENT) != new.get(key, _ABSENT):
            here = (*path, key)
            if section_at(here) is not None and isinstance(new.get(key), Mapping):
                yield from _keys(here, old.get(key) or {}, new[key])
                continue
            text = "" if key not in new else word_text(here, new[key])
            yield f"{dotted_key(here)}={text}"


def _agents(old: list[Any], new: list[Any]) -> Iterator[str]:
    """By name where the same agents stay in the same order, else the list as a whole."""
    names = [agent.get("name") for agent in new]
    same = names == [agent.get("name") for agent in old]
    if same and not any(str(name).isdigit() for name in names):
        for name, before, after in zip(names, old, new, strict=True):
            yield from _keys(("agents", str(name)), before, after)
    else:
        yield f"agents={value_text(new)}"


def _tables(section: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Row by row where new ones only come after those that stay, else the table as a whole."""
    kept = [name for name in old if name in new]
    if list(new)[: len(kept)] != kept or not new:
        yield f"{section}={value_text(dict(new))}" if new else f"{section}={{}}"
        return
    for name in old:
        if name not in new:
            yield f"{dotted_key((section, name))}="
    for name, row in new.items():
        if name in old:
            yield from _keys((section, name), old[name], row)
        elif row == _defaults(section):
            key = next(iter(row))
            yield f"{dotted_key((section, name, key))}={word_text((section, name, key), row[key])}"
        else:
            yield from _keys((section, name), _defaults(section), row)


def _defaults(section: str) -> dict[str, Any]:
    """Plain data of a new row of ``bases`` or ``policies``."""
    row: dict[str, Any] = plain(build_config({section: {"x": {}}}))[section]["x"]
    return row


def _get(data: Any, path: Path, default: Any = None) -> Any:
    for part in path:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if not in_list and not (isinstance(data, Mapping) and part in data):
            return default
        data = data[part]
    return data
