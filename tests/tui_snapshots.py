"""A screen as text that can be compared: what is written, and in which colours.

In: an app.  Out: its lines, then one letter per cell for its style, then what each letter means.
Neighbour: ``tui/test_tui_snapshots`` keeps such texts in ``tests/snapshots``.

(The usual plugin keeps SVG files and pins an old pytest; text shows in a diff what has changed.)
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from textual.app import App
from textual.color import Color

LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits


def snapshot(app: App[Any]) -> str:
    """The screen of ``app``, dialogs included, as it goes to a terminal (NO_COLOR applied)."""
    strips = app.screen._compositor.render_strips()
    ground = Color.parse("black") if app.theme == "ansi" else app.screen.background_colors[1]
    for line_filter in app._filters:
        strips = [strip.apply_filter(line_filter, ground) for strip in strips]
    names: dict[str, str] = {}
    fresh = _letters()
    text, styles = [], []
    for strip in strips:
        text.append("".join(segment.text for segment in strip).rstrip())
        row = ""
        for segment in strip:
            meaning = _meaning(segment.style)
            if meaning not in names:
                names[meaning] = next(fresh)
            row += names[meaning] * cell_len(segment.text)
        styles.append(row)
    legend = [f"{letter}  {meaning}" for meaning, letter in names.items()]
    return "\n".join([*text, "", *styles, "", *legend]) + "\n"


def _meaning(style: Style | None) -> str:
    if style is None:
        return "plain"
    words = [
        word
        for word in ("bold", "dim", "italic", "underline", "reverse", "strike")
        if getattr(style, word)
    ]
    ink = style.color.name if style.color is not None else "default"
    ground = style.bgcolor.name if style.bgcolor is not None else "default"
    return " ".join([f"{ink} on {ground}", *words])


def _letters() -> Iterator[str]:
    yield from LETTERS
    for code in itertools.count(0x100):
        yield chr(code)
