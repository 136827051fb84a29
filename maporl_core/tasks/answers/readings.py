r"""What an answer says, taken apart: one thing or several, with or without a name before "=".

In: two tidied answers (``latex.tidy``).  Out: whether they say the same, asking ``same`` about
pairs of single values.  "x = 5" may drop its name; "2x + z = 1" is an equation and may not.
Several values are a set ("1, -2", "x = 5, x = 7") unless their names or round brackets order them.
Neighbour: ``maths`` settles the pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from maporl_core.tasks.answers import latex

MAX_ITEMS = 24

Same = Callable[[Sequence[tuple[str, str]]], list[bool]]
"""Verdicts on pairs (answer, gold) of single values."""

_WORD = r"(?:\\(?:text|mbox|mathrm)\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![a-z]))"
_GROUP = re.compile(rf"\s*(?:,\s*)?{_WORD}\s*|\s*;\s*")
_COMMA = re.compile(r"\s*,\s*")
_EQUALS = re.compile(r"(?<![<>!:\\=])=(?!=)")
_RELATION = re.compile(r"[<>=]|!=|\\(?:leq|geq|neq|lt|gt|in|approx|equiv|sim)(?![A-Za-z])")
_ROUNDED = re.compile(r"\\(?:approx|simeq|cong|doteq)(?![A-Za-z])")
_ELEMENT = re.compile(r"\\in(?![A-Za-z])")
_SETS = re.compile(r"\\(?:cup|cap|setminus|emptyset|mathbb)")
_SIGN = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")

_SUB = r"(?:_(?:\{[^{}]{1,20}\}|\w))?'*(?:_(?:\{[^{}]{1,20}\}|\w))?"
_GREEK = r"\\(?!frac|sqrt|sin|cos|tan|log|ln|cdot|times|pm|sum|prod|int|in|left|text)[A-Za-z]{2,12}"
_STYLE = r"\\(?:text|mathrm|mathbf|mathit|vec|overline|overrightarrow|hat|bar|mbox|operatorname)"
_LETTERS = r"[A-Za-z]|[A-Z]{2,4}|[A-Z]?[a-z]{4,20}"
_VARIABLE = rf"(?:{_STYLE}\s*\{{[^{{}}]{{1,60}}\}}|{_GREEK}|{_LETTERS}){_SUB}"
_MANY = rf"{_VARIABLE}(?:\s*,\s*{_VARIABLE}){{0,8}}"
_NAME = re.compile(
    rf"(?:\\(?:angle|triangle)\s*)?{_VARIABLE}"
    rf"|{_VARIABLE}\s*\((?:{_MANY}|-?\d+(?:\s*,\s*-?\d+){{0,4}})\)"  # f(x), f(3), P(A)
    rf"|\({_MANY}\)|\|{_VARIABLE}\||{_VARIABLE}\s*:\s*{_VARIABLE}"
    r"|\\frac\s*\{[A-Z]{2}\}\s*\{[A-Z]{2}\}|\\(?:angle|triangle)\s*[A-Z]{1,4}"
)


@dataclass(frozen=True, slots=True)
class Item:
    """One value with the name before its "=", if any.  ``whole`` is what was written."""

    name: str | None
    value: str
    whole: str
    equation: bool = False  # relates more than a lone name to a value


@dataclass(frozen=True, slots=True)
class Reading:
    items: tuple[Item, ...]
    ordered: bool  # written in round brackets
    braced: bool = False  # a set in visible braces

    @property
    def names(self) -> set[str | None]:
        return {item.name for item in self.items}

    @property
    def labelled(self) -> bool:
        """Whether each value has a name and the names tell the values apart."""
        return len(self.names) > 1 and None not in self.names


def exact_side(answer: str) -> str:
    r"""The exact side of "1/3 \approx 0.33"; all of it where a lone name is given only a value."""
    answer = answer.replace("≈", r"\approx ")
    pieces = latex.split(answer, _ROUNDED)
    if len(pieces) < 2:
        return answer
    if not pieces[0].strip(" $") or is_name(pieces[0]):
        return "=".join(pieces[:2]) if pieces[0].strip(" $") else pieces[1]
    return pieces[0].rstrip(" $")


def is_name(text: str) -> bool:
    """Whether this names one quantity: x, x_1, AB, |AB|, f(x), (p, q), A : B."""
    return len(text) <= 200 and _NAME.fullmatch(text.strip(" $")) is not None


def same_reading(answer: str, gold: str, same: Same) -> bool:
    """Whether two tidied answers say the same."""
    first, second = read(answer), read(gold)
    if max(len(first.items), len(second.items)) > MAX_ITEMS:
        return False
    if len(first.items) == len(second.items) == 1 and first.braced == second.braced:
        return _same_item(first.items[0], second.items[0], same)
    if _SETS.search(answer) or _SETS.search(gold):
        return same([(answer, gold)])[0]
    return _same_items(first, second, same)


def read(answer: str) -> Reading:
    """The values an answer gives, and whether their order counts."""
    answer = exact_side(answer).strip()
    element = latex.split(answer, _ELEMENT)
    if len(element) == 2 and is_name(element[0]):
        answer = element[1].strip()
    for opening, closing in (("\\{", "\\}"), ("{", "}")):
        content = latex.inside(answer, opening, closing)
        if content is not None:
            return replace(_listed(content), braced=opening != "{")
    return _listed(answer)


def _listed(answer: str) -> Reading:
    groups = [latex.split(group, _COMMA) for group in latex.split(answer, _GROUP) if group.strip()]
    items: list[Item] = []
    tuples = len(groups) > 1 and any(_are_labelled(group) for group in groups)
    if tuples:
        for group in groups:
            value = "(" + ", ".join(_item(piece).value for piece in group) + ")"
            items.append(Item(None, value, value))
        return Reading(tuple(items), ordered=False)
    name: str | None = None
    for piece in (piece for group in groups for piece in group if piece.strip()):
        item = _item(piece)
        name = item.name or name
        items += _both_signs(item if item.equation else replace(item, name=name))
    if len(items) == 1 and items[0].name is None:
        content = latex.inside(items[0].value, "(", ")")
        pieces = latex.split(content, _COMMA) if content else []
        if len(pieces) > 1:
            return Reading((items[0],), ordered=True)
    return Reading(tuple(items) or (Item(None, answer, answer),), ordered=False)


def _are_labelled(pieces: Sequence[str]) -> bool:
    names = [_item(piece).name for piece in pieces]
    return len(set(names)) > 1 and None not in names


def _item(piece: str) -> Item:
    piece = exact_side(piece).strip()
    parts = [part.strip() for part in latex.split(piece, _EQUALS)]
    if len(parts) == 1:
        return Item(None, _with_commas(piece), piece)
    names = [part for part in parts[:-1] if is_name(part)]
    if names:
        return Item(latex.compact(names[0]), _with_commas(parts[-1]), piece)
    if len(parts) == 2 and is_name(parts[1]):
        return Item(latex.compact(parts[1]), _with_commas(parts[0]), piece)
    if not re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", "".join(parts))):
        return Item(None, parts[-1], piece)  # a worked line: 16 - 7 = 9
    return Item(None, piece, piece, equation=True)


def _with_commas(value: str) -> str:
    """ "(0; 2)" as "(0, 2)"."""
    return value.replace(";", ",") if latex.inside(value, "(", ")") is not None else value


def _both_signs(item: Item) -> list[Item]:
    if len(_SIGN.findall(item.value)) != 1 or item.equation or item.value[:1] in "([":
        return [item]
    return [replace(item, value=_SIGN.sub(sign, item.value).lstrip("+ ")) for sign in "+-"]


def _same_item(first: Item, second: Item, same: Same) -> bool:
    if first.equation or second.equation:
        both = all(len(latex.split(side.whole, _EQUALS)) > 1 for side in (first, second))
        return both and same([(first.whole, second.whole)])[0]
    if first.name and second.name and first.name != second.name:
        lettered = all(re.search(r"(?<![\\A-Za-z])[A-Za-z]", x.value) for x in (first, second))
        return lettered and same([(first.whole, second.whole)])[0]
    # "x = 3" says more than "x < 4": a relation is not the value of a name.
    related = any(len(latex.split(x.value, _RELATION)) > 1 for x in (first, second))
    if related and (first.name or second.name):
        return False
    return same([(first.value, second.value)])[0]


def _same_items(first: Reading, second: Reading, same: Same) -> bool:
    if any(item.equation for item in (*first.items, *second.items)):
        whole = [[replace(i, name=None, value=i.whole) for i in r.items] for r in (first, second)]
        return _covered(whole[0], whole[1], same)
    if first.ordered != second.ordered:  # "(1, 3)" may be written as "1, 3", but is no {1, 3}
        unpacked = [_unpacked(side) for side in (first, second)]
        if first.braced or second.braced or len(unpacked[0]) != len(unpacked[1]):
            return False
        return all(same(list(zip(*unpacked, strict=True))))
    if first.labelled and second.labelled:
        return first.names == second.names and all(
            _covered(
                [item for item in first.items if item.name == name],
                [item for item in second.items if item.name == name],
                same,
            )
            for name in first.names
        )
    if first.labelled or second.labelled:
        if len(first.items) != len(second.items) or None not in first.names | second.names:
            return False
        values = [(a.value, g.value) for a, g in zip(first.items, second.items, strict=True)]
        return all(same(values))
    if first.names != second.names and None not in first.names | second.names:
        return False
    return _covered(first.items, second.items, same)


def _unpacked(reading: Reading) -> list[str]:
    if not reading.ordered:
        return [item.value for item in reading.items]
    return latex.split(latex.inside(reading.items[0].value, "(", ")") or "", _COMMA)


def _covered(first: Sequence[Item], second: Sequence[Item], same: Same) -> bool:
    """Whether every value stands on the other side as well, in any order and number."""
    values = [list(dict.fromkeys(item.value for item in side)) for side in (first, second)]
    pairs = [(answer, gold) for answer in values[0] for gold in values[1]]
    verdicts = [pair for pair, verdict in zip(pairs, same(pairs), strict=True) if verdict]
    return {a for a, _ in verdicts} == set(values[0]) and {g for _, g in verdicts} == set(values[1])
