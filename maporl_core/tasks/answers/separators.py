"""Numbers as different places write them, turned into the 1,234.5 that ``numerals`` reads.

In: text, its digits and signs plain already where ``plain`` can make them so.  Out: the same text
with "1.234.567", "1.234,56", "1'234.5" and "12,50 €" respelled, where nothing else can be meant.
A lone "12,5" may be a list and "1.234" is a decimal; both stay as they are.
"""

from __future__ import annotations

import re

_DOTTED = re.compile(
    r"(?<![\w.,])(?P<whole>\d{1,3}(?:(?:\.\d{3}){2,40}|\.\d{3}(?=,\d)))(?:,(?P<part>\d+))?"
    r"(?![.,]?\d)"
)
_TICKED = re.compile(r"(?<![\w.,'’])\d{1,3}(?:['’]\d{3}){1,40}(?![\w'’])")
_SPACED = re.compile(r"(?<![\w.,] )(?<![\w.,/])\d{1,3}(?: \d{3}){1,40}(?![\d/]| \d)")
_MANY_SPACED = re.compile(r"(?<![\w.,/])(?<!\d )\d{1,3}(?: \d{3}){2,40}(?![\d/]| \d)")
_EURO_AFTER = re.compile(r"(?<![\w.,])(\d{1,9}),(\d{1,2})(?=\s?(?:€|EUR\b))")
_EURO_BEFORE = re.compile(r"(?<=€)(\s?\d{1,9}),(\d{1,2})(?![\d,])")
_DASH = re.compile(r"(?<=\d)[\u2012\u2013](?=[$€£¥₹]?\d)")


def no_dashes(text: str) -> str:
    """ "3–5" is "3 to 5": a minus has spaces around it, or is one of the other signs."""
    return text if text.isascii() else _DASH.sub(" to ", text)


def usual(text: str) -> str:
    """Separators between digits as in 1,234.5."""
    if "€" in text or "EUR" in text:
        text = _EURO_BEFORE.sub(r"\1.\2", _EURO_AFTER.sub(r"\1.\2", text))
    if "'" in text or "’" in text:
        text = _TICKED.sub(lambda found: re.sub("['’]", ",", found[0]), text)
    if "." in text:
        text = _DOTTED.sub(_as_grouped, text)
    return _MANY_SPACED.sub(_joined, text)


def unspaced(answer: str) -> str:
    """ "1 234" is 1,234 in an answer that stands alone; in running text it is two numbers."""
    return _SPACED.sub(_joined, answer)


def _joined(found: re.Match[str]) -> str:
    return found[0].replace(" ", ",")


def _as_grouped(found: re.Match[str]) -> str:
    part = f".{found['part']}" if found["part"] else ""
    return found["whole"].replace(".", ",") + part
