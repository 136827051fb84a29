"""What one text says that another does not, word by word, as one text.

In: two messages.  Out: a text with ``[-gone-]`` and ``{+new+}`` words, and marks for their colours.
Pure.  Neighbour: the Compare screen shows it in a window over long text.

Messages are prose in long lines, so words are compared, not lines.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import islice

from maporl_tui.drawing.text import safe
from maporl_tui.widgets.text_view import Mark

_FINE = 250_000
WORDS = 20_000
"""Words compared on each side; what follows them is left out, and that is said."""


def word_diff(left: str, right: str) -> tuple[str, list[Mark]]:
    """One text that holds both; every word of either is in it, unless the texts are too long."""
    before, more_before = _words(left)
    after, more_after = _words(right)
    text: list[str] = []
    marks: list[Mark] = []
    length = 0

    def add(words: list[str], kind: str, signs: tuple[str, str]) -> None:
        nonlocal length
        body = "".join(words)
        if not body:
            return
        # Blanks at the end stay outside, so that the next word begins where it should.
        core = body.rstrip()
        piece = f"{signs[0]}{core}{signs[1]}{body[len(core) :]}" if kind else body
        if kind:
            marks.append(Mark(length, length + len(piece.rstrip()), kind))
        text.append(piece)
        length += len(piece)

    # Leaving frequent words out keeps long texts quick, at the price of coarser pieces.
    coarse = len(before) * len(after) > _FINE
    matcher = SequenceMatcher(None, before, after, autojunk=coarse)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            add(after[k:m], "", ("", ""))
        else:
            add(before[i:j], "removed", ("[-", "-]"))
            if i < j and k < m and not before[j - 1][-1].isspace():
                add([" "], "", ("", ""))
            add(after[k:m], "added", ("{+", "+}"))
    if more_before or more_after:
        text.append(f"\n… only the first {WORDS:,} words of each are compared")
    return "".join(text), marks


def _words(text: str) -> tuple[list[str], bool]:
    """Words with the blanks after them, and whether there are more."""
    found = re.finditer(r"\s*\S+\s*|\s+", safe(text))
    words = [match.group() for match in islice(found, WORDS + 1)]
    return words[:WORDS], len(words) > WORDS
