"""Multiple choice in messages: the one option that a message chooses.

In: a message, and the options of its question where they are known.  Out: an option's capital
letter, or its text where only that was given; None for none or several.  Neighbours: ``chosen``
knows the ways of choosing a letter in a sentence, ``texts`` compares options.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from maporl_core.tasks.answers import chosen, sentences, spans
from maporl_core.tasks.answers.texts import MAX_ANSWER, exact_text, same_text, unescaped

MAX_OPTIONS = len(ascii_uppercase)

# "B", "(B)", "B.", "B) Paris", "B: Paris", "option B"; a capital letter on its own.
_LETTER = re.compile(
    r"(?i:(?:(?:that|it|is|the|therefore|thus|hence|so|then|clearly|definitely|probably|likely|most"
    r"|obviously|simply|indeed|actually|certainly|surely|still|correct|right|best|only)[\s,:]+)*"
    r"(?:option|choice|answer|letter)?s?\s*(?:is\s*)?:?\s*)"
    r"[(\[{*\s\"'“‘`]*(?P<letter>[A-Za-z])(?![\w'’-])[)\]}*.:,\s\"'”’`]*(?P<rest>.*)",
    re.DOTALL,
)
_MORE = re.compile(
    r"[)\]}*\"'”’`]*\s*,?\s*(?:(?i:or|and|and/or)|[/,&])\s*(?i:option\s+|choice\s+)?[(\[*]*[A-Za-z](?![\w'’-])"
)
_MARKED_LINE = re.compile(r"[\s*(\[]*(?:[A-Z][)\].:]|[a-z][)\].]|[A-Z]\s+[-\u2013\u2014]\s)")
_REASON = re.compile(
    r"(?:because|since|as|for|over|and\s+not|not|instead|rather|is|was|,|;|[-\u2013\u2014])",
    re.IGNORECASE,
)


def extract_choice(text: str, options: Sequence[str] = ()) -> str | None:
    """The letter a message chooses, "A" … "Z"; None for none or several.

    With ``options`` an option's own text counts as its letter.  Without, a boxed or stated text
    that is no letter is returned in ``exact_text`` spelling, to be matched by ``same_choice``.
    """
    seen = spans.visible(text)
    if seen is None:
        return None
    seen = chosen.plain_letters(seen)
    box = spans.boxes(seen, (",", "and", "or"), " or ")
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
    """A choice in a message without "the answer is": its last line, or what a sentence chooses."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return None
    if (by_text := option_letter(lines[-1].strip(" .*\"'"), options)) is not None:
        return by_text
    shown = _LETTER.fullmatch(lines[-1])
    if shown is not None and not _MORE.match(lines[-1], shown.end("letter")):
        if not shown["rest"]:
            return shown["letter"].upper()
        reasoned = shown["letter"].isupper() and re.match(r"(?i:because|since)\b", shown["rest"])
        if reasoned or _MARKED_LINE.match(lines[-1]):  # "B, because …", "B) Paris", "b. 4"
            return shown["letter"].upper()
    return chosen.asserted_letter(text)


def _read(content: str, options: Sequence[str]) -> str | None:
    """The choice in an explicit answer, e.g. "(B) Paris" or "Paris"."""
    content = unescaped(content[:MAX_ANSWER]).strip(" \t\r\n$*_`\"'")
    for candidate in (content, sentences.first_sentence(content)):
        if (by_text := option_letter(candidate, options)) is not None:
            return by_text
    found = _LETTER.fullmatch(content)
    several = found is not None and _MORE.match(content, found.end("letter")) is not None
    if found is not None and not several:
        glued = content[found.end("letter") : found.start("rest")]
        clear = not found["rest"] or any(mark in glued for mark in ")].:*,}\"'”’`")
        clear = clear or _REASON.match(found["rest"]) is not None
        if clear or found["letter"] not in "AaIi":  # "A cat" is no choice
            return found["letter"].upper()
    if options or several:
        return None
    return exact_text(sentences.first_sentence(content)) or None


def option_letter(text: str, options: Sequence[str]) -> str | None:
    """The letter of the one option with this text; None for none or several."""
    found = [i for i, option in enumerate(options) if same_text(text, option)]
    return ascii_uppercase[found[0]] if len(found) == 1 and found[0] < MAX_OPTIONS else None


def same_choice(answer: str, gold: str, options: Sequence[str] = ()) -> bool:
    """Whether an answer, a letter or an option's text, is the gold letter."""
    if len(answer.strip()) == 1:
        return answer.strip().upper() == gold
    return option_letter(answer, options) == gold
