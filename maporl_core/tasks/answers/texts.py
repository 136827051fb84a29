r"""Exact text in messages: finding it, and one spelling to compare it by.

In: a message.  Out: Unicode NFC, case-folded, white space collapsed, LaTeX's escapes taken off
("50\%" is 50%, "New\ York" is New York).  Neighbours: ``spans`` says where to look, ``choices``
compares options this way.
"""

from __future__ import annotations

import re
import unicodedata

from maporl_core.tasks.answers import sentences, spans

MAX_ANSWER = 2_000
"""Characters of an exact answer."""

TEXT_COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|sc|up|md|normal)?|math(?:rm|bf|it|sf|tt|bb)|mbox|hbox|emph|underline"
    r"|operatorname)\s*\{([^{}]*)\}"
)
_ACCENT = re.compile(
    r"""\\(?P<mark>['`^"~=.]|[cvuHr](?=\{))(?:\{(?P<a>\\?[A-Za-z])\}|(?P<b>[A-Za-z]))"""
)
_MARKS = {
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    '"': "\u0308",
    "~": "\u0303",
    "=": "\u0304",
    ".": "\u0307",
    "c": "\u0327",
    "v": "\u030c",
    "u": "\u0306",
    "H": "\u030b",
    "r": "\u030a",
}
_UNESCAPED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (
            r"\\\\(?:\[[^\]]{0,20}\])?|\\[ ,;:]|\\(?:quad|qquad|thinspace|nobreakspace)\b(?:\{\})?",
            " ",
        ),
        (r"(?<!\\)~", " "),
        (r"\\!", ""),
        (r"\\([%&$#_{}])", r"\1"),
        (r"\\(?:textasciitilde|sim)\b(?:\{\})?", "~"),
        (r"\\textbackslash\b(?:\{\})?", r"\\"),
        (r"\\(?:dots|ldots|textellipsis)\b(?:\{\})?", "..."),
        (r"\\(?:left|right|displaystyle)\b", ""),
    )
)
_DOLLARS = re.compile(r"\$([^$]*)\$")


def exact_text(text: str) -> str:
    """One spelling of a text: NFC, case-folded, white space collapsed.  Never raises."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def unescaped(text: str) -> str:
    r"""A text that was written as LaTeX, as it is read: \text{…} and escapes taken off."""
    if "\\" not in text and "~" not in text and "$" not in text:
        return text
    if text.count("$") == 2 and "\\$" not in text:
        text = _DOLLARS.sub(r"\1", text)
    for _ in range(4):
        text, styled = TEXT_COMMAND.subn(r"\1", text)
        if not styled:
            break
    text = _ACCENT.sub(_accented, text)
    for pattern, new in _UNESCAPED:
        text = pattern.sub(new, text)
    return text


def _accented(found: re.Match[str]) -> str:
    letter = (found["a"] or found["b"]).lstrip("\\")
    return unicodedata.normalize("NFC", letter + _MARKS[found["mark"]])


def extract_text(text: str) -> str | None:
    """The exact text a message gives: box, tag, ``####``, statement, or its last line."""
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.last_box(seen)
    if box.written:
        found = unescaped(box.content[:MAX_ANSWER]) if box.content is not None else ""
        return exact_text(found) or None
    for content in (spans.tagged(seen), *spans.marked(seen)):
        if content is not None:
            return exact_text(content[:MAX_ANSWER]) or None
    for line in spans.statements(seen):
        return exact_text(sentences.first_sentence(line)) or None
    lines = seen.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return exact_text(last[:MAX_ANSWER]) or None


def same_text(answer: str, gold: str) -> bool:
    """Whether two texts are the same, written plainly or as LaTeX; a last full stop is free."""
    first, second = exact_text(answer), exact_text(gold)
    if first == second:
        return True
    stops = [exact_text(unescaped(side[:MAX_ANSWER])).rstrip(" .") for side in (answer, gold)]
    return stops[0] == stops[1] and bool(stops[0])
