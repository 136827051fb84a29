"""What the Rewards screen shows: one debate's pay as a table, the reasons, and the run's charts.

In: the shared selection (which debate, which message) and the view of the run.  Out: a table of
parts, the reasons for the message under its cursor, and charts.  Neighbours: ``data`` reads the
store, ``reading.why`` words the reasons, ``table`` and ``drawing.bars`` shape what is shown;
``screen`` adds events and keys.
"""

from __future__ import annotations

from collections.abc import Callable

from textual import work
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from maporl_core.errors import MaporlError
from maporl_core.store.reader import StoreReader
from maporl_core.types import Place
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.client import StoreClient
from maporl_tui.reading.view import RunView
from maporl_tui.reading.why import explain_message
from maporl_tui.reading.why_account import Spot, spot_of
from maporl_tui.screens.base import RunScreen
from maporl_tui.screens.rewards.data import (
    TOTAL,
    Debate,
    nearest_place,
    read_debate,
    read_newest,
)
from maporl_tui.screens.rewards.run import RunPane
from maporl_tui.screens.rewards.table import PartsTable, height
from maporl_tui.screens.rewards.why import WhyList, head_content, nothing_to_show

_WIDE = 120

Find = Callable[[StoreReader, RunView], Debate | None]


class RewardsShowing(RunScreen):
    """The Rewards screen without its keys."""

    def __init__(self) -> None:
        super().__init__()
        self._part = TOTAL
        self._following = False
        self._client: StoreClient | None = None
        self._generation = -1
        self._debate: Debate | None = None
        self._asked: tuple[object, ...] | None = None  # the debate that was last looked for
        self._place: Spot | None = None  # the message whose reasons are shown

    def compose_body(self) -> ComposeResult:
        yield Static(markup=False, id="head")
        yield Static(markup=False, id="nothing", classes="empty")
        with Container(id="upper"):
            yield PartsTable(id="parts", classes="pane")
        with Container(id="lower"):
            yield WhyList(id="why", classes="pane", markup=False)
            yield RunPane(id="run", classes="pane")

    def on_mount(self) -> None:
        self.query_one("#nothing").display = False
        self.watch(self.app, "selection", self._selection_changed, init=False)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw_table())

    # What is shown ----------------------------------------------------------------------------

    def show_view(self, view: RunView | None) -> None:
        client = self.maporl.client
        generation = view.generation if view is not None else -1
        if client is not self._client or generation != self._generation:
            self._client, self._generation = client, generation
            self._debate = self._asked = self._place = None
        if view is None or client is None or generation < 0:
            self._say_nothing(nothing_to_show(view, None))
        else:
            self._find_debate(view)
            self._draw_charts()

    def _selection_changed(self) -> None:
        view = self.view
        if self.is_current and view is not None and view.generation >= 0:
            self._find_debate(view)

    def _find_debate(self, view: RunView) -> None:
        """Show the selected debate, or the newest where none is or the newest is followed."""
        chosen, debate = self.maporl.selection, self._debate
        if debate is not None and chosen is not None and chosen.discussion != debate.key:
            self._following = False  # another screen chose this one
        newest = ("newest", view.step)
        if (chosen is None or self._following) and self._asked != newest:
            self._asked = newest
            self._load(read_newest, view)
        elif debate is not None and chosen is not None and chosen.discussion == debate.key:
            self._show_place(chosen.turn, chosen.agent, chosen.branch)
        elif chosen is not None and not self._following:
            key = chosen.discussion
            if self._asked != ("key", key):
                self._asked = ("key", key)
                self._load(lambda reader, view: read_debate(reader, key, view), view)

    @work(exclusive=True, group="debate")
    async def _load(self, find: Find, view: RunView, at_end: str = "") -> None:
        """Look for a debate and show it; say ``at_end`` when there is none."""
        client = self.maporl.client
        if client is None:
            return
        try:
            found = await client.ask(lambda reader: find(reader, view))
        except MaporlError as error:
            self._say_problem(str(error))
            return
        if client is not self.maporl.client or not self.is_attached:
            return
        if found is not None:
            self._show_debate(found)
        elif at_end:
            self.notify(at_end, markup=False)
        else:
            self._say_nothing(nothing_to_show(self.view, None))

    def _show_debate(self, debate: Debate) -> None:
        self._debate, self._place = debate, None
        place = nearest_place(debate, self.maporl.selection)
        self.maporl.selection = Place(debate.key, *place)
        self._draw_head()
        if debate.paid is None:
            self._say_nothing(nothing_to_show(self.view, debate))
            return
        self._say_nothing(None)
        self._draw_table()
        self._show_place(*place)

    def _say_problem(self, problem: str) -> None:
        """A debate that cannot be read: beside the one that is shown, or in its place."""
        if self._debate is None and self.is_attached:
            self._asked = None  # the next news may find it readable again
            self._say_nothing(f"{one_line(problem)}\n\nPress f for the newest debate of training.")
        else:
            self.maporl.say_problem(problem)

    def _say_nothing(self, text: str | None) -> None:
        """Show why there is no table, or with None the table."""
        nothing = self.query_one("#nothing", Static)
        nothing.display = text is not None
        if text is not None:
            nothing.update(Content(text))
        for name in ("#upper", "#why"):
            self.query_one(name).display = text is None
        if text is not None and self._debate is None:
            self.query_one("#head", Static).update("")
        if text is None and self.focused is None:
            self.query_one("#parts").focus()

    def _draw_head(self) -> None:
        if self._debate is not None:
            head = head_content(self._debate, self._following)
            self.query_one("#head", Static).update(head, layout=False)

    def _draw_table(self) -> None:
        debate = self._debate
        if debate is None or debate.paid is None:
            return
        table = self.query_one("#parts", PartsTable)
        table.show(debate.paid, debate.key, self._wide, self._part)
        self.query_one("#upper").styles.height = height(debate.paid, self._wide)

    def _show_place(self, turn: int, agent: int, branch: int) -> None:
        """Put the cursor on one message and say why it was paid so."""
        debate, spot = self._debate, (turn, agent, branch)
        if debate is None or debate.paid is None or spot == self._place:
            return
        spots = [spot_of(message) for message in debate.paid.messages]
        if spot not in spots:
            return
        self._place = spot
        self.query_one("#parts", PartsTable).go(spots.index(spot))
        total = debate.paid.pay(spot).total
        why = self.query_one("#why", WhyList)
        why.show(explain_message(debate.paid, *spot), self._part)
        why.border_title = Content(
            f"why {debate.paid.name(agent)} got {total:+.3f} in turn {turn + 1}".replace("-", "−")
        )

    @property
    def _parts(self) -> tuple[str, ...]:
        """What can be chosen: the sum, and the parts that the run declares or paid."""
        debate, view = self._debate, self.view
        if debate is not None and debate.paid is not None:
            return (TOTAL, *debate.paid.names)
        return (TOTAL, *(part.name for part in (view.parts if view is not None else ())))

    @property
    def _wide(self) -> bool:
        return self.size.width >= _WIDE

    def _draw_charts(self, at_once: bool = False) -> None:
        """Let the charts show the present step and part."""
        client, view = self._client, self.view
        if client is not None and view is not None and view.generation >= 0 and self.is_current:
            self.query_one(RunPane).want(client, view, self._part, at_once)
