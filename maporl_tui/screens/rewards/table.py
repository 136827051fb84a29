"""The table of one debate's rewards: a row per message, a column per part.

In: an ``Account`` of the debate.  Out: a widget.  Neighbours: the Rewards screen puts its cursor
where the selection is, ``export`` writes the same table to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from maporl_core.types import REWARD_PARTS
from maporl_tui.reading.why import Account
from maporl_tui.reading.why_incentives import second_mark
from maporl_tui.screens.rewards.painted import theme_style
from maporl_tui.widgets.line_table import Cell, Column, LineTable

PARTS = ("total", *REWARD_PARTS)
"""What can be chosen, in the order of the key that goes through them."""

_SHORT = {
    "own": "own",
    "influence": "infl",
    "critical": "crit",
    "persuaded": "persd",
    "constructive": "const",
    "persuasive": "persv",
    "format": "form",
    "unfinished": "unfin",
    "total": "total",
}
_FAINT = Style(dim=True)
_CHOSEN = Style(bold=True, underline=True)
_AGENTS = 6


def columns(wide: bool, chosen: str = "") -> tuple[Column, ...]:
    """The columns; ``wide`` from 120 cells on; the one of part ``chosen`` is marked.

    Narrow, they leave one of 80 cells to the scrollbar.
    """
    each = 8 if wide else 6
    named = [
        ("message", "turn agent" if wide else "t agent", 14 if wide else 8),
        ("score", "score" if wide else "v", 8 if wide else 6),
        *((name, _SHORT[name], each) for name in (*REWARD_PARTS, "total")),
        ("advantage", "advant" if wide else "adv", each),
        ("kl", "KL", each),
    ]
    return tuple(
        Column(key, heading(label, width, key == "message", key == chosen), width)
        for key, label, width in named
    )


def height(paid: Account, wide: bool) -> int:
    """Lines that the whole table takes, its frame included.

    Said by hand: a DataTable of height "auto" is laid out before its rows are measured.
    """
    return sum(map(len, paid.rewards_TA)) + (3 if wide else 2)


class PartsTable(LineTable):
    """All messages of one debate; ``enter`` is the screen's."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(first_stays=True, id=id, classes=classes)

    def show(self, paid: Account, key: int, wide: bool, chosen: str) -> None:
        """Show all messages of the debate ``key``; rows are named ``key:turn:agent``.

        The cursor stays on its row and nothing is told of it.
        """
        places = {
            f"{key}:{turn}:{agent}": (turn, agent)
            for turn, rewards in enumerate(paid.rewards_TA)
            for agent in range(len(rewards))
        }
        styles: dict[str, Style] = {}

        def style(variable: str) -> Style:
            if variable not in styles:
                styles[variable] = theme_style(self.app, variable)
            return styles[variable]

        def words(name: str) -> list[Cell]:
            return cells(paid, *places[name], wide, chosen, style)

        self.show_table(columns(wide, chosen), list(places), words, self.cursor_row)
        self.border_title = f"reward parts of every message · part: {chosen}"


def heading(label: str, width: int, left: bool, chosen: bool) -> Cell:
    """A column's label, the chosen one marked by more than its style."""
    if chosen:
        label = f"▸{label}"
    width -= 1
    text = set_cell_size(label, width) if left else label[-width:].rjust(width)
    return Cell(text, Style(bold=True, underline=chosen))


def cells(
    paid: Account, turn: int, agent: int, wide: bool, chosen: str, style: Callable[[str], Style]
) -> list[Cell]:
    """One row.  ``style`` gives the style of a theme variable."""
    message, reward = paid.discussion.messages[turn][agent], paid.rewards_TA[turn][agent]
    first, second, *numbers = columns(wide)
    name, room = f"{turn + 1} {paid.name(agent)}", first.width - 1
    if cell_len(name) > room:
        name = set_cell_size(name, room - 1).rstrip() + "…"
    name = set_cell_size(name, room)
    mark, verdict = _verdict(message.correct)
    score = "–" if message.score is None else f"{message.score:.{3 if wide else 2}f}"
    if other := second_mark(paid, turn, agent):
        mark += other
        if not wide:  # room for the second mark
            score = score[:3] if score.startswith("1") else score.removeprefix("0")
    row = [
        Cell(name, style(f"agent-{agent % _AGENTS + 1}")),
        Cell(f"{mark}{score}".rjust(second.width - 1), style(verdict)),
    ]
    for column in numbers:
        if column.key in ("advantage", "kl"):
            value = getattr(reward, column.key)
            look = Style.null()
        else:
            value = getattr(reward.parts, column.key)
            look = _FAINT if value == 0 else style("right" if value > 0 else "wrong")
            if column.key == "total":
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
