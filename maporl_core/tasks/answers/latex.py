r"""LaTeX of answers in one spelling, and taken apart where brackets allow it.

In: an answer as somebody wrote it.  Out: the same without spacing commands and sizes, its rows
``\\`` kept; pieces between separators that stand outside all brackets.  Neighbours: ``formulas``,
``readings`` and ``maths`` work on what comes out.
"""

from __future__ import annotations

import re

from maporl_core.tasks.answers.plain import THOUSANDS, plain

_ROW = "\ue000"  # stands for \\ while the spacing commands go
_ENVIRONMENT = re.compile(r"(?<!\\)\\\\begin\{")
_DOUBLED = re.compile(r"\\\\(?=(?:[A-Za-z]{2,}|[{}%$,;!]))")
_TIDY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\\\\(?:\[[^\]]{0,12}\])?", _ROW),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:left|right)\s*\.", " "),
        (r"\\(?:left|right|middle|displaystyle|limits|[bB]ig{1,2}[lrm]?)(?![A-Za-z])", " "),
        (r"\\[,;:!> ]|~", " "),
        (r"\\(?:quad|qquad|thinspace|hfill)(?![A-Za-z])", " "),
        (r"\\(?:dots|ldots|cdots)(?![A-Za-z])", r"\\dots"),
        (r"\\(?:leqslant|leq|le)(?![A-Za-z])", r"\\leq "),
        (r"\\(?:geqslant|geq|ge)(?![A-Za-z])", r"\\geq "),
        (r"\\(?:neq|ne)(?![A-Za-z])", r"\\neq "),
        (r"\^\s*\{\s*(\w)\s*\}", r"^\1"),
        (r"\s+", " "),
    )
)
_WRAPPERS = " $.,;:*`\"'"
_STYLED = re.compile(r"\\(?:text|textbf|textnormal|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_OPEN, _CLOSE = "([{", ")]}"


def tidy(answer: str) -> str:
    """LaTeX without spacing commands, size commands and surrounding punctuation."""
    answer = plain(once_escaped(answer.replace("≈", r"\approx ")))
    answer = THOUSANDS.sub("", answer)
    for pattern, new in _TIDY:
        answer = pattern.sub(new, answer)
    return answer.replace(_ROW, r"\\").strip(_WRAPPERS)


def once_escaped(answer: str) -> str:
    r"""``\\frac`` as ``\frac`` where every command was escaped twice; rows of a matrix stay."""
    if _ENVIRONMENT.search(answer):
        return re.sub(r"\\\\", r"\\", answer)
    return answer if r"\begin" in answer else _DOUBLED.sub(r"\\", answer)


def compact(tidied: str) -> str:
    """For comparing spellings only: without spaces and text commands."""
    return _STYLED.sub(r"\1", tidied).replace(" ", "")


def balanced(latex: str) -> bool:
    """Whether every brace is closed, none of them deeper than 40."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0 or depth > 40:
            return False
    return depth == 0


def split(latex: str, separator: re.Pattern[str]) -> list[str]:
    """The pieces between separators that stand outside all brackets and environments."""
    pieces, start, depth, position = [], 0, 0, 0
    while position < len(latex):
        char = latex[position]
        if latex.startswith((r"\begin{", r"\end{"), position):
            depth += 1 if latex[position + 1] == "b" else -1
            position = latex.find("}", position) + 1 or len(latex)
            continue
        if depth == 0 and (found := separator.match(latex, position)) and found.end() > position:
            pieces.append(latex[start:position])
            start = position = found.end()
            continue
        if char == "\\" and latex[position + 1 : position + 2] not in ("{", "}"):
            position += 2  # a command; its name can hold no bracket
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(0, depth - 1)
        position += 1
    return [*pieces, latex[start:]]


def inside(latex: str, opening: str, closing: str) -> str | None:
    """What a pair of brackets around the whole text holds; None without such a pair."""
    if not latex.startswith(opening) or not latex.endswith(closing):
        return None
    content = latex[len(opening) : len(latex) - len(closing)]
    depth = 0
    for char in content:
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0:
            return None
    return content.strip() if depth == 0 else None
