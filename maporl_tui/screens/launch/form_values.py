"""Values of a form's fields: what kind a key takes, text into a value, a value into text.

In: a path into the config and what was typed.  Out: plain values as TOML has them, and words for
``--set``.  Pure.  Neighbour: ``form`` and the Launch screen's fields.
"""

from __future__ import annotations

import json
import re
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from maporl_core.config.keys import branches, type_at

Kind = Literal["switch", "select", "number", "text", "list", "table"]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_WORD = re.compile(r"""[^\s"'\[{][^\x00-\x1f\x7f]*""")


@dataclass(frozen=True, slots=True)
class Takes:
    """What a key takes; ``choices`` are those of a select, ``optional``: it may be left out."""

    kind: Kind
    optional: bool = False
    choices: tuple[str, ...] = ()


def takes(path: Sequence[str | int]) -> Takes:
    """What the key at a path takes."""
    # A key of a section that may be left out may be left out with it.
    opened = [type_at(path[:length]) for length in range(1, len(path) + 1)]
    optional = any(types.NoneType in typing.get_args(each) for each in opened)
    kinds = branches(type_at(path))
    if any(typing.get_origin(kind) in (list, tuple) for kind in kinds):
        return Takes("list", optional)
    if any(typing.get_origin(kind) is Literal for kind in kinds):
        choices = tuple(str(choice) for choice in typing.get_args(kinds[0]))
        return Takes("select", optional, choices)
    if bool in kinds:
        return Takes("switch", optional)
    if int in kinds or float in kinds:
        return Takes("number", optional)
    return Takes("text" if str in kinds else "table", optional)


def parse(path: Sequence[str | int], text: str) -> Any:
    """The value that a text stands for; text that stands for none is left for the config to refuse.

    None for an empty text where a key may be left out.
    """
    what = takes(path)
    text = text.strip()
    if not text and (what.optional or what.kind == "table"):
        return None if what.optional else {}
    if what.kind == "number":
        return _number(text)
    if what.kind == "list":
        return _list(path, text)
    if what.kind == "table":
        return _toml(text if text.startswith("{") else f"{{{text}}}", text)
    return text


def _number(text: str) -> Any:
    for make in (int, float):
        try:
            return make(text)
        except ValueError:
            continue
    return text


def _list(path: Sequence[str | int], text: str) -> Any:
    if text.startswith("["):
        return _toml(text, text)
    words = [word.strip() for word in text.split(",") if word.strip()]
    kinds = branches(type_at(path))
    if any(text in typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is Literal):
        return text
    numbers = not any(str in typing.get_args(kind) for kind in kinds)
    return [_number(word) for word in words] if numbers else words


def _toml(text: str, typed: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):
        return typed


def show(path: Sequence[str | int], value: Any) -> str:
    """A value as its field shows it; ``parse`` makes it the value again."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and takes(path).kind == "list" and value:
        words = [entry if isinstance(entry, str) else value_text(entry) for entry in value]
        joined = ", ".join(words)
        return joined if parse(path, joined) == value else value_text(value)
    return value_text(value) if value != {} else ""


def word_text(path: Sequence[str | int], value: Any) -> str:
    """A value as it follows the "=" of ``--set``: words bare where that is safe."""
    if isinstance(value, str):
        plain_word = _PLAIN_WORD.fullmatch(value) and value == value.strip()
        # A word for a key that takes no words must not be read as a number or a list.
        if plain_word and takes(path).kind in ("text", "select"):
            return value
    return value_text(value)


def value_text(value: Any) -> str:
    """A plain value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))} = {value_text(entry)}" for key, entry in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def dotted_key(path: Sequence[str | int]) -> str:
    """A path as the key of ``--set``."""
    return ".".join(_key(str(part)) for part in path)


def _key(part: str) -> str:
    return part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
