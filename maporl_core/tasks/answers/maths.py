r"""Maths expressions: telling whether two answers are the same.

In: two answers in LaTeX or plain text, as ``formulas`` finds them.  Out: a verdict.
Plain numbers are compared exactly by ``numerals``; equal spellings are equal; lists, sets and named
values are taken apart by ``readings``; only single values that are left (roots, variables,
matrices, …) go to math-verify, in a process of bounded time and memory (``bounded``).  What cannot
be settled within the bounds is not the same.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from maporl_core.tasks.answers import numerals
from maporl_core.tasks.answers.formulas import extract_maths, is_percent, spelling, value_of
from maporl_core.tasks.answers.latex import balanced, compact, tidy
from maporl_core.tasks.answers.plain import plain_latex
from maporl_core.tasks.answers.readings import exact_side, same_reading
from maporl_core.tasks.sandbox.bounded import BoundedPool, Patience

__all__ = ["extract_maths", "same_maths", "spelling", "start_engine"]

_MAX_PAIRS = 36  # pairs of values that the engine is asked about for one answer
MAX_EXPRESSION = 400  # characters that are worth a look by the symbolic engine

_POOL = BoundedPool("maths")
_PATIENCE = Patience(most=1.0, least=0.1, budget=2.0, refill=0.1)

_BASE = re.compile(r"\d_\{?\d")  # 101_2: digits in a base that the symbolic engine drops
# Powers on powers, exponents and factorials of five digits and more: never worth computing.
_HOPELESS = re.compile(
    r"\^\s*[{(]?[^{}()]{0,40}\^\s*[{(]?[^{}()]{0,40}\^|\^\s*[{(]?\s*-?\d{5}|\d{5,}\)?\s*!|!\s*!"
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    same: tuple[bool, ...]
    seconds: float | None  # the limit that was too short; None for a verdict that stands


_LOCK = threading.Lock()
_VERDICTS: OrderedDict[tuple[tuple[str, str], ...], _Verdict] = OrderedDict()
_MAX_VERDICTS = 8192


def same_maths(answer: str, gold: str) -> bool:
    """Whether two expressions are the same.  Bounded in time, callable from any thread."""
    exact = _same_values(answer, gold)
    if exact is not None:
        return exact
    first, second = tidy(answer), tidy(gold)
    if compact(first) == compact(second) and first:
        return True
    if not first or not second or max(len(first), len(second)) > MAX_EXPRESSION:
        return False
    if numerals.too_large(answer) or numerals.too_large(gold):
        return False
    if _BASE.search(first) or _BASE.search(second):
        return False
    if not balanced(first) or not balanced(second):
        return False
    if any(
        _HOPELESS.search(text) for side in (first, second) for text in (side, plain_latex(side))
    ):
        return False
    return same_reading(first, second, _same_pairs)


def _same_values(answer: str, gold: str) -> bool | None:
    """The verdict on two plain numbers, exactly; None when one is something else.

    A percent sign may stand for a hundredth or be left out: 50% is 50 as well as 1/2.
    """
    answer, gold = exact_side(answer), exact_side(gold.rpartition("####")[2])
    if "=" in answer or "=" in gold:
        return None  # x = 5 and y = 5 are not the same
    first, second = value_of(answer), value_of(gold)
    if first is None or second is None:
        return None
    if first == second:
        return True
    percents = is_percent(answer), is_percent(gold)
    if percents == (True, False):
        return first / 100 == second
    if percents == (False, True):
        return first == second / 100
    return False


def _same_pairs(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Verdicts on pairs of single values; what is not plain goes to the engine in one request."""
    verdicts: list[bool | None] = []
    for answer, gold in pairs:
        if compact(answer) == compact(gold):
            verdicts.append(True)
        else:
            verdicts.append(_same_values(answer, gold))
    settled = {pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict}
    done = {answer for answer, _ in settled}, {gold for _, gold in settled}
    # In a list, a value that has found its equal needs no other.
    asked = [
        pair
        for pair, verdict in zip(pairs, verdicts, strict=True)
        if verdict is None and not (pair[0] in done[0] and pair[1] in done[1])
    ]
    if len(asked) > _MAX_PAIRS:
        return [verdict is True for verdict in verdicts]
    found = dict(zip(asked, _same_symbolically(tuple(asked)), strict=True)) if asked else {}
    return [
        found.get(pair, False) if verdict is None else verdict
        for pair, verdict in zip(pairs, verdicts, strict=True)
    ]


def _same_symbolically(pairs: tuple[tuple[str, str], ...]) -> list[bool]:
    """The engine's verdicts, remembered; those that ran out of time are tried again with more."""
    limit = _PATIENCE.limit()
    with _LOCK:
        known = _VERDICTS.get(pairs)
    if known is not None and (known.seconds is None or 2 * known.seconds >= limit):
        return list(known.same)
    reply = _POOL.ask({"pairs": pairs}, limit)
    _PATIENCE.spent(reply.seconds)
    same = tuple(reply.value) if isinstance(reply.value, list) else (False,) * len(pairs)
    verdict = _Verdict(same, limit if reply.error == "time" else None)
    with _LOCK:
        _VERDICTS[pairs] = verdict
        if len(_VERDICTS) > _MAX_VERDICTS:
            _VERDICTS.popitem(last=False)
    return list(same)


def start_engine() -> None:
    """Starts the process for symbolic comparisons, so that the first one is quick.

    Raises DataError when math-verify cannot be used.
    """
    _POOL.ask({"pairs": [("x", "x")]}, 60.0)
