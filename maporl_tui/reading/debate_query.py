"""Which debates to show: the typed filter, the toggles, and where the words stand in a text.

In: what a person typed after ``/`` and which of the four toggles are on.  Out: a
``DiscussionFilter`` for the store's reader, a line that says it, and hits in texts.  Pure.
Neighbours: the Debate screen.

    apples step:12            the word, in the debates of step 12
    step:5-9 split:train      steps 5 to 9 (5- and -9 are open), of the training only
    eval:after so the total   of the evaluation "after"; words next to each other, in this order
    problem:q7 "step:3"       one problem; what stands in double quotes is text
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from maporl_core.store.reader import DiscussionFilter, Evaluation
from maporl_tui.drawing.text import one_line

TOGGLES = {
    "corrected": "corrected",
    "persuaded": "persuaded",
    "broke": "broke",
    "all_wrong": "all wrong",
}
"""Conditions with a key of their own, as fields of ``DiscussionFilter`` and in words."""
KEYS = ("step", "split", "eval", "problem")
HINT = "words step:12 step:5-9 split:train eval:after problem:q7"

_TOKEN = re.compile(r'"([^"]*)"?|(\S+)')
_KEYED = re.compile(r"([a-z]+):(\S*)")
_STEPS = re.compile(r"(\d{1,15})|(\d{1,15})-(\d{1,15})|(\d{1,15})-|-(\d{1,15})")
_SEARCHED = 1_000_000  # characters of one text that are looked through for hits
_MOST_HITS = 300  # in one text
_PREFIX = 3  # the store takes an unfinished last word from this length on
# Scripts written without spaces: the store's index has every character as a word.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_ACCENTS = "[\u0300-\u036f]*"


class QueryError(ValueError):
    """A filter that cannot be understood; the message is one line that says what to write."""


@dataclass(frozen=True, slots=True)
class Query:
    """A typed filter, read.  ``evaluation`` is a label or a number, as typed."""

    text: str = ""
    first_step: int | None = None
    last_step: int | None = None
    split: Literal["train", "eval"] | None = None
    evaluation: str | None = None
    problem: str | None = None

    @property
    def empty(self) -> bool:
        return self == Query()


def parse_query(typed: str) -> Query:
    """What was typed after ``/``.  Raises QueryError."""
    words: list[str] = []
    found: dict[str, str] = {}
    for quoted, bare in _TOKEN.findall(typed):
        keyed = _KEYED.fullmatch(bare)
        if keyed is None:
            words.append(bare or quoted)
            continue
        key, value = keyed.groups()
        if key not in KEYS:
            known = ", ".join(f"{name}:" for name in KEYS)
            raise QueryError(
                f'no condition {key}: (there are {known}); as text write "{one_line(bare, 40)}"'
            )
        if key in found:
            raise QueryError(f"{key}: stands twice; write it once")
        if not value:
            raise QueryError(f"{key}: needs a value right behind it, as in {HINT}")
        found[key] = value
    first, last = _steps(found.get("step"))
    split = found.get("split")
    if split not in (None, "train", "eval"):
        raise QueryError(f"split:{one_line(split, 40)}: write split:train or split:eval")
    if split == "train" and "eval" in found:
        raise QueryError("split:train and eval: exclude each other; leave one out")
    text = " ".join(" ".join(words).split())
    if text and not _WORD.search(_folded(text)):
        raise QueryError(f"{one_line(text, 40)!r} holds no letter or digit to look for")
    return Query(
        text=text,
        first_step=first,
        last_step=last,
        split=cast('Literal["train", "eval"] | None', split),
        evaluation=found.get("eval"),
        problem=found.get("problem"),
    )


def _steps(value: str | None) -> tuple[int | None, int | None]:
    if value is None:
        return None, None
    match = _STEPS.fullmatch(value)
    if match is None:
        raise QueryError(f"step:{one_line(value, 40)}: write step:12, step:5-9, step:5- or step:-9")
    one, first, last, only_first, only_last = match.groups()
    if one is not None:
        return int(one), int(one)
    if first is not None and int(first) > int(last):
        raise QueryError(f"step:{value}: the first step is behind the last one")
    low, high = first or only_first, last or only_last
    return (int(low) if low else None), (int(high) if high else None)


def store_filter(
    query: Query, toggles: Collection[str], evaluations: Sequence[Evaluation]
) -> DiscussionFilter:
    """The condition for the store.  Raises QueryError for an evaluation that is not there."""
    return DiscussionFilter(
        first_step=query.first_step,
        last_step=query.last_step,
        split=query.split,
        evaluation=_evaluation(query.evaluation, evaluations),
        problem_id=query.problem,
        text=query.text or None,
        **{name: True for name in TOGGLES if name in toggles},
    )


def _evaluation(wanted: str | None, evaluations: Sequence[Evaluation]) -> int | None:
    """The id of the newest evaluation with this label, or with this number."""
    if wanted is None:
        return None
    plain = wanted.casefold()
    for evaluation in reversed(evaluations):
        if evaluation.summary.label.casefold().replace(" ", "-") == plain.replace(" ", "-"):
            return evaluation.id
    for evaluation in evaluations:
        if wanted == str(evaluation.id):
            return evaluation.id
    labels = sorted({e.summary.label.replace(" ", "-") for e in evaluations})
    known = f"there are {', '.join(labels)}" if labels else "this run has none yet"
    raise QueryError(f"no evaluation {one_line(wanted, 40)!r}: {one_line(known, 120)}")


def filter_words(query: Query, toggles: Collection[str]) -> str:
    """The filter in words: "corrected + broke · step 5–9 · “apples”"; empty when there is none."""
    parts = []
    on = [words for name, words in TOGGLES.items() if name in toggles]
    if on:
        parts.append(" + ".join(on))
    first, last = query.first_step, query.last_step
    if first is not None and first == last:
        parts.append(f"step {first}")
    elif first is not None or last is not None:
        low, high = "" if first is None else first, "" if last is None else last
        parts.append(f"steps {low}–{high}")
    if query.evaluation is not None:
        parts.append(f"evaluation {one_line(query.evaluation, 30)}")
    elif query.split is not None:
        parts.append(query.split)
    if query.problem is not None:
        parts.append(f"problem {one_line(query.problem, 30)}")
    if query.text:
        parts.append(f"“{one_line(query.text, 40)}”")
    return " · ".join(parts)


def find_hits(text: str, words: str) -> list[tuple[int, int]]:
    """Offsets [start, end) of ``words`` in ``text``, found as the store finds them.

    In this order, next to each other; case, accents and punctuation do not matter; the last word
    may be the beginning of one.
    """
    pattern = _pattern(words)
    if pattern is None:
        return []
    hits = []
    for match in pattern.finditer(_folded(text[:_SEARCHED])):
        hits.append(match.span())
        if len(hits) == _MOST_HITS:
            break
    return hits


@lru_cache(maxsize=16)
def _pattern(words: str) -> re.Pattern[str] | None:
    found = _WORD.findall(_folded(words))
    if not found:
        return None
    whole = "" if _unspaced(found[0]) else r"(?<![^\W_])"
    for position, word in enumerate(found):
        if position:
            loose = _unspaced(word) or _unspaced(found[position - 1])
            whole += r"[\W_]*" if loose else r"[\W_]+"
        whole += "".join(re.escape(letter) + _ACCENTS for letter in word)
    if not _unspaced(found[-1]):
        whole += r"[^\W_]*" if len(found[-1]) >= _PREFIX else r"(?![^\W_])"
    return re.compile(whole)


def _unspaced(word: str) -> bool:
    return len(word) == 1 and re.fullmatch(f"[{_UNSPACED}]", word) is not None


def _folded(text: str) -> str:
    """Lower case without accents, character for character, so that offsets stay."""
    if text.isascii():
        return text.lower()
    return text.translate({ord(letter): _plain_letter(letter) for letter in set(text)})


def _plain_letter(letter: str) -> str:
    for made in (unicodedata.normalize("NFKD", letter)[:1].lower(), letter.lower()):
        if len(made) == 1:
            return made
    return letter
