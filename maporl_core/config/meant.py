"""The key that was meant by an unknown one: searched over all sections, by name and by meaning.

In: a path such as ("ppo", "learning_rate").  Out: words that name a key, "did you mean update.lr?".
Neighbours: ``keys`` lists the keys and what they mean; ``complaints`` and ``overrides`` ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maporl_core.config.doors import REGISTRIES
from maporl_core.config.keys import (
    Path,
    dotted,
    key_facts,
    keys_under,
    leaf_keys,
    section_at,
    type_at,
)
from maporl_core.config.kinded import SHARED, kinds_with
from maporl_core.config.renamed import KEYS
from maporl_core.kit.nearest import likeness, nearest
from maporl_core.kit.plain_text import one_line

NAMESAKE = 0.8
"""How like a key of another section must be; a sibling need not be so like."""


def unknown_lines(path: Path, value: Any) -> list[str]:
    """One line for an unknown key; for an unknown section one for each key in it."""
    paths = [path]
    if isinstance(value, Mapping) and value:
        paths = [(*path, str(key)) for key in value]
    return [f"{one_line(dotted(each))}: {_not_here(each)}" for each in paths]


def _not_here(path: Path) -> str:
    section = section_at(path[:-1]) if len(path) > 1 else None
    kinds = kinds_with(section, str(path[-1])) if section is not None else ()
    if section is not None and kinds:
        word = REGISTRIES[SHARED[section]].key.split(".")[1]
        key = dotted((*path[:-1], word))
        return f"only {key} = {' or '.join(map(repr, kinds))} has this key"
    return f"unknown key; {suggestion(path)}"


def suggestion(path: Path) -> str:
    """What to write instead: a renamed key, the nearest sibling, a namesake, or by meaning."""
    *parent, leaf = path
    meant = KEYS.get(dotted(path)) or _other_section(path) or _by_name(parent, str(leaf))
    meant = meant or _by_meaning(str(leaf))
    if meant:
        return f"did you mean {meant}?"
    siblings = keys_under(parent)
    if not siblings:
        parent, siblings = [], keys_under(())
    where = f"[{dotted(parent)}]" if parent else "the top level"
    return f"{where} has {', '.join(siblings)}"


def _other_section(path: Path) -> str | None:
    """The same key with its section spelled right."""
    if len(path) < 2 or type_at(path[:1]) is not None:
        return None
    section = nearest(str(path[0]), keys_under(()))
    if section is None or type_at((section, *path[1:])) is None:
        return None
    return dotted((section, *path[1:]))


def _by_name(parent: Path, word: str) -> str | None:
    # Of several keys of one name the least nested, then the first one.
    by_depth = sorted(leaf_keys(), key=lambda key: key.count("."))
    namesakes = {key.rsplit(".", 1)[-1]: key for key in reversed(by_depth)}
    near = nearest(word, keys_under(parent))
    far = nearest(word, namesakes, NAMESAKE)
    if near and not (far and likeness(word, far) > likeness(word, near)):
        return dotted([*parent, near])
    return namesakes[far] if far else None


def _by_meaning(word: str) -> str | None:
    """The key whose meaning begins with the words of ``word``, or has them soonest."""
    wanted = re.findall(r"[a-z]+", word.lower())
    if not wanted or len("".join(wanted)) < 4:
        return None
    latest = 1 if len(wanted) == 1 else 100  # a lone word may stand anywhere by chance
    found: list[tuple[int, int, str]] = []
    for fact in key_facts():
        words = re.findall(r"[a-z]+", fact.meaning.lower())
        for at in range(min(len(words) - len(wanted), latest) + 1):
            if words[at : at + len(wanted)] == wanted:
                found.append((at, fact.key.count("."), fact.key))
                break
    return min(found, key=lambda each: each[:2])[2] if found else None
