"""``--set a.b=c``: one override on the tables of a run description.

In: the tables, and one text from the command line.  Out: the tables, changed in place, or a
ConfigError.  Neighbours: ``config.load`` applies them in order before it validates the whole.

The key is a TOML dotted key whose agents may be named by position or by name
(``agents.0.role``, ``agents.Ada.role``).  The value is a TOML value; words need no quotes, also
inside lists (``train.train_agents=[Ada, Bo]``).  Nothing after the "=" puts the default back.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from typing import Any

from maporl_core.config.doors import REGISTRIES
from maporl_core.config.keys import branches, chooses, dotted, is_table, type_at
from maporl_core.config.kinded import forget_other_kinds
from maporl_core.config.meant import suggestion
from maporl_core.config.renamed import GONE, KEYS, VALUES, say_renamed
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.kit.plain_text import one_line

_KEY_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^."'=\s][^."'=]*)\s*""")
_VALUE_PIECES = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'[^']*')|([\[\]{},=])|([^\[\]{},="']+)""", re.DOTALL
)


def know_kinds(data: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Find the kinds that are chosen, so that their keys are known before any is set."""
    bases = data.get("bases")
    tables = [data, *(bases.values() if isinstance(bases, Mapping) else ())]
    chosen = [override.partition("=") for override in overrides]
    for registry in REGISTRIES.values():
        word = registry.key.split(".")[1]
        sections = [t.get(registry.section) for t in tables if isinstance(t, Mapping)]
        names = [section.get(word) for section in sections if isinstance(section, Mapping)]
        names += [value.strip() for key, _, value in chosen if _ends_with(key, registry.key)]
        for name in names:
            if isinstance(name, str):
                with suppress(ConfigError):  # told when the whole is validated
                    registry.find(name)


def _ends_with(key: str, wanted: str) -> bool:
    return f".{key.strip()}".endswith(f".{wanted}")


def apply_override(data: dict[str, Any], override: str) -> None:
    """Change ``data`` as "a.b=c" says.  Raises ConfigError for a malformed or unknown key."""
    path, text = _split(override)
    old = ".".join(path)
    if old in KEYS:
        say_renamed(f"--set {old}: now called {KEYS[old]}")
        path = KEYS[old].split(".")
    elif (old, text) in GONE:
        say_renamed(f"--set {old}={text}: {GONE[old, text]} decides it now; leave it out")
        return
    target: Any = data
    resolved: list[str | int] = []
    for part in path[:-1]:
        target, step = _enter(target, part, resolved, override, path)
        resolved.append(step)
    _assign(target, path[-1], text, resolved, override)


def _split(override: str) -> tuple[list[str], str]:
    parts: list[str] = []
    position = 0
    while True:
        match = _KEY_PART.match(override, position)
        if match is None:
            break
        parts.append(_unquote(match[1]))
        position = match.end()
        if override[position : position + 1] != ".":
            break
        position += 1
    if not parts or override[position : position + 1] != "=":
        raise ConfigError(
            f"--set {one_line(override, 80)}: write it as key=value, such as train.steps=20"
        )
    return parts, override[position + 1 :].strip()


def _unquote(part: str) -> str:
    if part[0] not in "\"'":
        return part.strip()
    return str(_toml_value(part))


def _enter(
    target: Any, part: str, resolved: list[str | int], override: str, path: list[str]
) -> tuple[Any, str | int]:
    """The table or list under ``part``, made if the default has to be written out first."""
    if isinstance(target, list):
        index = _index(target, part, resolved)
        return target[index], index
    if not isinstance(target, dict):
        raise ConfigError(
            f"--set {one_line(override, 80)}: {dotted(resolved)} is a single value, it has no keys"
        )
    here = [*resolved, part]
    annotation = type_at(here)
    if annotation is None:
        raise ConfigError(f"{one_line(dotted(path))}: unknown key; {suggestion(path)}")
    if part not in target:
        target[part] = _written_default(here, annotation)
    return target[part], part


def _written_default(path: list[str | int], annotation: Any) -> Any:
    """The default of a section, list or table as plain data, so that a part can be changed."""
    if len(path) == 1:
        value = getattr(RunConfig(), str(path[0]))
        if isinstance(value, tuple):
            return [item.model_dump(exclude_none=True) for item in value]
        if isinstance(value, dict):
            return {name: item.model_dump(exclude_none=True) for name, item in value.items()}
    return {} if annotation is Any or is_table(annotation) else None


def _index(items: list[Any], part: str, resolved: list[str | int]) -> int:
    """Position of an entry by number or by its ``name``."""
    names = [str(item.get("name")) if isinstance(item, dict) else "" for item in items]
    if part in names:
        return names.index(part)
    if re.fullmatch(r"\d{1,9}", part) and int(part) < len(items):
        return int(part)
    known = ", ".join(
        f"{index} ({name})" if name else str(index) for index, name in enumerate(names)
    )
    raise ConfigError(f"{dotted(resolved)}: no entry {one_line(part)!r}; there are: {known}")


def _assign(target: Any, part: str, text: str, resolved: list[str | int], override: str) -> None:
    if isinstance(target, list):
        index = _index(target, part, resolved)
        if text == "":
            del target[index]
        else:
            target[index] = _value(text, type_at([*resolved, index]), override)
        return
    if not isinstance(target, dict):
        raise ConfigError(
            f"--set {one_line(override, 80)}: {dotted(resolved)} is a single value, it has no keys"
        )
    here = [*resolved, part]
    annotation = type_at(here)
    if annotation is None:
        raise ConfigError(f"{one_line(dotted(here))}: unknown key; {suggestion(here)}")
    if text == "":
        target.pop(part, None)
    else:
        target[part] = _today(here, _value(text, annotation, override))
    if section := chooses(here):
        forget_other_kinds(target, section)


def _today(path: list[str | int], value: Any) -> Any:
    """The value as it is called today."""
    new = VALUES.get(dotted(path), {}).get(value) if isinstance(value, str) else None
    if new is None:
        return value
    say_renamed(f"--set {dotted(path)}={value}: now called {new}")
    return new


def _value(text: str, annotation: Any, override: str) -> Any:
    """The value of ``text`` for a key of this type."""
    kinds = branches(annotation)
    if str in kinds and text[0] not in "\"'":
        return text  # a name such as 2024 or true stays a word
    try:
        value = _toml_value(text)
    except ValueError:
        value = _with_bare_words(text, override)
    if isinstance(value, date | datetime | time):
        return text
    return value


def _toml_value(text: str) -> Any:
    """One TOML value, and nothing after it.  Raises ValueError."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if list(parsed) != ["value"]:
        raise ValueError("more than one value")
    return parsed["value"]


def _with_bare_words(text: str, override: str) -> Any:
    """``text`` with quotes put around its words: a word alone, or words in a list or table."""
    if text[0] not in "[{\"'":
        return text
    pieces: list[str] = []
    end = 0
    for match in _VALUE_PIECES.finditer(text):
        pieces.append(text[end : match.start()])  # a stray quote: left for TOML to refuse
        quoted, mark, word = match.groups()
        end = match.end()
        pieces.append(quoted or mark or _quote_word(word, text[end : end + 1]))
    try:
        return _toml_value("".join([*pieces, text[end:]]))
    except ValueError:
        raise ConfigError(
            f"--set {one_line(override, 80)}: not a TOML value; quote it for the shell, such as "
            '\'train.train_agents=["Ada", "Bo"]\''
        ) from None


def _quote_word(word: str, following: str) -> str:
    stripped = word.strip()
    if not stripped or following == "=":
        return word
    try:
        _toml_value(stripped)
    except ValueError:
        return json.dumps(stripped, ensure_ascii=False)
    return word
