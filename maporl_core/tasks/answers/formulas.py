r"""Maths answers in messages: which formula or number a message gives.

In: a message.  Out: one spelling of its answer.  Boxes decide alone where there are any, those side
by side as one list; then tags, ``####`` marks and statements, each read by what its sentence
claims ("the largest $n$ is 34"); then the last formulas, or a number that a later sentence
concludes with; then the last number.  Neighbours: ``spans`` and ``numerals`` look, ``maths``
compares.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction

from maporl_core.tasks.answers import latex, numerals, sentences, spans
from maporl_core.tasks.answers.plain import plain
from maporl_core.tasks.answers.readings import exact_side

_MAX_SEARCHED = 10_000  # characters at the end of a message that are searched for formulas
_LAST_FEW = 32  # formulas at the end of a message that are looked at

_INLINE = re.compile(
    r"\$\$(?P<a>[^$]{1,2000})\$\$|\$(?P<b>[^$\n]{1,1000})\$"
    r"|\\\((?P<c>.{1,1000}?)\\\)|\\\[(?P<d>.{1,2000}?)\\\]",
    re.DOTALL,
)
# "18 dollars", "1/2 cup of milk", "18 because …": a number, then words.
_PROSE = re.compile(r"[-+$€£]*[\d.,/]+%?,?\s+(?:[A-Za-z]{2,}|\(?[A-Za-z ]{3,})")
_JOINS = re.compile(r"\s*(?:,|;|,?\s*(?:and|or))\s*")
# "therefore there are 12 …", "increases by 100%": a number that a sentence ends up with.
_CONCLUDED = re.compile(
    r"\b(?:is|are|was|were|be|equals?|by|has|have|gets?|gives?|makes?|leaves?|pays?|costs?|needs?"
    r"|total|exactly|only|about|approximately)\s+(?:of\s+)?(?P<number>[-+−]?[$€£]?\.?\d[\d.,/]*%?)"
    r"(?!\s*(?:times|more|less|fewer|percent\s+of|of\b|[-+*/^=<>\\]))"
)
_MULTIPLE = re.compile(r"\d[A-Za-z]$")  # 5k is a product here, not 5 of something


def extract_maths(text: str) -> str | None:
    """The expression a message gives as its answer, in one spelling; None for none."""
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.boxes(seen, (",", "and"), ", ")
    if box.written:
        return spelling(box.content) if box.content is not None else None
    for content in _candidates(seen):
        if (found := spelling(content)) is not None:
            return found
    return numerals.number_in(seen)


def spelling(answer: str) -> str | None:
    """One spelling for answers that are plainly the same; None for an empty one."""
    answer = exact_side(answer)
    value = None if "=" in answer else value_of(answer)
    if value is not None:
        return numerals.canonical(value) + ("%" if is_percent(answer) else "")
    return latex.tidy(answer) or None


def value_of(answer: str) -> Fraction | None:
    """The exact value of a plain number; a letter glued to one is a factor here."""
    return None if _MULTIPLE.search(answer.strip(" $.")) else numerals.number(answer)


def is_percent(answer: str) -> bool:
    return plain(answer[-40:]).rstrip(" .$)}").endswith("%")


def _candidates(text: str) -> Iterator[str]:
    for content in spans.explicit(text):
        yield _claim(content)
    end = _end(text)
    formulas = list(deque(_INLINE.finditer(end), maxlen=_LAST_FEW))
    if not formulas:
        return
    concluded = deque(_CONCLUDED.finditer(end, formulas[-1].end()), maxlen=1)
    if concluded:
        yield concluded[0]["number"].rstrip(".,")
    yield _joined(end, formulas, last=True)


def _claim(content: str) -> str:
    """What a statement claims: the formulas or the number after its verb, or all of it."""
    formulas = list(_INLINE.finditer(content))
    masked = list(content)
    for formula in formulas:
        masked[formula.start() : formula.end()] = sentences.MASK * len(formula[0])
    sentence = sentences.sentence_end("".join(masked))
    start = sentences.claim_start("".join(masked)[:sentence])
    kept = [x for x in formulas if start <= x.start() and x.end() <= sentence]
    if kept and _begins_with(content[start : kept[0].start()]):
        return _joined(content, kept, last=False)
    claimed = content[start:sentence].strip(spans.MARKUP)
    if start and not any(map(str.isdecimal, claimed)):
        return _joined(content, kept or formulas, last=False) if formulas else claimed
    value = numerals.stated_number(claimed) if _PROSE.match(plain(claimed)) else None
    return numerals.canonical(value) if value is not None else claimed


def _begins_with(words: str) -> bool:
    """Whether what stands before a formula leaves it to be the claim: no number in it."""
    return not any(map(str.isdecimal, words))


def _joined(text: str, formulas: Sequence[re.Match[str]], last: bool) -> str:
    """The first or last formula, with those that "and", "or" or a comma join to it."""
    ordered = list(reversed(formulas)) if last else list(formulas)
    run = [ordered[0]]
    for formula in ordered[1:]:
        left, right = (formula, run[-1]) if last else (run[-1], formula)
        if not _JOINS.fullmatch(text, left.end(), right.start()):
            break
        run.append(formula)
    pieces = [_inside(formula) for formula in (reversed(run) if last else run)]
    return ", ".join(pieces)


def _inside(formula: re.Match[str]) -> str:
    """A formula; the right side of its last "=" where it is a worked line."""
    content = next(part for part in formula.groups() if part is not None)
    if latex.split(content, re.compile(r"[,;]|\\approx|(?<![A-Za-z])(?:and|or)(?![a-z])"))[1:]:
        return content
    sides = latex.split(content, re.compile(r"(?<![<>!:\\=])=(?!=)"))
    return sides[-1] if len(sides) > 2 else content


def _end(text: str) -> str:
    """The last lines of a long message, whole ones where there are line ends."""
    if len(text) <= _MAX_SEARCHED:
        return text
    end = text[-_MAX_SEARCHED:]
    return end.partition("\n")[2] or end
