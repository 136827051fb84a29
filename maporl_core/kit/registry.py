"""One registry per kind of thing: own kinds by a line each, others' by entry point.

In: a name.  Out: the ``Kind`` behind it, imported only now, with the distribution it comes from.
Neighbours: ``config.doors`` holds the table of all registries; ``maporl kinds`` prints them.

A kind is a class or function with ``says`` (one line about it) and ``Options`` (a pydantic model of
the keys it adds to its section; importing it takes no torch).  A broken one is one line that names
its distribution, and stops nothing but itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel

from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.version import __version__

OWN = "maporl"
SCRIPT = "a-script"
"""Distribution of a kind that a script gave to its own process."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind; ``fault`` says in a line why it cannot be used, and ``made`` is None then."""

    registry: str
    name: str
    distribution: str
    version: str
    made: Any = None
    fault: str = ""

    @property
    def says(self) -> str:
        return one_line(getattr(self.made, "says", ""), 200)

    @property
    def options(self) -> type[BaseModel]:
        options: type[BaseModel] = self.made.Options
        return options


class Registry:
    """All kinds of one section.  ``key`` is the dotted key that chooses one."""

    def __init__(
        self, key: str, group: str, own: Mapping[str, str], has: Sequence[str] = ()
    ) -> None:
        """``own``: name → "module:Object".  ``has``: methods that every kind must have."""
        self.key, self.group, self.own, self.has = key, group, own, tuple(has)
        self.section = key.split(".", maxsplit=1)[0]
        self._found: dict[str, Kind] = {}

    @property
    def default(self) -> str:
        """The kind that is chosen where none is: the first own one."""
        return next(iter(self.own))

    def names(self) -> tuple[str, ...]:
        """Names that may be chosen, own ones first; nothing is imported."""
        others = (point.name for point in points(self.group))
        return tuple(dict.fromkeys((*self.own, *others, *self._found)))

    def loaded(self) -> tuple[str, ...]:
        """Own kinds, and others' that were chosen already."""
        return (*self.own, *(name for name in self._found if name not in self.own))

    def find(self, name: str) -> Kind:
        """The kind of that name; what follows a ":" is its own affair.  Raises ConfigError."""
        word = name.partition(":")[0]
        if word not in self._found:
            if word not in self.names():
                raise ConfigError(f"{self.key}: {self._unknown(name)}")
            kind = self._load(word)
            if kind.fault:
                raise ConfigError(f"{self.key} = {word!r}: {kind.fault}")
            self._found[word] = kind
        return self._found[word]

    def add(self, name: str, made: Any) -> None:
        """Give this process a kind of its own, as a script or a notebook does.

        Raises ConfigError for a name that is taken and for an object that is no kind.
        """
        if name in self.names() and not (name in self._found and name not in self.own):
            raise ConfigError(f"{self.key}: the name {name!r} is taken")
        lacks = self._lacks(made)
        if lacks:
            raise ConfigError(f"{self.key} = {name!r}: {lacks}")
        self._found[name] = Kind(self.section, name, SCRIPT, "0", made)

    def everything(self) -> tuple[Kind, ...]:
        """Every kind, imported; broken ones with their line, and those an own name hides."""
        hidden = [
            self._kind(point, fault=f"{_whose(point)} gives a name that maporl has itself")
            for point in points(self.group)
            if point.name in self.own
        ]
        return (*(self._found.get(name) or self._load(name) for name in self.names()), *hidden)

    def _load(self, name: str) -> Kind:
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            made = getattr(importlib.import_module(module), attribute)
            return Kind(self.section, name, OWN, __version__, made)
        given = [point for point in points(self.group) if point.name == name]
        if len(given) > 1:
            whose = " and ".join(sorted(_whose(point) for point in given))
            return self._kind(given[0], fault=f"{whose} both give it; uninstall one of them")
        return self._import(given[0])

    def _import(self, point: EntryPoint) -> Kind:
        try:
            made = point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever their code raises
            reason = f"{type(error).__name__}: {one_line(error, 200)}"
            return self._kind(point, fault=f"{_whose(point)} cannot be imported: {reason}")
        lacks = self._lacks(made)
        if lacks:
            return self._kind(point, fault=f"{_whose(point)}: {one_line(point.value)} {lacks}")
        return self._kind(point, made)

    def _kind(self, point: EntryPoint, made: Any = None, fault: str = "") -> Kind:
        name, version = _distribution(point)
        return Kind(self.section, point.name, name, version, made, fault)

    def _lacks(self, made: Any) -> str:
        """What keeps an object from being a kind, in words; "" if nothing does."""
        if not callable(made):
            return "is neither a class nor a function"
        if not isinstance(getattr(made, "says", None), str):
            return "lacks says, one line about it"
        options = getattr(made, "Options", None)
        if not (isinstance(options, type) and issubclass(options, BaseModel)):
            return "lacks Options, a pydantic model of its keys"
        missing = [name for name in self.has if not callable(getattr(made, name, None))]
        return f"lacks {', '.join(missing)}" if missing else ""

    def _unknown(self, name: str) -> str:
        names = [repr(known) for known in self.names()]
        listed = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
        near = nearest(name, self.names())
        hint = f"; did you mean {near!r}?" if near else ""
        return f"must be {listed} (got {one_line(repr(name), 60)}{hint})"


@cache
def points(group: str) -> tuple[EntryPoint, ...]:
    """Entry points of a group, each once, in the order of names; read once per process."""
    found = {(p.name, p.value, _distribution(p)[0]): p for p in entry_points(group=group)}
    return tuple(found[key] for key in sorted(found))


def _distribution(point: EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        return "an unknown distribution", ""
    return one_line(point.dist.name, 80), one_line(point.dist.version, 40)


def _whose(point: EntryPoint) -> str:
    return " ".join(_distribution(point)).strip()
