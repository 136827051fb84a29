"""Multiple choice and exact text in messages.

In: a message, and the options of its question where they are known.  Out: an option's capital
letter, or its text where only that was given; for exact text one spelling: Unicode NFC,
case-folded, white space collapsed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from string import ascii_uppercase

from maporl_core.tasks.answers import spans

MAX_OPTIONS = len(ascii_uppercase)
_MAX_ANSWER = 2_000  # characters of an exact answer

_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mbox|mathbb)\s*\{([^{}]*)\}")
# "B", "(B)", "B.", "B) Paris", "B: Paris", "option B"; a capital letter on its own.
_LETTER = re.compile(
    r"(?i:(?:the\s+)?(?:correct\s+|right\s+)?(?:option|choice|answer|letter)s?\s*(?:is\s*)?:?\s*)?"
    r"[(\[{*\s]*(?P<letter>[A-Za-z])(?![\w'’-])[)\]}*.:,\s]*(?P<rest>.*)",
    re.DOTALL,
)
_MORE = re.compile(
    r"[)\]}*]*\s*(?:(?i:or|and|and/or)|[/,&])\s*(?i:option\s+|choice\s+)?\(?[A-Za-z](?![\w'’-])"
)
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_OPTION = re.compile(r"\b(?i:option|choice)\s*\(?([A-Z])\b")
_CLAUSE = re.compile(r"[,.;:!?\n]|\bbut\b")
_DENIED = re.compile(r"\b(?:not|isn['’]t|no|neither|nor|never)\b|n['’]t\b", re.IGNORECASE)


def exact_text(text: str) -> str:
    """One spelling of a text: NFC, case-folded, white space collapsed.  Never raises."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def extract_text(text: str) -> str | None:
    """The exact text a message gives: box, tag, ``####``, statement, or its last line."""
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.last_box(seen)
    if box.written:
        found = _TEXT_COMMAND.sub(r"\1", box.content) if box.content is not None else ""
        return exact_text(found[:_MAX_ANSWER]) or None
    for content in (spans.tagged(seen), *spans.marked(seen)):
        if content is not None:
            return exact_text(content[:_MAX_ANSWER]) or None
    for line in spans.statements(seen):
        return exact_text(spans.first_sentence(line)) or None
    lines = seen.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return exact_text(last[:_MAX_ANSWER]) or None


def same_text(answer: str, gold: str) -> bool:
    return exact_text(answer) == exact_text(gold)


def extract_choice(text: str, options: Sequence[str] = ()) -> str | None:
    """The letter a message chooses, "A" … "Z"; None for none or several.

    With ``options`` an option's own text counts as its letter.  Without, a boxed or stated text
    that is no letter is returned in ``exact_text`` spelling, to be matched by ``same_choice``.
    """
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.last_box(seen)
    if box.written:
        return _read(box.content, options) if box.content is not None else None
    for content in (spans.tagged(seen), *spans.marked(seen)):
        if content is not None:
            return _read(content, options)
    for line in spans.statements(seen):
        if (found := _read(line, options)) is not None:
            return found
        if _MORE.search(line[:20]):
            return None  # "A or B"
    return _unmarked(seen, options)


def _unmarked(text: str, options: Sequence[str]) -> str | None:
    """A choice in a message without any statement: its only line, its last line, one "(B)"."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return None
    if (by_text := option_letter(lines[-1].strip(" .*\"'"), options)) is not None:
        return by_text
    shown = _LETTER.fullmatch(lines[-1])
    if shown is not None and not _MORE.match(lines[-1], shown.end("letter")):
        if not shown["rest"] and (shown["letter"].isupper() or len(lines[-1]) > 1):
            return shown["letter"].upper()
        if re.match(r"[\s*(\[]*[A-Z][)\].:]", lines[-1]):  # "B) Paris"
            return shown["letter"]
    for pattern in (_OPTION, _BRACKETED):
        kept = {
            found[1]
            for found in pattern.finditer(text)
            if not _DENIED.search(
                _CLAUSE.split(text[max(0, found.start() - 30) : found.start()])[-1]
            )
        }
        if kept:
            return kept.pop() if len(kept) == 1 else None
    return None


def _read(content: str, options: Sequence[str]) -> str | None:
    """The choice in an explicit answer, e.g. "(B) Paris" or "Paris"."""
    content = _TEXT_COMMAND.sub(r"\1", content[:_MAX_ANSWER]).strip(" \t\r\n$*_`\"'")
    for candidate in (content, spans.first_sentence(content)):
        if (by_text := option_letter(candidate, options)) is not None:
            return by_text
    found = _LETTER.fullmatch(content)
    several = found is not None and _MORE.match(content, found.end("letter")) is not None
    if found is not None and not several:
        glued = content[found.end("letter") : found.start("rest")]
        clear = not found["rest"] or any(mark in glued for mark in ")].:*,}")
        if clear or found["letter"] not in "AaIi":  # "A cat" is no choice
            return found["letter"].upper()
    if options or several:
        return None
    return exact_text(spans.first_sentence(content)) or None


def option_letter(text: str, options: Sequence[str]) -> str | None:
    """The letter of the one option with this text; None for none or several."""
    wanted = exact_text(text)
    found = [i for i, option in enumerate(options) if exact_text(option) == wanted]
    return ascii_uppercase[found[0]] if len(found) == 1 and found[0] < MAX_OPTIONS else None


def same_choice(answer: str, gold: str, options: Sequence[str] = ()) -> bool:
    """Whether an answer, a letter or an option's text, is the gold letter."""
    if len(answer.strip()) == 1:
        return answer.strip().upper() == gold
    return option_letter(answer, options) == gold
