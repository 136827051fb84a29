"""Text from models, files and people made safe to print on a terminal.

In: any str, lone surrogates and escape sequences included.  Out: text that cannot move the cursor,
recolour, retitle or reorder a terminal, and that every encoder accepts.  Nothing visible is lost:
brackets and other markup stay as written.  Neighbours: whatever prints.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]"  # other two-character escapes
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f]")
_LINE_ENDS = re.compile(r"\r\n|[\u2028\u2029]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` without control codes; newlines and tabs stay, lone surrogates become U+FFFD."""
    if text.isprintable():  # the common case, and much faster on long text
        return text
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", _ESCAPES.sub("", text))
    return _SURROGATES.sub("\ufffd", text)


def one_line(value: object, limit: int = 200) -> str:
    """``str(value)`` as one printable line of at most ``limit`` characters."""
    text = str(value)
    # Cut before cleaning: a message may be megabytes long.
    cut = len(text) > 4 * limit
    line = " ".join(printable(text[: 4 * limit]).split())
    if len(line) <= limit and not cut:
        return line
    return line[: limit - 1] + "…"
