"""Numbers that stand in running text: where each begins and ends, its exact value, its sign.

In: text turned plain by ``plain`` and ``separators``.  Out: ``Literal`` records, left to right.
What is glued to a word, a date, a version or a list is no number.  Neighbours: ``numerals``
chooses among them, ``arithmetic`` bounds their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from maporl_core.tasks.answers.arithmetic import (
    NotArithmetic,
    TooLarge,
    bounded,
    power,
    read_number,
)

# Nothing here repeats a group possessively: Python before 3.11.5 reads "(...)*+" wrongly.
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_GROUPED = r"(?!0)\d{1,3}(?:,\d{3}){1,40}(?!\d|,\d)"
_INDIAN = r"\d{1,2}(?:,\d{2}(?!\d)){1,20},\d{3}(?!\d|,\d)"
# One number in running text.  What is glued to a word (H2O, x_1), a power or a slash, and parts
# of dates, versions and lists (5/12/2023, 1.2.3, "12,5"), is none.  The sign is looked for apart.
LITERAL = re.compile(
    r"(?<![^\W_])(?<!\w_)(?<![.^/])(?<!\d,)"
    rf"(?P<body>(?>(?:{_GROUPED}|{_INDIAN}|\d++)(?:\.\d++)?|\.\d++))"
    r"(?:(?P<exp>e[-+]?\d{1,9})(?!\w)"
    r"|(?:\s?[*x]\s?(?P<ten>10))?\s?(?:\^|\*\*)\s?\(?(?P<power>[-+]?\d{1,9}+)\)?"
    r"|\s(?P<over>\d{1,9}+)/(?P<under>\d{1,9}+)(?!\d|/|\.\d)"
    r"|/(?P<divisor>\d++(?:\.\d++)?)(?!\d|/|\.\d))?"
    r"(?![.,/]\d)"
    r"(?:\s?(?P<scale>hundred|thousand|million|billion|trillion)s?\b)?",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:(?P<left>\S)(?P<space>\s*))?-(?P<gap>\s*)[$€£¥₹]?\s?$")


@dataclass(frozen=True, slots=True)
class Literal:
    start: int
    end: int
    value: Fraction | None  # None: a number, but out of bounds
    signed: bool


def literals(cleaned: str) -> Iterator[Literal]:
    for found in LITERAL.finditer(cleaned):
        if (literal := literal_at(cleaned, found)) is not None:
            yield literal


def literal_at(cleaned: str, found: re.Match[str]) -> Literal | None:
    """The number found there; None for one that is none, such as 5/0."""
    minus = _is_minus(cleaned, found.start())
    try:
        value = _literal_value(found)
    except TooLarge:
        return Literal(found.start(), found.end(), None, minus)
    except NotArithmetic:
        return None
    return Literal(found.start(), found.end(), -value if minus else value, minus)


def _literal_value(found: re.Match[str]) -> Fraction:
    value = read_number(found["body"].replace(",", "") + (found["exp"] or ""))
    if found["power"]:
        exponent = Fraction(int(found["power"]))
        value = value * power(Fraction(10), exponent) if found["ten"] else power(value, exponent)
    elif found["over"]:
        if int(found["under"]) == 0:
            raise NotArithmetic("division by zero")
        value += Fraction(int(found["over"]), int(found["under"]))
    elif found["divisor"]:
        divisor = read_number(found["divisor"])
        if divisor == 0:
            raise NotArithmetic("division by zero")
        value /= divisor
    if found["scale"]:
        value *= 10 ** _SCALES[found["scale"].lower()]
    return bounded(value)


def _is_minus(text: str, start: int) -> bool:
    """Whether the number that starts there has a minus sign: "-3", "-$5", "$-5", "= - 3".

    No sign is the hyphen of "5-3" or "total-5", or the dash of a list ("- 3 eggs").
    """
    found = _MINUS.search(text, max(0, start - 12), start)
    if found is None:
        return False
    left, space = found["left"] or "", found["space"] or ""
    if not found["gap"]:
        return bool(space) or not (left.isalnum() or left in tuple(")]}%.-_"))
    return left in ("=", "(", ":") and "\n" not in space


def ungrouped(text: str) -> str:
    """Thousands separators and currency signs taken out; a stray comma stays and spoils it."""
    text = re.sub(r"[$€£¥₹]\s?(?=[-.\d])", "", text)
    if "," not in text:
        return text
    return re.sub(
        rf"(?<![\d.,])(?:{_GROUPED}|{_INDIAN})", lambda found: found[0].replace(",", ""), text
    )
