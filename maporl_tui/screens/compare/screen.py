"""5 Compare: two policies on the same questions, and one's own question to both.

In: keys.  Out: other sides, other questions, a diff, a text to copy or keep, a debate on screen 3.
Neighbours: ``showing`` and ``talking`` are the screen without keys;
``diff`` and ``compare_export`` make the texts, ``keymap`` has the keys.
"""

from __future__ import annotations

import asyncio
from functools import partial

from textual import work

from maporl_core.errors import MaporlError
from maporl_core.types import Place
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.compare_export import comparison_file, talk_file
from maporl_tui.reading.compare_items import swapped
from maporl_tui.reading.debate_records import Said
from maporl_tui.screens.compare.dialogs import ChoosePair
from maporl_tui.screens.compare.diff import word_diff
from maporl_tui.screens.compare.pair_board import RIGHT, Spot
from maporl_tui.screens.compare.talking import CompareTalking
from maporl_tui.screens.dialogs import Ask, Whole


class CompareScreen(CompareTalking):
    """Two sides."""

    NAME = "compare"
    FOOTER = (
        "compare.choose",
        "compare.flips",
        "compare.diff",
        "compare.ask",
        "compare.to_debate",
        "common.find",
        "app.help",
    )

    # Which two ------------------------------------------------------------------------------------

    @work(exclusive=True, group="compare-choose")
    async def action_choose(self) -> None:
        """Any two evaluations of the run, or of both runs."""
        runs = self._runs
        if not runs:
            self.maporl.say_problem("no run to choose from: choose one on 1 Runs")
            return
        try:
            stored = [await self._loader.stored(run) for run in runs]
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        if sum(len(one.evaluations) for one in stored) < 2:
            self.maporl.say_problem(
                "there are no two evaluations to choose from: `maporl eval` makes one; space and v "
                "on 1 Runs compare two runs"
            )
            return
        sides = await self.maporl.push_screen_wait(ChoosePair(stored))
        if sides is not None and runs == self._runs:
            self._by_hand = True
            self._show_talk(None)
            await self._questioner.close()
            self._compare(sides)

    def action_swap(self) -> None:
        """Exchange left and right."""
        found = self._found
        if found is not None:
            place = found.items.index(self._item) if self._item is not None else None
            self._found = swapped(found)
            self._item = None if place is None else self._found.items[place]
            self._pair = (self._pair[1], self._pair[0])
            self._draw_totals(self._found)
            self._list_items()
        self._reversed = not self._reversed
        self._draw()

    # Questions ------------------------------------------------------------------------------------

    def action_item(self, way: int) -> None:
        if self._talk is None:
            self._list.go(self._list.cursor + way)

    def action_flips(self) -> None:
        """Only questions whose verdict changed, or all again."""
        self._flips_only = not self._flips_only
        self._list_items()

    @work(exclusive=True, group="compare-find")
    async def action_find(self) -> None:
        if self._found is None:
            return
        question = "Only questions that hold (or whose gold answer or id is)"
        words = await self.maporl.push_screen_wait(Ask(question, self._words, "all questions"))
        if words is not None:
            self._words = words.strip()
            self._list_items()

    def action_next_match(self) -> None:
        self._match(1)

    def action_previous_match(self) -> None:
        self._match(-1)

    def _match(self, way: int) -> None:
        """The next question that passes the filter; without words, the next flipped one."""
        found, lines = self._found, len(self._shown)
        if found is None or self._talk is not None:
            return
        line = self._list.cursor + way
        while 0 <= line < lines:
            if self._words or found.items[self._shown[line]].flip is not None:
                self._list.go(line)
                return
            line += way
        what = "question that passes" if self._words else "flipped question"
        where = "after" if way > 0 else "before"
        self.notify(f"no {what} {where} this one", timeout=2, markup=False)

    def action_back(self) -> None:
        narrowed = self._words or self._flips_only
        if self.maximized is None and self._talk is None and narrowed:
            self._words, self._flips_only = "", False
            self._list_items()
        else:
            super().action_back()

    # Messages -------------------------------------------------------------------------------------

    def action_side(self, way: int) -> None:
        self._move(way, 0)

    def action_message(self, way: int) -> None:
        self._move(0, way)

    def _move(self, sideways: int, down: int) -> None:
        self._board.move(sideways, down)
        if self.maximized is not None and (pane := self._board.focused_pane) is not None:
            self.maximize(pane, container=False)

    def action_lock(self) -> None:
        """Whether both messages of a row scroll together."""
        self._board.locked = not self._board.locked
        state = "scroll together" if self._board.locked else "scroll on their own"
        self.notify(f"both sides {state}", timeout=2, markup=False)

    def _spot(self) -> Spot | None:
        """The focused message, else the right side's last one of the first agent."""
        spot = self._board.spot
        right = self._board.pair[RIGHT]
        if spot is None and right is not None:
            return (RIGHT, right.turns - 1, 0)
        return spot

    @work(exclusive=True, group="compare-diff")
    async def action_diff(self) -> None:
        """What the two messages of a row have in common, and what not."""
        spot = self._spot()
        if spot is None:
            return
        _, turn, agent = spot
        left, right = (self._board.said((side, turn, agent)) for side in (0, 1))
        if left is None or right is None:
            self.maporl.say_problem("there is no message beside this one to compare it with")
            return
        text, marks = await asyncio.to_thread(word_diff, left.text, right.text)
        names = [one_line(name, 30) for name in (left.name, right.name)]
        who = names[0] if names[0] == names[1] else " | ".join(names)
        same = "both say the same" if not marks else "[-only left-] {+only right+}"
        self.maporl.push_screen(Whole(f"{who}, turn {turn + 1}: {same}", text, marks))

    def action_to_debate(self) -> None:
        """The focused side's debate on the Debate screen, or the other side's."""
        found, item, view = self._found, self._item, self.view
        if self._talk is not None or found is None or item is None:
            self.maporl.say_problem("this debate is in no store: there is nothing to open")
            return
        side, turn, agent = self._board.spot or (RIGHT, 0, 0)
        for here in (side, 1 - side):
            if view is not None and str(found.sides[here].run.path) == view.path:
                self._open(item.discussions[here], turn, agent, here)
                return
        run = found.sides[side].run
        self.maporl.say_problem(f"the app looks at another run: attach to {run.name} on 1 Runs")

    def _open(self, discussion: int, turn: int, agent: int, side: int) -> None:
        debate, branch = self._pair[side], 0
        if debate is not None and debate.turns:
            column = min(agent, len(debate.columns) - 1)
            turn, column = debate.nearest((min(turn, debate.turns - 1), column))
            agent, branch = debate.columns[column]
        self.maporl.open_message(Place(discussion, turn, agent, branch), "debate")

    # Handing out ----------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """The focused message; from the list, the question."""
        spot = self._board.spot
        said: Said | None = self._board.said(spot) if spot is not None else None
        if said is not None:
            self.maporl.copy(
                said.text, f"message of {one_line(said.name, 30)}, turn {said.turn + 1}"
            )
        elif self._question.text:
            self.maporl.copy(self._question.text, "question")

    def action_export(self) -> None:
        """Totals, the listed questions and both debates; of an own question both debates."""
        talk, found = self._talk, self._found
        if talk is not None:
            pair = self._live_pair(talk)
            if pair == (None, None):
                self.maporl.say_problem("nobody has answered yet")
            else:
                self.maporl.export("own-question.md", partial(talk_file, pair=pair))
            return
        if found is None:
            self.maporl.say_problem("nothing to export: no two evaluations are shown")
            return
        names = "-".join(dict.fromkeys(side.run.name for side in found.sides))
        items = [found.items[place] for place in self._shown]
        made = partial(comparison_file, found=found, items=items, pair=self._pair)
        self.maporl.export(f"{names}-comparison.md", made)
