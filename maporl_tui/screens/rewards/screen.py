"""Screen 4: what every message of a debate was paid, and why; reward parts over the whole run.

In: keys, and moves of the table's cursor.  Out: the shared selection, text to copy, files.
Neighbours: ``showing`` is the screen without keys.

The selection is the one truth: moving the table's cursor sets it, and whatever sets it moves the
cursor.
"""

from __future__ import annotations

from pathlib import Path

from textual import on
from textual.widgets import OptionList

from maporl_core.types import Place
from maporl_tui.reading.why import arithmetic
from maporl_tui.screens.rewards.data import (
    read_beside,
)
from maporl_tui.screens.rewards.export import export_table
from maporl_tui.screens.rewards.showing import RewardsShowing
from maporl_tui.screens.rewards.table import PartsTable
from maporl_tui.screens.rewards.why import WhyList


class RewardsScreen(RewardsShowing):
    """Why every message was paid what it was paid."""

    NAME = "rewards"
    AUTO_FOCUS = "#parts"
    FOOTER = (
        "rewards.to_debate",
        "rewards.part",
        "rewards.previous_debate",
        "rewards.next_debate",
        "common.follow",
        "common.copy",
        "common.export",
    )

    # Events -----------------------------------------------------------------------------------

    @on(PartsTable.Moved, "#parts")
    def _row_chosen(self, event: PartsTable.Moved) -> None:
        debate = self._debate
        key, _, place = event.key.partition(":")
        if debate is not None and key == str(debate.key):
            turn, agent, branch = map(int, place.split(":"))
            self.maporl.selection = Place(debate.key, turn, agent, branch)

    @on(OptionList.OptionSelected, "#why")
    def _line_clicked(self) -> None:
        self.action_to_debate()

    def on_descendant_focus(self) -> None:
        focused = self.focused.id if self.focused is not None else None
        for name in ("why", "run"):
            self.set_class(focused == name, f"-on-{name}")
        self.call_after_refresh(self._keep_cursor_in_sight)

    def _keep_cursor_in_sight(self) -> None:
        table = self.query_one("#parts", PartsTable)
        table.go(table.cursor_row)

    def on_resize(self) -> None:
        if self._debate is not None:
            self._draw_table()
        self._draw_charts()

    # Keys -------------------------------------------------------------------------------------

    def action_part(self) -> None:
        """The next part: marked in the table, spread in the histogram, in front in the stack."""
        parts = self._parts
        at = parts.index(self._part) if self._part in parts else -1
        self._part = parts[(at + 1) % len(parts)]
        self._draw_table()
        place, self._place = self._place, None
        if place is not None:
            self._show_place(*place)
        self._draw_charts(at_once=True)

    def action_to_debate(self) -> None:
        """From a reason to the row of its message; from a row to the Debate screen."""
        why = self.query_one("#why", WhyList)
        line = why.line
        if self.focused is why and line is not None:
            self.query_one("#parts").focus()
            self._choose(line.turn, line.agent, line.branch)
        elif self.maporl.selection is not None:
            self.maporl.open_message(self.maporl.selection, "debate")
        else:
            self.notify("no debate to open yet", markup=False)

    def _choose(self, turn: int, agent: int, branch: int) -> None:
        if self._debate is not None:
            self.maporl.selection = Place(self._debate.key, turn, agent, branch)

    def action_previous_debate(self) -> None:
        self._beside(False, "no earlier debate of training is stored")

    def action_next_debate(self) -> None:
        self._beside(True, "this is the newest debate of training")

    def _beside(self, later: bool, at_end: str) -> None:
        chosen, view = self.maporl.selection, self.view
        if chosen is None or view is None:
            self.notify(at_end, markup=False)
            return
        if self._following:
            self._following = False
            self._draw_head()
        key = chosen.discussion
        self._load(lambda reader, view: read_beside(reader, key, later, view), view, at_end)

    def action_follow(self) -> None:
        """Stay with the newest debate of training, or no longer."""
        self._following = not self._following
        self._asked = None
        self._draw_head()
        if self._following and self.view is not None:
            self._find_debate(self.view)

    def action_copy(self) -> None:
        debate, place = self._debate, self._place
        if debate is None or debate.paid is None or place is None:
            self.maporl.say_problem("nothing to copy: no message with a reward is shown")
            return
        turn, agent, _ = place
        line = arithmetic(debate.paid, *place)
        self.maporl.copy(f"{debate.paid.name(agent)}, turn {turn + 1}: {line}", "arithmetic")

    def action_export(self) -> None:
        debate = self._debate
        if debate is None or debate.paid is None:
            self.maporl.say_problem("nothing to export: no debate with rewards is shown")
            return
        row, paid = debate.stored.row, debate.paid

        def text(path: Path) -> str:
            return export_table(path, row, paid)

        self.maporl.export(f"rewards-{debate.key}.md", text)
