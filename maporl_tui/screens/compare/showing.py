"""What the Compare screen shows: two evaluations, their questions, both debates of one of them.

In: the app's view, the two runs that were marked for comparing, stored evaluations through a loader
of the screen's own.  Out: a ``Comparison`` and one item at a time.  Neighbours: ``compare_load``
reads, ``screens.compare_talking`` adds questions of one's own, ``screens.compare`` the keys.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_core.store.reader import Evaluation, RunDir
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.compare_items import (
    Comparison,
    Item,
    Side,
    Stored,
    before_and_after,
    newest_trained,
    passing,
)
from maporl_tui.reading.compare_load import Loader
from maporl_tui.reading.compare_text import (
    NO_RUN,
    item_line,
    item_title,
    nothing_fits,
    pair_does_not_fit,
    totals,
)
from maporl_tui.reading.debate_made import stored_debate
from maporl_tui.reading.view import RunView
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.compare.item_list import ItemList
from maporl_tui.screens.compare.pair_board import Pair, PairBoard
from maporl_tui.widgets.text_view import TextView

_SETTLE = 0.06
"""Seconds that the cursor rests on a question before its debates are read."""


class CompareShowing(RunScreen):
    """The Compare screen without its keys."""

    AUTO_FOCUS = "#items"

    def __init__(self) -> None:
        super().__init__()
        self._loader = Loader()
        self._runs: tuple[RunDir, ...] = ()
        self._asked_for: object = None  # the app's comparison that was last taken over
        self._known: tuple[Evaluation, ...] | None = None
        self._by_hand = False
        self._unread = False  # a store could not be read the last time
        self._found: Comparison | None = None
        self._shown: list[int] = []  # places of the items that are listed
        self._item: Item | None = None
        self._pair: Pair = (None, None)
        self._words, self._flips_only = "", False
        # Kept by hand: an answer may come while the screen is being taken down.
        self._totals = Static(id="compare-totals", markup=False)
        self._list = ItemList(id="items", classes="pane")
        self._question = TextView(id="compare-question")
        self._title = Static(id="compare-title", markup=False)
        self._board = PairBoard(id="board")
        sides = Vertical(self._title, self._question, self._board, id="compare-sides")
        main = Horizontal(self._list, sides, id="compare-main")
        self._everything = Container(self._totals, main, id="compare")
        self._nothing = Static(id="compare-empty", classes="empty", markup=False)

    def compose_body(self) -> ComposeResult:
        yield self._everything
        yield self._nothing

    def on_mount(self) -> None:
        self._say_nothing(NO_RUN)

    def on_resize(self) -> None:
        if self._found is not None:
            self._draw_totals(self._found)

    def on_screen_suspend(self) -> None:
        if self not in self.app.screen_stack:  # a dialog over it is no reason to let go
            self.workers.cancel_group(self, "compare-item")
            self._loader.close()

    async def on_unmount(self) -> None:
        self._loader.close()

    # Which two ----------------------------------------------------------------------------------

    def show_view(self, view: RunView | None) -> None:
        chosen = self.maporl.comparison
        if chosen is not None and chosen is not self._asked_for:
            self._asked_for = chosen
            self._begin(chosen)
            return
        attached = () if view is None else (RunDir(Path(view.path)),)
        if view is None and not self._runs:
            self._say_nothing(NO_RUN)
        elif view is not None and view.generation >= 0 and self._follows(attached):
            # What a run holds changes while it goes on; what was chosen by hand stays.
            if self._runs != attached:
                self._known = view.evaluations
                self._begin(attached)
            elif (
                view.evaluations != self._known or (self._unread and view.problem is None)
            ) and not (self._by_hand or self._occupied):
                self._known = view.evaluations
                self._find_sides()

    @property
    def _occupied(self) -> bool:
        """Whether something else is shown that must not be taken away."""
        return False

    def _follows(self, attached: tuple[RunDir, ...]) -> bool:
        """Whether the attached run is what is looked at: not while two runs were asked for."""
        if len(self._runs) == 2 and self._asked_for is not None:
            return attached[0].path not in {run.path for run in self._runs}
        return True

    def _begin(self, runs: tuple[RunDir, ...]) -> None:
        """Look at other runs."""
        self._runs, self._by_hand, self._found, self._item = tuple(runs), False, None, None
        self._loader.keep(self._runs)
        self._find_sides()

    @work(exclusive=True, group="compare-load")
    async def _find_sides(self) -> None:
        """The two evaluations to begin with."""
        runs = self._runs
        names = " and ".join(one_line(run.name, 40) for run in runs)
        if self._found is None:
            self._say_nothing(f"reading {names} …")
        self._unread = False
        try:
            stored = [await self._loader.stored(run) for run in runs]
        except MaporlError as error:
            self._unread = True
            self._say_nothing(one_line(str(error), 300))
            return
        if runs != self._runs:
            return
        sides = before_and_after(stored[0]) if len(stored) == 1 else newest_trained(*stored)
        if sides is None:
            self._found = None
            self._say_nothing(_why_none(stored))
        elif self._found is None or _keys(sides) != _keys(self._found.sides):
            await self._load(sides)

    @work(exclusive=True, group="compare-load")
    async def _compare(self, sides: tuple[Side, Side]) -> None:
        await self._load(sides)

    async def _load(self, sides: tuple[Side, Side]) -> None:
        """Read both sides and show them; says how far it is."""

        def progress(done: int, total: int) -> None:
            self._say_nothing(f"reading the questions: {done:,} of {total:,} …")

        self._found, self._item = None, None
        try:
            found = await self._loader.compare(sides, progress)
        except MaporlError as error:
            self._say_nothing(one_line(str(error), 300))
            return
        self._take(found)

    def _take(self, found: Comparison) -> None:
        """Show a comparison."""
        self._found, self._item = found, None
        if not found.items:
            names = " and ".join(one_line(side.name, 60) for side in found.sides)
            differ = f" They differ in: {'; '.join(found.differences)}." * bool(found.differences)
            self._say_nothing(
                f"{names} share no question.{one_line(differ, 300)} Press c to choose others."
            )
            return
        self._say_nothing("")
        if self.focused is None:
            self._list.focus()
        self._draw_totals(found)
        self._list_items()

    def _draw_totals(self, found: Comparison) -> None:
        self._totals.update(totals(found, self.app.size.width >= 120))

    def _say_nothing(self, words: str) -> None:
        """One text in place of everything; with none, everything."""
        self._nothing.update(Content(words))
        self._nothing.display = bool(words)
        self._everything.display = not words

    # The list and one item ----------------------------------------------------------------------

    def _list_items(self) -> None:
        """List what passes the filter; the cursor stays on its question where that is listed."""
        found = self._found
        if found is None:
            return
        self._shown = passing(found.items, self._words, self._flips_only)
        lines = (line for line, at in enumerate(self._shown) if found.items[at] is self._item)
        cursor = next(lines, 0)
        nothing = "nothing passes: w, / or escape" if found.items else ""
        self._list.show(len(self._shown), self._line, cursor, nothing)
        title = f"{len(self._shown):,} of {len(found.items):,}"
        if self._flips_only:
            title += " · flips only"
        if self._words:
            title += f" · with {one_line(self._words, 20)}"
        self._list.border_title = Content(title)
        self._draw()
        self._show_item()

    def _line(self, line: int, width: int) -> tuple[str, str, str | None]:
        assert self._found is not None
        item = self._found.items[self._shown[line]]
        head, rest = item_line(item, width)
        return head, rest, item.flip

    @property
    def chosen(self) -> Item | None:
        """The item under the cursor."""
        if self._found is None or self._list.cursor >= len(self._shown):
            return None
        return self._found.items[self._shown[self._list.cursor]]

    @on(ItemList.Moved)
    def _cursor_moved(self) -> None:
        self._show_item()

    def _show_item(self) -> None:
        item = self.chosen
        if item is None or item is self._item or self._found is None:
            return
        self._fetch_item(self._found, item)

    @work(exclusive=True, group="compare-item")
    async def _fetch_item(self, found: Comparison, item: Item) -> None:
        if self._item is not None:
            await asyncio.sleep(_SETTLE)
        try:
            stored = await self._loader.debates(found.sides, item)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        if found is not self._found or item is not self.chosen:
            return
        self._item = item
        left, right = (
            stored_debate(one, (side.evaluation,))
            for one, side in zip(stored, found.sides, strict=True)
        )
        self._pair = (left, right)
        self._draw()

    def _draw(self) -> None:
        """Both debates of the item."""
        left, right = self._pair
        if self._item is None or left is None or right is None:
            return
        title = item_title(self._item, self._list.cursor, len(self._shown))
        if left.question != right.question:
            # Rows hold the first 200 characters only, by which the sides were paired.
            title = Content.assemble(title, ("  the questions differ further on", "$warning"))
        self._title.update(title, layout=False)
        self._question.show(left.question)
        self._board.show(self._pair)


def _keys(sides: tuple[Side, Side]) -> tuple[object, object]:
    return sides[0].key, sides[1].key


def _why_none(stored: list[Stored]) -> str:
    if len(stored) == 1:
        return nothing_fits(stored[0].run.name, stored[0].evaluations)
    return pair_does_not_fit(stored[0].run.name, stored[1].run.name)
