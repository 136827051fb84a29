"""Numbers in words and with short scales: "eighteen", "two and a half", "5k", "$5M".

In: text.  Out: the same text with such numbers in digits.  Words are turned only where a number is
expected, at the beginning of an explicit answer; "one" and "second" are words of prose as well.
Neighbours: ``numerals`` reads what comes out.
"""

from __future__ import annotations

import re
from fractions import Fraction

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 10 * value for value, word in enumerate(_TENS, start=2)},
    "dozen": 12,
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    "half": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
_CARDINAL = "|".join((*_SMALL, "hundred", *_SCALES))
_PART = "|".join(_PARTS)
_RUN = re.compile(
    rf"\b(?P<number>(?:(?:a\s+)?(?:{_CARDINAL})\b)(?:(?:\s+and\s+|[\s-]+)(?:{_CARDINAL})\b){{0,20}})"
    r"(?P<half>\s+and\s+a\s+half\b)?"
    rf"(?:[\s-](?P<part>{_PART}|halve)s?\b)?"
    rf"|\b(?:a\s+)?(?P<only>half)\b|\ba\s+(?P<one>{_PART})\b",
    re.IGNORECASE,
)
# What may stand before the number of an explicit answer.
_OPENING = re.compile(
    r"[\s$*_(\"'“]*(?:(?:is|are|it|that|exactly|about|only|just|approximately|roughly|around|a\s+total"
    r"\s+of|the\s+number|there|will|be|minus|negative|equals?|of|he|she|they|has|have|had)\b[\s:]*)*",
    re.IGNORECASE,
)
_NOT_A_NUMBER = re.compile(
    r"\s*(?:of|more|less|fewer|times|by|another|can|should)\b", re.IGNORECASE
)

_SHORT = re.compile(
    r"(?<![\w.,])(?P<money>(?:\\?[$€£¥₹]|USD|EUR|GBP)\s?)?"
    r"(?P<number>\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?)"
    r"(?:(?P<unit>[kKM]|bn|mn|tn|[BTmbt](?=\W|_|$))|\\?\s?\\(?:text|mathrm)\{\s?(?P<styled>[kKMB]|bn)\})"
    r"(?![\w'’-])"
)
_SHORT_SCALES = {"k": "thousand", "m": "million", "b": "billion", "t": "trillion"}


def in_digits(answer: str) -> str:
    """An explicit answer with the number word it begins with in digits: "18 dollars"."""
    opening = _OPENING.match(answer)
    start = opening.end() if opening else 0
    found = _RUN.match(answer, start)
    if found is None or _NOT_A_NUMBER.match(answer, found.end()):
        return answer
    value = _value(found)
    return answer if value is None else f"{answer[:start]}{value}{answer[found.end() :]}"


def only_word(sentence: str) -> str | None:
    """The one number word of a sentence without digits; "one" alone may be a pronoun."""
    found = [word for word in _RUN.finditer(sentence) if word["number"]]
    if len(found) != 1 or found[0][0].lower() == "one":
        return None
    value = _value(found[0])
    return None if value is None else str(value)


def unshortened(text: str) -> str:
    """ "5k" as "5 thousand", "$5M" and "$5m" as "$5 million"; a bare "5m" is metres."""
    return _SHORT.sub(_long, text) if _SHORT.search(text) else text


def _long(found: re.Match[str]) -> str:
    unit = found["unit"] or found["styled"]
    if found["money"] is None and unit in ("m", "b", "t", "T", "B"):
        return found[0]
    return f"{found['money'] or ''}{found['number']} {_SHORT_SCALES[unit[0].lower()]}"


def _value(found: re.Match[str]) -> Fraction | int | None:
    if found["only"]:
        return Fraction(1, 2)
    if found["one"]:
        return Fraction(1, _PARTS[found["one"].lower()])
    value = _cardinal(re.findall(r"[a-z]+", found["number"].lower()))
    if value is None:
        return None
    if found["half"]:
        return value + Fraction(1, 2)
    part = (found["part"] or "").lower()
    if not part:
        return value
    if value >= 20:  # "twenty-third" is an ordinal
        return None
    return Fraction(value, 2 if part == "halve" else _PARTS[part])


def _cardinal(words: list[str]) -> int | None:
    """The value of "two hundred and five thousand"; None where the words make no number."""
    total = group = 0
    last = 10**15  # each scale is smaller than the one before, each part smaller than the last
    room = 1000  # what the next small word must stay below
    for word in words:
        if word in ("and", "a"):
            group += word == "a" and not group and not total
            continue
        if word == "hundred":
            if not 0 < (group or 1) < 10:
                return None
            group, room = 100 * (group or 1), 100
        elif word == "dozen":
            group, room = 12 * (group or 1), 0
        elif word in _SCALES:
            if _SCALES[word] >= last:
                return None
            total, last = total + (group or 1) * _SCALES[word], _SCALES[word]
            group, room = 0, 1000
        elif (small := _SMALL[word]) >= room:
            return None
        else:
            group += small
            room = 10 if small >= 20 else 0
    return total + group
