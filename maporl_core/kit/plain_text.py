"""Text from models, files and people made safe to print on a terminal.

In: any str, lone surrogates and escape sequences included.  Out: text that cannot move the cursor,
recolour, retitle or reorder a terminal, and that every encoder accepts.  Nothing visible is lost:
brackets and other markup stay as written.  Neighbours: whatever prints.
"""

from __future__ import annotations

import re

# One pass: control codes, and the sequence that the last one opens if it is whole.  Time stays
# linear because what stands inside a sequence is neither an escape nor a C1 code, so no two
# attempts read the same text, and because nothing is tried twice ("*+").
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f]++(?:"
    r"(?<=\x1b)(?:"
    r"\][^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, clipboard
    r"|[PX^_][^\x1b\x80-\x9f]*+(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\[[0-?]*+[ -/]*+[@-~]"  # CSI: colours, cursor
    r"|[ -/]*+[0-~])"  # other two-character escapes
    r"|(?<=\x9d)[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?<=[\x90\x98\x9e\x9f])[^\x1b\x80-\x9f]*+(?:\x1b\\|\x9c)"
    r"|(?<=\x9b)[0-?]*+[ -/]*+[@-~]"
    r")?"
)
_LINE_ENDS = ("\r\n", "\u2028", "\u2029")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` without control codes; newlines and tabs stay, lone surrogates become U+FFFD.

    In time proportional to the length of the text, whatever it holds.
    """
    if text.isprintable():  # the common case, and much faster on long text
        return text
    for end in _LINE_ENDS:
        text = text.replace(end, "\n")
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


def one_line(value: object, limit: int = 200) -> str:
    """``str(value)`` as one printable line of at most ``limit`` characters."""
    text = str(value)
    # Cut before cleaning: a message may be megabytes long.
    cut = len(text) > 4 * limit
    line = " ".join(printable(text[: 4 * limit]).split())
    if len(line) <= limit and not cut:
        return line
    return line[: limit - 1] + "…"
