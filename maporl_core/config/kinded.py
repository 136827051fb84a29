"""Sections whose keys depend on the kind that is chosen in them.

In: a section's table.  Out: a frozen section of the chosen kind's own class: the keys that all
kinds share and the kind's ``Options``.  Neighbours: ``doors`` finds kinds, ``schema`` uses
``chosen`` in its fields, ``keys`` asks which keys there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, BeforeValidator, create_model
from pydantic.fields import FieldInfo

from maporl_core.config.doors import REGISTRIES
from maporl_core.errors import ConfigError

SHARED: dict[type[BaseModel], str] = {}
"""Class of the keys that all kinds of a section share → the section's name."""


def chosen(shared: type[BaseModel], section: str) -> BeforeValidator:
    """For a field's annotation: its table is validated as the chosen kind's class."""
    SHARED[shared] = section

    def choose(value: Any) -> Any:
        if isinstance(value, BaseModel) and not isinstance(value, shared):
            value = value.model_dump()  # a kind's own Options, made in code
        if not isinstance(value, Mapping):
            return value
        kind = value.get(_word(section), shared.model_fields[_word(section)].default)
        if not isinstance(kind, str):
            return value
        return section_class(shared, kind).model_validate(dict(value))

    return BeforeValidator(choose)


def _word(section: str) -> str:
    """The key that chooses the kind: "kind", or a task's "name"."""
    return REGISTRIES[section].key.split(".")[1]


def json_schema(whole: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a run description, with the keys of every kind in its section."""
    schema = whole.model_json_schema()
    for shared, section in SHARED.items():
        kinds = []
        for cls in dict.fromkeys(classes(shared).values()):
            kinds.append(cls.model_json_schema())
            schema["$defs"] |= kinds[-1].pop("$defs", {})
        if len(kinds) > 1 or shared not in classes(shared).values():
            schema["properties"][section] = {"anyOf": kinds}
            schema["$defs"][shared.__name__] = {"anyOf": kinds}  # where others have such a section
    return schema


def section_class(shared: type[BaseModel], kind: str) -> type[BaseModel]:
    """The class of a section of that kind.  Raises ValueError for a kind that cannot be chosen."""
    try:
        found = REGISTRIES[SHARED[shared]].find(kind)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return _joined(shared, found.options, found.name)


def classes(shared: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Kind → class, of own kinds and of others' that were chosen in this process."""
    return {name: section_class(shared, name) for name in REGISTRIES[SHARED[shared]].loaded()}


def fields_of(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Keys of a section, of whatever kind: those all kinds share first."""
    fields = dict(section.model_fields)
    if section not in SHARED:
        return fields
    registry = REGISTRIES[SHARED[section]]
    word = _word(registry.section)
    for cls in classes(section).values():
        fields = {**cls.model_fields, **fields}
    if word == "kind":
        given = section.model_fields[word]
        choice: Any = Literal[registry.names()]
        fields[word] = FieldInfo(
            annotation=choice, default=given.default, description=given.description
        )
    first = [*section.model_fields, *(key for key in fields if key not in section.model_fields)]
    return {key: fields[key] for key in first}


def kinds_with(section: type[BaseModel], key: str) -> tuple[str, ...]:
    """Kinds that have a key, for a key that not all kinds share; else nothing."""
    if section not in SHARED or key in section.model_fields:
        return ()
    return tuple(name for name, cls in classes(section).items() if key in cls.model_fields)


def forget_other_kinds(table: dict[str, Any], section: str) -> None:
    """Take keys of other kinds out of a section's table whose kind has changed."""
    shared = next((cls for cls, name in SHARED.items() if name == section), None)
    if shared is None:
        return
    word = _word(section)
    kind = table.get(word, shared.model_fields[word].default)
    if not isinstance(kind, str):
        return  # validation will say what is wrong with it
    try:
        own = section_class(shared, kind).model_fields
    except ValueError:
        return  # the same
    for key in [key for key in table if key not in own and kinds_with(shared, key)]:
        del table[key]


@cache
def _joined(shared: type[BaseModel], options: type[BaseModel], kind: str) -> type[BaseModel]:
    own = [name for name in options.model_fields if name not in shared.model_fields]
    if not own:
        return shared
    word = _word(SHARED[shared])
    given = shared.model_fields[word]
    fields: Any = {word: (given.annotation, FieldInfo(default=kind, description=given.description))}
    made: type[BaseModel] = create_model(
        options.__name__, __base__=(options, shared), __module__=options.__module__, **fields
    )
    return made
