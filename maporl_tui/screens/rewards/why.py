"""The reasons as a list to move through, and the lines above the table.

In: ``Why`` lines, the debate.  Out: a list whose lines lead to messages; contents.  Neighbours: the
Rewards screen asks ``line`` where its reader wants to go; ``why`` words the lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from maporl_tui.drawing.text import one_line
from maporl_tui.reading.view import RunView
from maporl_tui.reading.why import Why
from maporl_tui.screens.rewards.data import Debate

_LOOK = {
    "sum": ("", "bold"),
    "part": ("", ""),
    "from": ("  ↳ ", ""),
    "note": ("· ", "$text-muted"),
    "problem": ("! ", "$warning"),
}


class WhyList(OptionList, inherit_bindings=False):
    """Reasons; ``enter`` is left to the screen, so that the help can name it."""

    BINDINGS = [
        Binding("up", "cursor_up", show=False),
        Binding("down", "cursor_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "first", show=False),
        Binding("end", "last", show=False),
    ]

    def show(self, lines: Sequence[Why], part: str) -> None:
        """Show the reasons of one message, the line of ``part`` marked."""
        self._why = tuple(lines)
        self.set_options(Option(_content(line, part)) for line in lines)
        found = (k for k, line in enumerate(lines) if line.part == part)
        self.highlighted = next(found, 0)

    @property
    def line(self) -> Why | None:
        """The line under the cursor."""
        place = self.highlighted
        return None if place is None else self._why[place]


def _content(line: Why, part: str) -> Content:
    mark, style = _LOOK[line.kind]
    if line.part == part and line.kind == "part":
        mark, style = "▸ ", "bold"
    return Content.styled(f"{mark}{line.text}", style)


def head_content(debate: Debate, following: bool) -> Content:
    """Which debate this is, and its question."""
    row, problem = debate.stored.row, debate.stored.discussion.problem
    facts = [f"debate {row.id}", f"step {row.step}"]
    facts.append("no gold answer" if problem.gold is None else f"gold {one_line(problem.gold, 40)}")
    if row.split != "train":
        facts.append("evaluation")
    if row.stopped_early:
        facts.append(f"stopped early after turn {row.turns}")
    if following:
        facts.append("following the newest")
    question = one_line(problem.question, 400)
    return Content.assemble((" · ".join(facts), "bold"), "\n", question)


def nothing_to_show(view: RunView | None, debate: Debate | None) -> str:
    """Why there is no table, and which key or command fills it."""
    if view is None:
        return "no run: choose one on 1 Runs with enter, or start one on 6 Launch"
    if view.generation < 0:  # nothing was ever read of it
        if view.problem is None:
            return "reading the run …"
        return f"{one_line(view.problem, 300)}\n\n1 Runs shows the others."
    if debate is not None:
        row = debate.stored.row
        if row.evaluation is not None or row.split != "train":
            return (
                f"Debate {row.id} is of an evaluation (step {row.step}): nobody is paid there, so "
                "no rewards are stored.\n\nPress , or . for the nearest debate of training, f "
                "for the newest one, 3 to read this one."
            )
        return (
            f"No rewards are stored for debate {row.id}.\n\nPress , or . for the debates beside "
            "it, f for the newest one."
        )
    if view.is_live:
        return "No step has been trained yet: rewards appear here with the first one."
    return (
        "This run has no debate of training: it ended before its first step.\n\nmaporl resume "
        f"{one_line(view.name, 80)} goes on with it; 1 Runs shows the others."
    )
