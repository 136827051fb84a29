r"""Maths expressions in messages: finding the answer and telling whether two are the same.

In: messages, or two answers in LaTeX or plain text.  Out: one spelling, or a verdict.
Plain numbers are compared exactly by ``numerals``; equal spellings are equal; only what is left
(roots, variables, sets, matrices, …) goes to math-verify, in a process of bounded time and memory
(``bounded``).  What cannot be settled within the bounds is not the same.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from maporl_core.tasks.answers import numerals, spans
from maporl_core.tasks.answers.plain import plain, plain_latex
from maporl_core.tasks.sandbox.bounded import BoundedPool, Patience

_MAX_SEARCHED = 10_000  # characters at the end of a message that are searched for formulas
MAX_EXPRESSION = 400  # characters that are worth a look by the symbolic engine

_POOL = BoundedPool("maths")
_PATIENCE = Patience(most=1.0, least=0.1, budget=2.0, refill=0.1)

_INLINE = re.compile(
    r"\$\$(?P<a>[^$]{1,2000})\$\$|\$(?P<b>[^$\n]{1,1000})\$"
    r"|\\\((?P<c>.{1,1000}?)\\\)|\\\[(?P<d>.{1,2000}?)\\\]",
    re.DOTALL,
)
_TIDY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:left|right|displaystyle|limits|big|Big|bigl|bigr)(?![A-Za-z])|\\[,;:!> ]|~", " "),
        (r"\\(?:quad|qquad)(?![A-Za-z])", " "),
        (r"\\(?:dots|ldots|cdots)(?![A-Za-z])", r"\\dots"),
        (r"\^\s*\{\s*(\w)\s*\}", r"^\1"),
        (r"\s+", " "),
    )
)
# "18 dollars", "1/2 cup of milk", "18 because …": a number, then words.
_PROSE = re.compile(r"[-+$€£]*[\d.,/]+%?,?\s+(?:[A-Za-z]{2,}|\(?[A-Za-z ]{3,})")
_BASE = re.compile(r"\d_\{?\d")  # 101_2: digits in a base that the symbolic engine drops
_WRAPPERS = " $.,;:*`\"'"
# Powers on powers, exponents and factorials of five digits and more: never worth computing.
_HOPELESS = re.compile(
    r"\^\s*[{(]?[^{}()]{0,40}\^\s*[{(]?[^{}()]{0,40}\^|\^\s*[{(]?\s*-?\d{5}|\d{5,}\)?\s*!|!\s*!"
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    same: bool
    seconds: float | None  # the limit that was too short; None for a verdict that stands


_LOCK = threading.Lock()
_VERDICTS: OrderedDict[tuple[str, str], _Verdict] = OrderedDict()
_MAX_VERDICTS = 8192


def extract_maths(text: str) -> str | None:
    """The expression a message gives as its answer, in one spelling; None for none.

    As for numbers, boxes decide alone where there are any; then tags, ``####`` marks and
    statements, then the last formula between dollar signs, then the last number.
    """
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.last_box(seen)
    if box.written:
        return spelling(box.content) if box.content is not None else None
    for content in _candidates(seen):
        if (found := spelling(content)) is not None:
            return found
    return numerals.extract_number(seen)


def _candidates(text: str) -> Iterator[str]:
    for content in spans.explicit(text):
        formula = _INLINE.search(content)
        if formula is not None:
            yield _inside(formula)
            continue
        sentence = spans.first_sentence(content)
        value = numerals.stated_number(sentence) if _PROSE.match(plain(sentence)) else None
        yield numerals.canonical(value) if value is not None else sentence
    formulas = deque(_INLINE.finditer(_end(text)), maxlen=1)
    if formulas:
        yield _inside(formulas[0])


def _end(text: str) -> str:
    """The last lines of a long message, whole ones where there are line ends."""
    if len(text) <= _MAX_SEARCHED:
        return text
    end = text[-_MAX_SEARCHED:]
    return end.partition("\n")[2] or end


def _inside(formula: re.Match[str]) -> str:
    """A formula; the right side of its last "=" where it is a worked line."""
    content = next(part for part in formula.groups() if part is not None)
    return content.rpartition("=")[2] if content.count("=") > 1 else content


def spelling(answer: str) -> str | None:
    """One spelling for answers that are plainly the same; None for an empty one."""
    value = None if "=" in answer else numerals.number(answer)
    if value is not None:
        return numerals.canonical(value) + ("%" if _is_percent(answer) else "")
    return tidy(answer) or None


def tidy(answer: str) -> str:
    """LaTeX without spacing commands, size commands and surrounding punctuation."""
    answer = plain(answer)
    for pattern, new in _TIDY:
        answer = pattern.sub(new, answer)
    return answer.strip(_WRAPPERS)


def same_maths(answer: str, gold: str) -> bool:
    """Whether two expressions are the same.  Bounded in time, callable from any thread."""
    exact = _same_values(answer, gold)
    if exact is not None:
        return exact
    first, second = tidy(answer), tidy(gold)
    if _compact(first) == _compact(second) and first:
        return True
    if not first or not second or max(len(first), len(second)) > MAX_EXPRESSION:
        return False
    if numerals.too_large(answer) or numerals.too_large(gold):
        return False
    if _BASE.search(first) or _BASE.search(second):
        return False
    if not _balanced(first) or not _balanced(second):
        return False
    if _HOPELESS.search(plain_latex(first)) or _HOPELESS.search(first):
        return False
    return _same_symbolically(first, second)


def _same_values(answer: str, gold: str) -> bool | None:
    """The verdict on two plain numbers, exactly; None when one is something else.

    A percent sign may stand for a hundredth or be left out: 50% is 50 as well as 1/2.
    """
    if "=" in answer and "=" in gold:
        return None  # x = 5 and y = 5 are not the same
    first, second = numerals.number(answer), numerals.gold_number(gold)
    if first is None or second is None:
        return None
    if first == second:
        return True
    percents = _is_percent(answer), _is_percent(gold)
    if percents == (True, False):
        return first / 100 == second
    if percents == (False, True):
        return first == second / 100
    return False


def _is_percent(answer: str) -> bool:
    return plain(answer[-40:]).rstrip(" .$)}").endswith("%")


def _compact(tidied: str) -> str:
    """For comparing spellings only: without spaces, text commands and double brackets."""
    bare = re.sub(r"\\(?:text|mathrm|mathbf|textbf|mbox)\s*\{([^{}]*)\}", r"\1", tidied)
    return bare.replace(" ", "")


def _balanced(latex: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0 or depth > 40:
            return False
    return depth == 0


def _same_symbolically(answer: str, gold: str) -> bool:
    """The engine's verdict, remembered; one that ran out of time is tried again with more."""
    limit = _PATIENCE.limit()
    with _LOCK:
        known = _VERDICTS.get((answer, gold))
    if known is not None and (known.seconds is None or 2 * known.seconds >= limit):
        return known.same
    reply = _POOL.ask({"gold": gold, "answer": answer}, limit)
    _PATIENCE.spent(reply.seconds)
    verdict = _Verdict(reply.value is True, limit if reply.error == "time" else None)
    with _LOCK:
        _VERDICTS[answer, gold] = verdict
        if len(_VERDICTS) > _MAX_VERDICTS:
            _VERDICTS.popitem(last=False)
    return verdict.same


def start_engine() -> None:
    """Starts the process for symbolic comparisons, so that the first one is quick.

    Raises DataError when math-verify cannot be used.
    """
    _POOL.ask({"gold": "x", "answer": "x"}, 60.0)
