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
_BOX_OPENS = re.compile(
    r"(?:\\+(?:boxed|fbox|framebox|bbox)|\x08oxed|(?<![A-Za-z\\])boxed)\s{0,4}\{?$"
)
_NAMED = re.compile(r"(?<![A-Za-z])[A-Za-z]{1,2}(?:_\{?\w{1,3}\}?)?\s*=\s*$")  # y_1 = \boxed{…}
_GAP = 80  # characters between two boxes that may stand side by side
_SPACING = re.compile(
    r"\\(?:quad|qquad|text|textrm|mbox|mathrm)(?![A-Za-z])|\\[,;:! ()\[\]]|[\s{}$~*.;\\]"
    r"|(?=,)|(?<=,)"
)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n#]{0,9000})")
_STATED = re.compile(
    r"\banswers?\b(?P<gap>[^\n.:=!?;]{0,80}?)"
    r"(?:(?:'s|\bis|\bare|\bwas|\bbe|\bequals?|\bbecomes)\b(?!\s*[:=])|\s*[:=]|\s-(?=\s)|\s[–—→])"
    r"(?P<rest>(?!\s*(?:not\b|n['’]t\b|wrong\b|incorrect\b|right\b|correct\b)))",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"[\d.,/]{0,9000}")
MARKUP = " \t*_`>\"'“”‘’"


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
    return boxes(text, (), "")


def boxes(text: str, joined_by: tuple[str, ...], written_as: str) -> Box:
    """As ``last_box``, but boxes side by side, with nothing but spacing and the words or signs of
    ``joined_by`` between them, are one list: their contents with ``written_as`` between."""
    if "box" not in text and "\x08oxed" not in text:
        return Box(False, None)
    written, found = _outermost(text)
    filled = [(start, end) for start, end in found if _BLANK.sub("", text[start:end])]
    if not filled:
        return Box(written, None)
    listed = [filled[-1]]
    for start, end in reversed(filled[-_LAST_FEW:-1] if joined_by else []):
        if not _are_beside(text[end : listed[0][0]], joined_by):
            break
        listed.insert(0, (start, end))
    contents = [_INNER_BOX.sub("", text[start:end]).strip() for start, end in listed]
    return Box(True, written_as.join(dict.fromkeys(contents)))


def _are_beside(gap: str, joined_by: tuple[str, ...]) -> bool:
    """Whether what stands between the contents of two boxes only joins them."""
    opening = _BOX_OPENS.search(gap)
    between = _NAMED.sub("", gap[: opening.start()] if opening else gap)
    if len(between) > _GAP or "\n\n" in between.replace(" ", ""):
        return False
    words = _SPACING.sub(" ", between.replace("}", "", 1)).split()
    return all(word in joined_by for word in words) and (bool(words) or "\n" not in between)


def _outermost(text: str) -> tuple[bool, list[tuple[int, int]]]:
    """Whether any box is written, and where the contents of the outermost closed ones stand."""
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
    return written, found


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
        if mark[1].strip(MARKUP):
            yield mark[1].strip(MARKUP)


def statements(text: str) -> Iterator[str]:
    """What follows "the answer is", "Answer:" and the like, from the last one to the first.

    Only the last few, at most one line each; the next line that holds something where its own
    line ends there.  Statements of what the answer is *not*, or that one is right or wrong, are
    left out.
    """
    for mark in reversed(deque(_STATED.finditer(text), maxlen=_LAST_FEW)):
        end = mark.end() + _LINE
        if text[end - 1 : end].isdigit():  # never in the middle of a number
            end = _DIGITS.match(text, end).end()  # type: ignore[union-attr]
        rest = text[mark.end() : end]
        for line in rest.split("\n"):
            if stripped := line.strip(MARKUP + "\r"):
                yield stripped
                break


def explicit(text: str) -> Iterator[str]:
    """Tag, then ``####`` marks, then statements; boxes are for the caller to look at first."""
    content = tagged(text)
    if content is not None:
        yield content
    yield from marked(text)
    yield from statements(text)
