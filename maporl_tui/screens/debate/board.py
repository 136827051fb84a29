"""All messages of a debate: agents as columns, turns as rows; one agent at a time when narrow.

In: a ``Debate``, marks, and the place that is looked at.  Out: a ``MessagePane`` per message, which
is kept and filled anew from debate to debate, and ``Moved`` when another one gets the focus.
Neighbours: the Debate screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, ScrollableContainer, Vertical
from textual.content import Content
from textual.events import Click, DescendantFocus
from textual.message import Message
from textual.widgets import Static

from maporl_tui.reading.debate_records import Cell, Debate
from maporl_tui.widgets.message_pane import MessagePane
from maporl_tui.widgets.text_view import Mark

Marks = Mapping[Cell, Sequence[Mark]]
WIDE = 120
_NARROWEST = 30  # cells of a column before the board scrolls sideways
_ROWS = 6  # least rows of a message
_LOW_ROWS = 4  # rows of the other turns where only one agent's messages fit: frame and head


class _TurnRow(Horizontal):
    """The messages of one turn."""


class _AgentTab(Static):
    """One agent's name above the messages, where only one agent's fit."""

    def __init__(self, agent: int) -> None:
        super().__init__(markup=False)
        self.agent = agent
        self._shown = ""

    def show(self, label: str) -> None:
        if label != self._shown:
            self._shown = label
            self.update(Content(label))


class _Messages(ScrollableContainer, can_focus=False):
    """What scrolls when the messages need more room than there is."""

    ALLOW_MAXIMIZE = False


class DebateBoard(Vertical):
    """The messages of one debate."""

    DEFAULT_CSS = """
    DebateBoard { height: 1fr; }
    DebateBoard > .agent-tabs { height: 1; display: none; }
    DebateBoard.-tabbed > .agent-tabs { display: block; }
    _AgentTab { width: auto; padding: 0 1; color: $text-muted; }
    _AgentTab.-present { background: $primary; color: $on-color; text-style: bold; }
    _TurnRow { height: 1fr; min-height: 7; }
    """

    class Moved(Message):
        """Another message got the focus."""

        def __init__(self, place: Cell) -> None:
            super().__init__()
            self.place = place

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._tabs = Horizontal(classes="agent-tabs")
        self._messages = _Messages()
        self._rows: list[_TurnRow] = []
        self._panes: list[list[MessagePane]] = []
        self._names: list[_AgentTab] = []
        self._fitted: dict[int, tuple[str | int, int]] = {}
        self._debate: Debate | None = None
        self.place: Cell = (0, 0)

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self._messages

    def show(self, debate: Debate, place: Cell, marks: Marks) -> None:
        """Fill the panes; only those whose message or marks changed are drawn."""
        self._fit_shape(debate)
        self._debate = debate
        for turn, (row, panes) in enumerate(zip(debate.rows_TC, self._panes, strict=False)):
            for column, (said, pane) in enumerate(zip(row, panes, strict=True)):
                if pane.visible != (said is not None):
                    pane.visible = said is not None  # an empty place keeps the columns apart
                if said is not None:
                    pane.show(said, marks.get((turn, column), ()))
        self.go(place)

    def go(self, place: Cell) -> None:
        """Look at another message."""
        if self._debate is None or self._debate.said(*place) is None:
            return
        self.place = place
        self._fit()
        self._name_tabs()

    def pane(self, place: Cell) -> MessagePane | None:
        """The pane of one message."""
        turn, agent = place
        if turn < len(self._panes) and agent < len(self._panes[turn]):
            return self._panes[turn][agent]
        return None

    def focus_place(self) -> None:
        """Give the focus to the message that is looked at, and bring it into view."""
        pane = self.pane(self.place)
        if pane is not None:
            pane.focus(scroll_visible=False)
            pane.scroll_visible(animate=False)

    def on_resize(self) -> None:
        self.set_class(self._tabbed, "-tabbed")
        self._name_tabs()
        self._fit()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        for node in event.widget.ancestors_with_self:
            if isinstance(node, MessagePane):
                if node.said is not None and self._debate is not None:
                    self.post_message(self.Moved(self._debate.cell_of(node.said)))
                return

    def on_click(self, event: Click) -> None:
        if isinstance(event.widget, _AgentTab):
            debate, wanted = self._debate, (self.place[0], event.widget.agent)
            self.post_message(self.Moved(wanted if debate is None else debate.nearest(wanted)))

    def _fit_shape(self, debate: Debate) -> None:
        """Have a pane for every message; rows beyond the debate's turns are kept, hidden."""
        agents = len(debate.columns)
        if self._names and len(self._names) != agents:
            self._messages.remove_children()
            self._tabs.remove_children()
            self._rows, self._panes, self._names = [], [], []
            self._fitted.clear()
        if not self._names:
            self._names = [_AgentTab(agent) for agent in range(agents)]
            self._tabs.mount(*self._names)
        fresh = []
        while len(self._rows) < debate.turns:
            panes = [MessagePane() for _ in range(agents)]
            row = _TurnRow(*panes)
            self._panes.append(panes)
            self._rows.append(row)
            fresh.append(row)
        if fresh:
            self._messages.mount(*fresh)

    def _fit(self) -> None:
        """Which columns and rows are shown, and how large.

        Inline styles: a class on a row would make every widget in it look up its rules again.
        """
        turns = 0 if self._debate is None else self._debate.turns
        present, column = self.place
        for turn, (row, panes) in enumerate(zip(self._rows, self._panes, strict=True)):
            row.display = turn < turns
            large = not self._tabbed or turn == present
            height, least = ("1fr", _ROWS) if large else (_LOW_ROWS, _LOW_ROWS)
            width = 0 if self._tabbed else _NARROWEST * len(panes)
            if self._fitted.get(turn) != (height, width):
                self._fitted[turn] = (height, width)
                row.styles.height, row.styles.min_height = height, least
                row.styles.min_width = width
            for agent, pane in enumerate(panes):
                pane.display = not self._tabbed or agent == column

    @property
    def _tabbed(self) -> bool:
        return self.app.size.width < WIDE

    def _name_tabs(self) -> None:
        debate = self._debate
        if debate is None or not self._tabbed:
            return
        for tab in self._names:
            spoken = [debate.said(turn, tab.agent) for turn in range(debate.turns)]
            marks = "".join(" " if said is None else said.mark for said in spoken)
            tab.show(f"{debate.column_name(tab.agent)} {marks}".rstrip())
            tab.set_class(tab.agent == self.place[1], "-present")
