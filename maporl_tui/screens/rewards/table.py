"""The table of one debate's rewards: a row per message, a column per part.

In: an ``Account`` of the debate.  Out: a widget.  Neighbours: the Rewards screen puts its cursor
where the selection is, ``export`` writes the same table to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from maporl_core.types import Message
from maporl_tui.reading.why import Account
from maporl_tui.reading.why_account import spot_of
from maporl_tui.screens.rewards.data import TOTAL
from maporl_tui.screens.rewards.painted import theme_style
from maporl_tui.widgets.line_table import Cell, Column, LineTable

MOST_PARTS = 8
"""Columns of parts that have room; of more, those about the chosen one are shown."""
_FAINT = Style(dim=True)
_CHOSEN = Style(bold=True, underline=True)
_AGENTS = 6


def columns(parts: Sequence[str], wide: bool, chosen: str = "") -> tuple[Column, ...]:
    """The columns; ``wide`` from 120 cells on; the one of part ``chosen`` is marked.

    Narrow, they leave one of 80 cells to the scrollbar.
    """
    each = 8 if wide else 6
    labels = dict(zip(parts, abbreviations(parts), strict=True))
    named = [
        ("message", "turn agent" if wide else "t agent", 14 if wide else 8),
        ("score", "score" if wide else "v", 8 if wide else 6),
        *((name, labels[name], each) for name in _in_sight(parts, chosen)),
        (TOTAL, TOTAL, each),
        ("advantage", "advant" if wide else "adv", each),
        ("kl", "KL", each),
    ]
    return tuple(
        Column(key, heading(label, width, key == "message", key == chosen), width)
        for key, label, width in named
    )


def _in_sight(parts: Sequence[str], chosen: str) -> Sequence[str]:
    """As many parts as have room, the chosen one among them."""
    place = parts.index(chosen) if chosen in parts else 0
    first = max(0, min(place - MOST_PARTS // 2, len(parts) - MOST_PARTS))
    return parts[first : first + MOST_PARTS]


def abbreviations(names: Sequence[str]) -> tuple[str, ...]:
    """Names in at most five letters: the first four, and one more where that tells them apart."""
    found = []
    for name in names:
        same = [other for other in names if other != name and other[:4] == name[:4]]
        places = range(4, len(name)) if same else ()
        apart = next((k for k in places if all(o[k : k + 1] != name[k] for o in same)), len(name))
        found.append(name if len(name) <= 5 else name[:4] + name[apart : apart + 1])
    return tuple(found)


def height(paid: Account, wide: bool) -> int:
    """Lines that the whole table takes, its frame included.

    Said by hand: a DataTable of height "auto" is laid out before its rows are measured.
    """
    return len(paid.messages) + (3 if wide else 2)


class PartsTable(LineTable):
    """All messages of one debate; ``enter`` is the screen's."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(first_stays=True, id=id, classes=classes)

    def show(self, paid: Account, key: int, wide: bool, chosen: str) -> None:
        """Show all messages of the debate ``key``; rows are named ``key:turn:agent:branch``.

        The cursor stays on its row and nothing is told of it.
        """
        rows = {f"{key}:{m.turn}:{m.agent}:{m.branch}": m for m in paid.messages}
        styles: dict[str, Style] = {}

        def style(variable: str) -> Style:
            if variable not in styles:
                styles[variable] = theme_style(self.app, variable)
            return styles[variable]

        def words(name: str) -> list[Cell]:
            return cells(paid, rows[name], wide, chosen, style)

        self.show_table(columns(paid.names, wide, chosen), list(rows), words, self.cursor_row)
        self.border_title = f"reward parts of every message · part: {chosen}"


def heading(label: str, width: int, left: bool, chosen: bool) -> Cell:
    """A column's label, the chosen one marked by more than its style."""
    if chosen:
        label = f"▸{label}"
    width -= 1
    text = set_cell_size(label, width) if left else label[-width:].rjust(width)
    return Cell(text, Style(bold=True, underline=chosen))


def cells(
    paid: Account, message: Message, wide: bool, chosen: str, style: Callable[[str], Style]
) -> list[Cell]:
    """One row.  ``style`` gives the style of a theme variable."""
    reward = paid.rewards[spot_of(message)]
    first, second, *numbers = columns(paid.names, wide, chosen)
    name, room = paid.title(message), first.width - 1
    if cell_len(name) > room:
        name = set_cell_size(name, room - 1).rstrip() + "…"
    name = set_cell_size(name, room)
    mark, verdict = _verdict(message.correct)
    score = "–" if message.score is None else f"{message.score:.{3 if wide else 2}f}"
    if other := paid.second_mark(message):
        mark += other
        if not wide:  # room for the second mark
            score = score[:3] if score.startswith("1") else score.removeprefix("0")
    row = [
        Cell(name, style(f"agent-{message.agent % _AGENTS + 1}")),
        Cell(f"{mark}{score}".rjust(second.width - 1), style(verdict)),
    ]
    for column in numbers:
        if column.key in ("advantage", "kl"):
            value = getattr(reward, column.key)
            look = Style.null()
        else:
            total = column.key == TOTAL
            value = reward.pay.total if total else reward.pay.parts.get(column.key, 0.0)
            look = _FAINT if value == 0 else style("right" if value > 0 else "wrong")
            if total:
                look += Style(bold=True)
        if column.key == chosen:
            look += _CHOSEN
        row.append(Cell(_number(value, column.width - 1, wide).rjust(column.width - 1), look))
    return row


def _verdict(correct: bool | None) -> tuple[str, str]:
    if correct is None:
        return "?", "unknown"
    return ("✓", "right") if correct else ("✗", "wrong")


def _number(value: float | None, width: int, wide: bool) -> str:
    """A signed number with as many decimals as fit; 0 is just that."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    for digits in range(3 if wide else 2, -1, -1):
        text = f"{value:+.{digits}f}".replace("-", "−")
        if len(text) <= width:
            return text
    return f"{value:+.0e}".replace("-", "−")[:width]
