"""How the answers of a debate come together: one row per turn.

In: the ``TurnAnswers`` of a debate.  Out: a bar of the answer groups, the answers with their
counts, how many agree and how many are right.  Right, wrong and unknown differ in the bar's shading
and by ✓ ✗ ?, not only by colour.  Neighbours: ``debate_records`` counts, the Debate screen shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from maporl_tui.drawing.text import one_line, percent
from maporl_tui.reading.debate_answers import TurnAnswers
from maporl_tui.reading.debate_records import MARKS
from maporl_tui.widgets.message_pane import VERDICT_STYLES

_SHADES = {True: "█", False: "▒", None: "░"}
_LONGEST_ANSWER = 16
_Piece = tuple[str, str]


class AnswerStrip(Static):
    """Rows of turns, the present one pointed at."""

    DEFAULT_CSS = """
    AnswerStrip { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(markup=False, id=id)
        self._shown: tuple[object, ...] = ()

    def show(self, turns: Sequence[TurnAnswers], present: int, width: int) -> None:
        """Draw the turns for ``width`` cells; ``present`` is the turn that is looked at."""
        wanted = (tuple(turns), present, width)
        if wanted != self._shown:
            before, self._shown = self._shown, wanted
            same_height = bool(before) and len(turns) == len(self._turns(before))
            self.update(strip_content(turns, present, width), layout=not same_height)

    @staticmethod
    def _turns(shown: tuple[object, ...]) -> tuple[object, ...]:
        turns = shown[0]
        return turns if isinstance(turns, tuple) else ()


def strip_content(turns: Sequence[TurnAnswers], present: int, width: int) -> Content:
    """All rows; the bar takes about a fifth of the width."""
    cells = max(6, min(24, width // 5))
    rows = [_row(turn, turn.turn == present, cells) for turn in turns]
    return Content("\n").join(rows)


def _row(turn: TurnAnswers, present: bool, cells: int) -> Content:
    pieces: list[str | _Piece] = [
        (f"{'▸' if present else ' '}{turn.turn + 1} ", "bold" if present else "$text-muted")
    ]
    pieces += bar(turn, cells)
    pieces.append(" ")
    if not turn.spoken:
        return Content.assemble(*pieces, ("nobody has answered yet", "$text-muted"))
    for group in turn.groups:
        answer = "no answer" if group.answer is None else one_line(group.answer, _LONGEST_ANSWER)
        style = VERDICT_STYLES[group.correct]
        pieces += [(f"{MARKS[group.correct]} {answer}", style), f" ×{len(group.agents)}  "]
    pieces.append((summary(turn), "$text-muted"))
    return Content.assemble(*pieces)


def bar(turn: TurnAnswers, cells: int) -> list[_Piece]:
    """Blocks as wide as the groups are large; blanks for those who have not finished."""
    everyone = turn.spoken + turn.missing
    pieces, drawn, counted = [], 0, 0
    for group in turn.groups:
        counted += len(group.agents)
        upto = round(cells * counted / everyone)
        pieces.append((_SHADES[group.correct] * (upto - drawn), VERDICT_STYLES[group.correct]))
        drawn = upto
    pieces.append((" " * (cells - drawn), ""))
    return pieces


def summary(turn: TurnAnswers) -> str:
    """ "all agree · right 67%", "2 of 3 agree", "none agree"."""
    everyone = turn.spoken + turn.missing
    if turn.agreeing == everyone > 1:
        words = "all agree"
    elif turn.agreeing > 1:
        words = f"{turn.agreeing} of {everyone} agree"
    else:
        words = "none agree" if everyone > 1 else ""
    if turn.right is not None:
        right = f"right {percent(turn.right / everyone)}"
        words = f"{words} · {right}" if words else right
    return words if not turn.missing else f"{words} · {turn.missing} to come"
