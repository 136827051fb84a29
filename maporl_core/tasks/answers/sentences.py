"""Sentences of answers: where one ends, and what it claims.

In: text that begins with an answer or a sentence about it.  Out: its first sentence; the place
after the verb in "the largest n is 34".  Neighbours: ``spans`` finds the statements,
``numerals``, ``formulas``, ``texts`` and ``choices`` read them.
"""

from __future__ import annotations

import re
from collections import deque

from maporl_core.tasks.answers.spans import MARKUP

MASK = "\x00"
"""Stands for each character of a formula, which is no word and ends no sentence."""

_STOP = re.compile(r"[.!?](?=[\s\"'”’)*_]|$)|[;\n]")
_TITLES = frozenset(
    [
        "mr",
        "mrs",
        "ms",
        "mx",
        "dr",
        "prof",
        "st",
        "rev",
        "capt",
        "sgt",
        "messrs",
        "mme",
        "vs",
        "approx",
    ]
)
# A stop that may only shorten: initials, "U.S.", "e.g.", "Inc."; it ends where a sentence begins.
_MAY_SHORTEN = re.compile(
    r"(?:[A-Za-z]\.)+[A-Za-z]|[A-Z]|(?:etc|al|Inc|Ltd|Co|Corp|Jr|Sr|Mt|Ft|Gen|Gov|Sen|Lt|Col)"
)
_BEGINS = re.compile(
    r"\s*(?:$|\n)|\s+(?:(?:The|This|That|These|It|He|She|They|We|I|You|So|Since|Because|As|In|An?|My"
    r"|But|And|Not|Note|There|Therefore|Thus|Hence|If|For|To|Here|Also|Please|Let|When|What|Why|Or)"
    r"\b|[^\sA-Za-z])"
)
_LAST_WORD = re.compile(r"[^\s(\[{\"'“‘*_$]*$")
_VERB = re.compile(
    r"\b(?:is|are|was|were|equals?|becomes|be|by)\b\s*(?:equal\s+to\b)?:?", re.IGNORECASE
)
_ASIDE = re.compile(
    r"\b(?:because|since|which|who|where|when|whenever|if|so|as|for\s+(?:all|every|any|each))\b|;",
    re.IGNORECASE,
)


def first_sentence(text: str) -> str:
    """``text`` up to the end of its first sentence, without the full stop.

    A stop between digits, as in 3.14, ends no sentence, nor does that of "Mr." or an initial.
    """
    return text[: sentence_end(text)].strip(MARKUP)


def sentence_end(text: str) -> int:
    """Where the first sentence of ``text`` ends: at its stop, or at the end of all."""
    for stop in _STOP.finditer(text):
        if stop[0] != "." or _ends_sentence(text, stop.start()):
            return stop.start()
    return len(text)


def _ends_sentence(text: str, stop: int) -> bool:
    """Whether the full stop there ends a sentence, and not only a shortened word."""
    found = _LAST_WORD.search(text, max(0, stop - 24), stop)
    word = found[0] if found else ""
    if word.lower() in _TITLES or (word in ("No", "no") and text[stop + 2 : stop + 3].isdigit()):
        return not text[stop + 1 :].strip()
    return _MAY_SHORTEN.fullmatch(word) is None or _BEGINS.match(text, stop + 1) is not None


def claim_start(sentence: str) -> int:
    """Where the claim of "the largest n is 34" begins: after its last verb; 0 for a bare answer."""
    stripped = sentence.lstrip(MARKUP)
    first = re.match(rf"[A-Za-z]{{2,}}\b|{MASK}+\s+(?=is\b|are\b|equals\b)|[Aa]\s", stripped)
    if first is None:
        return 0
    aside = _ASIDE.search(sentence)
    verbs = deque(_VERB.finditer(sentence, 0, aside.start() if aside else len(sentence)), maxlen=1)
    return verbs[0].end() if verbs and sentence[verbs[0].end() :].strip() else 0
