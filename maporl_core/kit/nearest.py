"""The name that was meant: the one search behind every "did you mean".

In: a word as somebody wrote it, and the names there are.  Out: the nearest, or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

LIKE = 0.6
"""Likeness, of 1, from which a name may have been meant."""


def nearest(word: str, names: Iterable[str], least: float = LIKE) -> str | None:
    """The name most like ``word``; None where none is at least ``least`` like it."""
    found = get_close_matches(word, list(names), n=1, cutoff=least)
    return found[0] if found else None


def nearest_few(word: str, names: Iterable[str], most: int, least: float = LIKE) -> list[str]:
    """Up to ``most`` names like ``word``, the nearest first."""
    return get_close_matches(word, list(names), n=most, cutoff=least)


def likeness(word: str, other: str) -> float:
    """From 0, nothing in common, to 1, the same."""
    return SequenceMatcher(None, word, other).ratio()
