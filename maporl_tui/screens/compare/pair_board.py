"""Two debates of one question side by side: a row per turn and agent.

In: one or two ``Debate`` records.  Out: message panes that are kept and filled anew from question
to question; both messages of a row scroll together while locked.  Neighbour: the Compare screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from textual.app import ComposeResult
from textual.containers import Horizontal, ScrollableContainer, Vertical
from textual.content import Content
from textual.widgets import Static

from maporl_tui.drawing.rows import wrap_rows
from maporl_tui.drawing.text import safe
from maporl_tui.reading.compare_items import FLIP_MARKS, flip_of
from maporl_tui.reading.compare_text import FLIP_STYLES, turn_heading
from maporl_tui.reading.debate_records import Debate, Said
from maporl_tui.widgets.message_pane import MessagePane, note_line

Pair = tuple[Debate | None, Debate | None]
Spot = tuple[int, int, int]
"""(side, turn, agent), all from 0."""
LEFT, RIGHT = 0, 1


class _Row(Horizontal):
    """The messages of one agent in one turn."""


class _Messages(ScrollableContainer, can_focus=False):
    ALLOW_MAXIMIZE = False


_FRAME = 3  # border and head line
_LEAST, _MOST = 1, 10  # lines of text that a row has room for; the rest is scrolled to
_READ = 2000  # characters looked at to find how much room a text needs


class PairBoard(Vertical):
    """Both sides, turn by turn."""

    DEFAULT_CSS = """
    PairBoard { height: 1fr; }
    PairBoard .turn-heading { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap;
                              text-overflow: ellipsis; }
    PairBoard _Row { height: 8; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._messages = _Messages()
        self._headings: list[Static] = []
        self._rows: list[list[tuple[_Row, MessagePane, MessagePane]]] = []
        self._pair: Pair = (None, None)
        self._drawn: list[Content] = []
        self._heights: dict[_Row, int] = {}
        self._agents = 0
        self._following = False
        self.locked = True

    def compose(self) -> ComposeResult:
        yield self._messages

    @property
    def pair(self) -> Pair:
        """The debates that are shown."""
        return self._pair

    def show(self, pair: Pair) -> None:
        """Fill the panes; only what changed is drawn."""
        self._fit_shape(pair)
        self._pair = pair
        turns = max((debate.turns for debate in pair if debate is not None), default=0)
        for turn, (heading, rows) in enumerate(zip(self._headings, self._rows, strict=True)):
            heading.display = turn < turns
            if turn < turns:
                self._head(turn, turn_heading(*pair, turn))
            for agent, (row, *panes) in enumerate(rows):
                said = [None if debate is None else debate.said(turn, agent) for debate in pair]
                row.display = any(one is not None for one in said)
                for pane, one in zip(panes, said, strict=True):
                    if pane.visible != (one is not None):
                        pane.visible = one is not None
                    if one is not None:
                        pane.show(one)
                self._mark_flip(panes[RIGHT], said[LEFT], said[RIGHT])
                if row.display:
                    self._fit_row(row, said)

    def on_resize(self) -> None:
        self._heights.clear()
        self.show(self._pair)

    def _fit_row(self, row: _Row, said: Sequence[Said | None]) -> None:
        """As many lines as the longer of both texts needs, within reason."""
        width = max(1, self.size.width // 2 - 4)
        lines = _LEAST
        for one in said:
            if one is not None:
                pieces = wrap_rows(safe(one.text[:_READ]), width)
                # From turn 2 on there is a line that says what became of the answer.
                notes = one.turn > 0 or bool(note_line(one).plain)
                lines = max(lines, notes + sum(1 for _ in islice(pieces, _MOST)))
        height = _FRAME + lines
        if self._heights.get(row) != height:
            self._heights[row] = height
            row.styles.height = height

    def _head(self, turn: int, content: Content) -> None:
        while len(self._drawn) <= turn:
            self._drawn.append(Content())
        if not self._drawn[turn].is_same(content):
            self._drawn[turn] = content
            self._headings[turn].update(content, layout=False)

    def _mark_flip(self, pane: MessagePane, left: Said | None, right: Said | None) -> None:
        """On the right message, how its verdict differs from the left one's."""
        known = left is not None and right is not None and left.is_over and right.is_over
        flip = flip_of(left.correct, right.correct) if known and left and right else None
        words = "" if flip is None else FLIP_MARKS[flip]
        if str(pane.border_subtitle or "") != words:
            pane.border_subtitle = Content.styled(words, "" if flip is None else FLIP_STYLES[flip])

    # Where the focus is -------------------------------------------------------------------------

    @property
    def spot(self) -> Spot | None:
        """The message that has the focus."""
        for spot, pane in self._panes():
            if pane.has_focus:
                return spot
        return None

    @property
    def focused_pane(self) -> MessagePane | None:
        """The pane around the message that has the focus."""
        return None if self.spot is None else self._pane(self.spot)

    def said(self, spot: Spot) -> Said | None:
        """The message at a spot."""
        side, turn, agent = spot
        debate = self._pair[side]
        return None if debate is None else debate.said(turn, agent)

    def move(self, sideways: int, down: int) -> None:
        """Give the focus to a message beside or below the present one, or to the first."""
        spots = [spot for spot, _ in self._panes() if self.said(spot) is not None]
        if not spots:
            return
        here = self.spot
        if here is None:
            self.focus_spot(spots[0])
            return
        side, turn, agent = here
        if sideways:
            self.focus_spot((max(0, min(1, side + sideways)), turn, agent))
            return
        column = [spot for spot in spots if spot[0] == side]
        place = column.index(here) + down if here in column else 0
        self.focus_spot(column[max(0, min(place, len(column) - 1))])

    def focus_spot(self, spot: Spot) -> None:
        """Give the focus to a message, where there is one."""
        pane = self._pane(spot)
        if pane is not None and self.said(spot) is not None:
            pane.focus(scroll_visible=False)
            pane.scroll_visible(animate=False)

    def _pane(self, spot: Spot) -> MessagePane | None:
        side, turn, agent = spot
        if turn < len(self._rows) and agent < len(self._rows[turn]):
            _, *panes = self._rows[turn][agent]
            return panes[side]
        return None

    def _panes(self) -> Iterator[tuple[Spot, MessagePane]]:
        for turn, rows in enumerate(self._rows):
            for agent, (_, left, right) in enumerate(rows):
                yield (LEFT, turn, agent), left
                yield (RIGHT, turn, agent), right

    # Panes --------------------------------------------------------------------------------------

    def _fit_shape(self, pair: Pair) -> None:
        """Have a row for every agent and turn of either side; rows that are too many are hidden."""
        turns = max((debate.turns for debate in pair if debate is not None), default=0)
        agents = max((len(debate.columns) for debate in pair if debate is not None), default=0)
        if agents > self._agents:
            self._messages.remove_children()
            self._headings, self._rows, self._drawn = [], [], []
            self._heights.clear()
            self._agents = agents
        fresh: list[Static | _Row] = []
        while len(self._rows) < turns:
            heading = Static(classes="turn-heading", markup=False)
            rows = []
            fresh.append(heading)
            for _ in range(self._agents):
                left, right = MessagePane(), MessagePane()
                rows.append((_Row(left, right), left, right))
                fresh.append(rows[-1][0])
                self._tie(left, right)
            self._headings.append(heading)
            self._rows.append(rows)
        if fresh:
            self._messages.mount(*fresh)

    def _tie(self, left: MessagePane, right: MessagePane) -> None:
        """Let both messages of a row scroll together while the board is locked."""
        for one, other in ((left, right), (right, left)):
            follow = partial(self._follow, other)
            self.watch(one, "scroll_y", follow, init=False)

    def _follow(self, other: MessagePane, y: float) -> None:
        # A shorter text stops early; it must not pull the longer one back.
        if self.locked and not self._following:
            self._following = True
            try:
                other.scroll_to(y=y, animate=False, immediate=True)
            finally:
                self._following = False
