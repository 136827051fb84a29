r"""Where in a message its answer stands: boxes, tags, marks and statements.

In: the raw text of a message.  Out: pieces of it, best first, which ``numerals``, ``maths``,
``choices`` and ``labels`` read in their own way.  No function here raises, whatever the text, and
all take time linear in its length.

An explicit answer is, in order of rank: the last non-empty ``\boxed{}``, an ``<answer>`` tag, what
follows ``####``, and a statement such as "the answer is …".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHARS = 200_000
"""Only so many characters from the end of a message are searched; answers stand at the end."""

_LINE = 300  # characters of a statement that are looked at
_LAST_FEW = 64  # marks and statements at the end of a message that are looked at

_THINK = re.compile(
    r"<\s{0,4}(?P<a>/?)\s{0,4}(?:think|thinking|thoughts?|reasoning|scratchpad)\s{0,4}>"
    r"|\[(?P<b>/?)think\]|<\|(?P<c>begin|end)_of_thought\|>|◁(?P<d>/?)think▷",
    re.IGNORECASE,
)
# "\x08oxed" is what "\boxed" turns into when somebody unescapes it once too often.
_BRACES = re.compile(
    r"(?P<box>(?:\\+(?:boxed|fbox|framebox|bbox)|\x08oxed|(?<![A-Za-z\\])boxed)\s{0,4}\{)"
    r"|\\+boxed\s{0,4}(?P<bare>[-+\u2212$]{0,2}\.?\d[^\s{}$\\]{0,100})"
    r"|\\.|(?P<open>\{)|(?P<close>\})",
    re.DOTALL,
)
_INNER_BOX = re.compile(
    r"(?:\\+(?:boxed|fbox|framebox|bbox)|\x08oxed|(?<![A-Za-z\\])boxed)\s{0,4}(?=\{)"
)
# What may stand in a box without filling it: spacing, empty groups, blanks to fill in.
_BLANK = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|boxed|fbox|displaystyle|quad|qquad)(?![A-Za-z])"
    r"|\\[,;:!> ]|[\s{}$~_?.…]"
)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n#]{0,300})")
_STATED = re.compile(
    r"\banswers?\b(?P<gap>[^\n.:=!?;]{0,80}?)"
    r"(?:(?:'s|\bis|\bare|\bwas|\bbe|\bequals?|\bbecomes)\b(?!\s*[:=])|\s*[:=]|\s-(?=\s)|\s[–—→])"
    r"(?P<rest>(?!\s*(?:not\b|n['’]t\b|wrong\b|incorrect\b|right\b|correct\b)))",
    re.IGNORECASE,
)
_MARKUP = " \t*_`>\"'“”‘’"


def visible(text: str) -> str | None:
    """The end of a message without its thinking; None when the thinking never ends.

    A closing mark without an opening one ends a thinking part that began in the prompt.
    """
    kept: list[str] = []
    position, thinking = 0, False
    for mark in _THINK.finditer(text):
        closes = mark["a"] == "/" or mark["b"] == "/" or mark["d"] == "/" or _ends(mark["c"])
        if not closes:
            if not thinking:
                kept.append(text[position : mark.start()])
            thinking = True
            continue
        if not thinking:
            kept.clear()
        position, thinking = mark.end(), False
    if thinking:
        return None
    kept.append(text[position:])
    return "".join(kept)[-MAX_CHARS:]


def _ends(word: str | None) -> bool:
    return word is not None and word.lower() == "end"


@dataclass(frozen=True, slots=True)
class Box:
    """What was found: ``written`` if there is any box, ``content`` of the last one that holds
    something and was closed (boxes inside it opened up), or None."""

    written: bool
    content: str | None


def last_box(text: str) -> Box:
    r"""The last non-empty outermost ``\boxed{…}``; a box that is never closed holds nothing."""
    if "box" not in text and "\x08oxed" not in text:
        return Box(False, None)
    open_at: list[tuple[int, bool]] = []  # (start of the content, is a box) of what is open
    found: list[tuple[int, int]] = []  # outermost closed contents so far, by start
    written = False
    for token in _BRACES.finditer(text):
        if token["box"]:
            written = True
            open_at.append((token.end(), True))
        elif token["bare"]:
            written = True
            found.append((token.start("bare"), token.end("bare")))
        elif token["open"]:
            open_at.append((token.end(), False))
        elif token["close"] and open_at:
            start, is_box = open_at.pop()
            if is_box:
                while found and found[-1][0] >= start:
                    found.pop()  # it lies inside this one
                found.append((start, token.start()))
    for start, end in reversed(found):
        content = text[start:end]
        if _BLANK.sub("", content):
            return Box(True, _INNER_BOX.sub("", content).strip())
    return Box(written, None)


def tagged(text: str) -> str | None:
    """What the last closed, non-empty ``<answer>…</answer>`` holds; None without one."""
    lowered = text.lower()
    if len(lowered) != len(text):  # some capitals grow; offsets would no longer fit
        lowered = text
    end = len(text)
    while (end := lowered.rfind("</answer>", 0, end)) >= 0:
        start = lowered.rfind("<answer>", 0, end)
        if start < 0:
            return None
        content = text[start + len("<answer>") : end].strip()
        if content:
            return content
        end = start
    return None


def marked(text: str) -> Iterator[str]:
    """What follows ``####`` on its line, from the last mark to the first, empty ones left out."""
    if "####" not in text:
        return
    for mark in reversed(deque(_HASHES.finditer(text), maxlen=_LAST_FEW)):
        if mark[1].strip(_MARKUP):
            yield mark[1].strip(_MARKUP)


def statements(text: str) -> Iterator[str]:
    """What follows "the answer is", "Answer:" and the like, from the last one to the first.

    Only the last few, at most one line each; the next line that holds something where its own
    line ends there.  Statements of what the answer is *not*, or that one is right or wrong, are
    left out.
    """
    for mark in reversed(deque(_STATED.finditer(text), maxlen=_LAST_FEW)):
        rest = text[mark.end() : mark.end() + _LINE]
        for line in rest.split("\n"):
            if stripped := line.strip(_MARKUP + "\r"):
                yield stripped
                break


def explicit(text: str) -> Iterator[str]:
    """Tag, then ``####`` marks, then statements; boxes are for the caller to look at first."""
    content = tagged(text)
    if content is not None:
        yield content
    yield from marked(text)
    yield from statements(text)


def first_sentence(text: str) -> str:
    """``text`` up to the end of its first sentence, without the full stop.

    A stop between digits, as in 3.14, ends no sentence.
    """
    cut = re.search(r"[.!?](?=\s|$)|[;\n]", text)
    return (text[: cut.start()] if cut else text).strip(_MARKUP)
