"""Which dotted keys a run description has: what lies under a path.

In: paths such as ("agents", 0, "role").  Out: sub-keys, types, facts.  Neighbours:
``schema`` is what is walked; ``meant``, ``complaints`` and ``overrides`` ask.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Union

import tomlkit
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from maporl_core.config.doors import REGISTRIES
from maporl_core.config.kinded import SHARED, fields_of, kinds_with
from maporl_core.config.schema import RunConfig

Path = Sequence[str | int]


def dotted(path: Path) -> str:
    """("agents", 0, "role") → "agents.0.role"."""
    return ".".join(str(part) for part in path)


def type_at(path: Path) -> Any:
    """The annotation at a path, without ``Annotated``; None where there is no such key."""
    found: Any = RunConfig
    for part in path:
        found = _step(found, part)
        if found is None:
            return None
    return _bare(found)


def keys_under(path: Path) -> tuple[str, ...]:
    """Keys of the section at a path; empty if it is none, or its keys are free (``bases``)."""
    found = section_at(path)
    return tuple(fields_of(found)) if found is not None else ()


def section_at(path: Path) -> type[BaseModel] | None:
    """The class of the section at a path; None where there is none."""
    return _section(type_at(path))


def chooses(path: Path) -> str | None:
    """The registry's section whose kind the key at a path chooses; None if it chooses none."""
    shared = section_at(path[:-1]) if len(path) > 1 else None
    section = None if shared is None else SHARED.get(shared)
    return section if section and REGISTRIES[section].key == f"{section}.{path[-1]}" else None


def branches(annotation: Any) -> tuple[Any, ...]:
    """What a union may be, None left out; a plain type alone."""
    annotation = _bare(annotation)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return tuple(_bare(arg) for arg in typing.get_args(annotation) if arg is not types.NoneType)
    return (annotation,)


@dataclass(frozen=True, slots=True)
class KeyFact:
    """One key that takes a value: its default as TOML ("" for none), and what it means."""

    key: str  # dotted; "<name>" and "<n>" stand for free parts
    takes: str
    default: str
    meaning: str
    kinds: tuple[str, ...] = ()
    """Kinds of its section that have it; empty where all do."""


def key_facts() -> tuple[KeyFact, ...]:
    """Every key of a run description, in the order of the sections; of kinds that maporl lacks
    itself, those of kinds that were chosen.
    """
    return _all_facts(tuple(registry.loaded() for registry in REGISTRIES.values()))


@cache
def _all_facts(_loaded: tuple[tuple[str, ...], ...]) -> tuple[KeyFact, ...]:
    return tuple(_facts(RunConfig, ""))


def leaf_keys() -> tuple[str, ...]:
    """Every dotted key that takes a value."""
    return tuple(fact.key for fact in key_facts())


def _bare(annotation: Any) -> Any:
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _section(annotation: Any) -> type[BaseModel] | None:
    for branch in branches(annotation):
        if isinstance(branch, type) and issubclass(branch, BaseModel):
            return branch
    return None


def _step(annotation: Any, part: str | int) -> Any:
    section = _section(annotation)
    if section is not None:
        field = fields_of(section).get(str(part))
        return None if field is None else field.annotation
    for branch in branches(annotation):
        origin, args = typing.get_origin(branch), typing.get_args(branch)
        if origin is dict and isinstance(part, str):
            return args[1]
        if origin is tuple and isinstance(part, int):
            return args[0]
    return Any if annotation is Any else None


def field_fact(key: str, field: FieldInfo, kinds: tuple[str, ...] = ()) -> KeyFact:
    """What there is to say about one key."""
    return KeyFact(key, _takes(field), _default(field), field.description or "", kinds)


def _facts(section: type[BaseModel], path: str, otherwise: str = "") -> Iterator[KeyFact]:
    """``otherwise``: what there is in place of the section where it may be left out."""
    for name, field in fields_of(section).items():
        key = f"{path}.{name}" if path else name
        below, free = _section_below(field.annotation)
        if below is not None:
            instead = (field.description or "") if not free else ""
            yield from _facts(below, key + free, instead)
        elif otherwise and name == next(iter(section.model_fields)):
            fact = field_fact(key, field)
            yield replace(fact, default="", meaning=f"{fact.meaning}; {otherwise}")
        else:
            yield field_fact(key, field, kinds_with(section, name))


def _section_below(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The section that a key opens, and the free part of the path before its own keys."""
    section = _section(annotation)
    if section is not None:
        return section, ""
    for branch in branches(annotation):
        origin, args = typing.get_origin(branch), typing.get_args(branch)
        if origin is dict:
            return _section(args[1]), ".<name>"
        if origin is tuple:
            return _section(args[0]), ".<n>"
    return None, ""


_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


def _takes(field: FieldInfo) -> str:
    """What values a key takes, in words: "whole number >= 1"."""
    words = " or ".join(_branch_words(branch) for branch in branches(field.annotation))
    bounds = [*field.metadata, *_inner_metadata(field.annotation)]
    limits = [
        f"{sign} {bound_text(getattr(bound, name))}"
        for bound in bounds
        for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
        if getattr(bound, name, None) is not None
    ]
    return f"{words} {', '.join(limits)}" if limits else words


def bound_text(bound: float) -> str:
    """A bound as people write it: 0.01, 100, 1,000,000,000."""
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def _inner_metadata(annotation: Any) -> list[Any]:
    """Bounds inside an optional type: ``Annotated[int, Ge(1)] | None``."""
    found: list[Any] = []
    if typing.get_origin(annotation) in (Union, types.UnionType):
        for arg in typing.get_args(annotation):
            for part in getattr(arg, "__metadata__", ()):
                found += part.metadata if isinstance(part, FieldInfo) else [part]
    return found


def _branch_words(branch: Any) -> str:
    origin, args = typing.get_origin(branch), typing.get_args(branch)
    if origin is typing.Literal:
        return ", ".join(str(arg) for arg in args)
    if origin is tuple:
        return f"list of {_branch_words(_bare(args[0]))}"
    return "table" if origin is dict else _WORDS.get(branch, "value")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    return str(tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string())


def is_table(annotation: Any) -> bool:
    """Whether a value of this type is a TOML table."""
    if _section(annotation) is not None:
        return True
    return any(typing.get_origin(branch) in (dict, Mapping) for branch in branches(annotation))
