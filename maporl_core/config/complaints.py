"""Pydantic's complaints about a run description, reworded as one plain line per key.

In: a ValidationError of RunConfig.  Out: lines such as "train.steps: must be at least 0 (got -3)".
Neighbours: ``config.load`` raises them as one ConfigError; ``config.keys`` suggests keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from maporl_core.config.keys import Path, bound_text, dotted, type_at
from maporl_core.config.meant import unknown_lines
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line

MAX_LINES = 5

_TYPES: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "string_unicode": "valid Unicode text",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
_NAME_RULE = "a name: letters, digits, _ . or -, starting with a letter or digit, at most 64 long"


def explain(error: ValidationError) -> list[str]:
    """At most ``MAX_LINES`` lines, one per key, and a last one that counts the rest."""
    wanted: dict[str, list[str]] = {}  # dotted key → what it must be, one per union branch
    others: dict[str, str] = {}  # dotted key → a whole sentence
    got: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        path = _known_part(fault["loc"])
        key = dotted(path)
        need = _need(fault)
        if fault["type"] == "extra_forbidden":
            for line in unknown_lines(tuple(fault["loc"]), fault["input"]):
                others.setdefault(line.partition(": ")[0], line)
        elif need is None:
            others.setdefault(key, _sentence(fault, path))
        else:
            got[key] = _value(fault["input"]) + _hint(fault)
            needs = wanted.setdefault(key, [])
            if need not in needs:
                needs.append(need)
    lines = list(others.values())
    lines += [
        f"{_label(key)}must be {' or '.join(needs)} (got {got[key]})"
        for key, needs in wanted.items()
    ]
    if len(lines) > MAX_LINES:
        rest = len(lines) - MAX_LINES
        lines[MAX_LINES:] = [f"… and {rest} more"]
    return lines


def _label(key: str) -> str:
    return f"{one_line(key)}: " if key else ""


def _known_part(loc: Path) -> tuple[str | int, ...]:
    """``loc`` without the names of union branches and the mark of a dict key at its end."""
    parts = [part for part in loc if part != "[key]"]
    for length in range(len(parts), 0, -1):
        if type_at(parts[:length]) is not None:
            return tuple(parts[:length])
    return tuple(parts)


def _need(fault: Mapping[str, Any]) -> str | None:
    """What the value must be, to follow "must be"; None if the fault is of another kind."""
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{words} {bound_text(context[name])}"
    if kind == "literal_error":
        return str(fault["ctx"]["expected"])
    if kind == "string_pattern_mismatch":
        return _NAME_RULE
    return None


def _hint(fault: Mapping[str, Any]) -> str:
    """The choice that was probably meant, from pydantic's "'a', 'b' or 'c'"."""
    if fault["type"] != "literal_error" or not isinstance(fault["input"], str):
        return ""
    options = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
    near = nearest(fault["input"], options)
    return f"; did you mean {near!r}?" if near else ""


def _sentence(fault: Mapping[str, Any], path: tuple[str | int, ...]) -> str:
    kind = fault["type"]
    if kind == "string_too_long":
        most = fault["ctx"]["max_length"]
        return f"{_label(dotted(path))}must be at most {most:,} characters long"
    if kind == "string_too_short":
        return f"{_label(dotted(path))}must not be empty"
    if kind == "missing":
        return f"{one_line(dotted(fault['loc']))}: missing; every entry needs one"
    if kind == "value_error":  # written in config; it names its key from its own section on
        said = one_line(fault["ctx"]["error"], 400)
        within = path[:-1] if path and said.startswith(f"{path[-1]}.") else ()
        return f"{dotted(within)}.{said}" if within else said
    return f"{_label(dotted(path))}{one_line(fault['msg'])} (got {_value(fault['input'])})"


def _value(value: Any) -> str:
    try:
        return one_line(repr(value), 60)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return "an enormous number"
