"""The table of one debate's rewards: a row per message, a column per part.

In: an ``Account`` of the debate.  Out: a widget.  Neighbours: the Rewards screen puts its cursor
where the selection is, ``rewards_export`` writes the same table to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rich.cells import set_cell_size
from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.widgets import DataTable

from maporl_core.types import REWARD_PARTS
from maporl_tui.why import Account
from maporl_tui.widgets.painted import theme_style

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


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    label: str
    width: int


def columns(wide: bool) -> tuple[Column, ...]:
    """The columns; ``wide`` from 120 cells on."""
    each = 8 if wide else 6
    parts = [Column(name, _SHORT[name], each) for name in (*REWARD_PARTS, "total")]
    return (
        Column("message", "turn agent" if wide else "t agent", 14 if wide else 9),
        Column("score", "score" if wide else "v", 8 if wide else 6),
        *parts,
        Column("advantage", "advant" if wide else "adv", each),
        Column("kl", "KL", each),
    )


def height(paid: Account, wide: bool) -> int:
    """Lines that the whole table takes, its frame included.

    Said by hand: a DataTable of height "auto" is laid out before its rows are measured.
    """
    return sum(map(len, paid.rewards_TA)) + (3 if wide else 2)


class PartsTable(DataTable[Text], inherit_bindings=False):
    """A DataTable that leaves ``enter`` to the screen, so that the help can name it."""

    BINDINGS = [
        Binding("up", "cursor_up", show=False),
        Binding("down", "cursor_down", show=False),
        Binding("left", "cursor_left", show=False),
        Binding("right", "cursor_right", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    def show(self, paid: Account, key: int, wide: bool, chosen: str) -> None:
        """Show all messages of the debate ``key``; rows are named ``key:turn:agent``.

        The cursor stays on its row and nothing is told of it.
        """

        def style(variable: str) -> Style:
            return theme_style(self.app, variable)

        with self.prevent(self.RowHighlighted):
            cursor = self.cursor_row
            self.clear(columns=True)
            for column in columns(wide):
                self.add_column(header(column, chosen), width=column.width, key=column.key)
            self.fixed_columns = 1
            for turn, rewards in enumerate(paid.rewards_TA):
                for agent in range(len(rewards)):
                    row = cells(paid, turn, agent, wide, chosen, style)
                    self.add_row(*row, key=f"{key}:{turn}:{agent}")
            self.move_cursor(row=cursor)
        self.border_title = f"reward parts of every message · part: {chosen}"


def header(column: Column, chosen: str) -> Text:
    """A column's label, the chosen one marked by more than its style."""
    mine = column.key == chosen
    label = f"▸{column.label}" if mine else column.label
    left = column.key == "message"
    width = column.width - 1
    text = set_cell_size(label, width) if left else label[-width:].rjust(width)
    return Text(text, style=Style(bold=True, underline=mine))


def cells(
    paid: Account, turn: int, agent: int, wide: bool, chosen: str, style: Callable[[str], Style]
) -> list[Text]:
    """One row.  ``style`` gives the style of a theme variable."""
    message, reward = paid.discussion.messages[turn][agent], paid.rewards_TA[turn][agent]
    first, second, *numbers = columns(wide)
    name = set_cell_size(f"{turn + 1} {paid.name(agent)}", first.width - 1)
    mark, verdict = _verdict(message.correct)
    score = "–" if message.score is None else f"{message.score:.{3 if wide else 2}f}"
    row = [
        Text(name, style=style(f"agent-{agent % _AGENTS + 1}")),
        Text(f"{mark}{score}".rjust(second.width - 1), style=style(verdict)),
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
        row.append(Text(_number(value, column.width - 1, wide).rjust(column.width - 1), look))
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
