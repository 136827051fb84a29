"""One debate whole: question and gold, where it comes from, how answers converge, every message.

In: a ``Debate``, the filter's words, the place that is looked at.  Out: nearly all of the Debate
screen; what did not change is not drawn again.  It knows no store.  Neighbours: the Debate screen
fills it; ``board``, ``answer_strip`` and ``text_view`` are its pieces.
"""

from __future__ import annotations

from itertools import islice

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from maporl_tui.drawing.rows import wrap_rows
from maporl_tui.drawing.text import safe
from maporl_tui.reading.debate_answers import convergence
from maporl_tui.reading.debate_records import Cell, Debate, Said, writing_cell
from maporl_tui.screens.debate.answer_strip import AnswerStrip
from maporl_tui.screens.debate.board import DebateBoard
from maporl_tui.screens.debate.lines import Hit, head_line, hits_in, marks_in
from maporl_tui.widgets.text_view import Mark, TextView

_LOW = 30  # rows of a screen below which the question gets two rows


class DebateView(Vertical):
    """The debate that is shown, the place in it, and the hit that is looked at."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.debate: Debate | None = None
        self.place: Cell = (0, 0)
        self.words = ""
        self.hits: tuple[Hit, ...] = ()
        self.hit: int | None = None
        self._moved_in: tuple[int | None, int | None] | None = None

    def compose(self) -> ComposeResult:
        yield TextView(id="question")
        yield Static(id="debate-head", markup=False)
        with VerticalScroll(id="strip-box", can_focus=False):
            yield AnswerStrip(id="strip")
        yield Static(id="debate-state", classes="-empty", markup=False)
        yield DebateBoard(id="board")

    def on_resize(self) -> None:
        if self.debate is not None:
            self._fit_question(self.debate)
            self._show_strip()

    @property
    def said(self) -> Said | None:
        """The message that is looked at."""
        return None if self.debate is None else self.debate.said(*self.place)

    def show(self, debate: Debate, words: str, place: Cell | None = None) -> None:
        """Show a debate, or the same one as far as it is known now.

        ``place`` None keeps the place, or follows the message that is being written until somebody
        moves.
        """
        before, self.debate = self.debate, debate
        same = before is not None and _same(before, debate)
        if not same:
            self._moved_in = None
        if not same or words != self.words or debate != before:
            self.words, self.hits = words, hits_in(debate, words)
            if not same or self.hit is None or self.hit >= len(self.hits):
                self.hit = None
        if place is None:
            place = self._place_to_follow(debate)
        self.place = debate.nearest(
            (min(place[0], debate.turns - 1), min(place[1], len(debate.columns) - 1))
        )
        self._draw(debate)
        if before is None or before.question != debate.question:
            self._fit_question(debate)

    def say_state(self, line: Content) -> None:
        """The line below the strip; an empty one is hidden."""
        state = self.query_one("#debate-state", Static)
        state.update(line, layout=False)
        state.set_class(not line.plain, "-empty")

    def move(self, place: Cell, focus: bool = True) -> None:
        """Look at another message; a place outside the debate changes nothing."""
        if self.debate is None or self.debate.said(*place) is None:
            return
        self._moved_in = (self.debate.key, self.debate.version)
        self.place = place
        board = self.query_one(DebateBoard)
        board.go(place)
        self._show_strip()
        if focus:
            board.focus_place()

    def look_at_hit(self, number: int) -> None:
        """Mark a hit as the present one and bring it into view."""
        debate = self.debate
        if debate is None or not 0 <= number < len(self.hits):
            return
        self.hit = number
        self._draw(debate)
        hit = self.hits[number]
        if hit.place is None:
            self.query_one("#question", TextView).reveal(hit.start)
            return
        self.move(hit.place)
        pane = self.query_one(DebateBoard).pane(hit.place)
        if pane is not None:
            # After the layout: a pane that was hidden has no size yet.
            pane.call_after_refresh(pane.reveal, hit.start)

    def marks(self) -> tuple[Mark, ...]:
        """Marks in the message that is looked at."""
        if self.debate is None:
            return ()
        return marks_in(self.debate, self.hits, self.hit)[1].get(self.place, ())

    def focus_message(self) -> None:
        """Give the focus to the message that is looked at."""
        self.query_one(DebateBoard).focus_place()

    def _place_to_follow(self, debate: Debate) -> Cell:
        writing = writing_cell(debate)
        if writing is None or self._moved_in is not None:
            return self.place
        return writing[0], self.place[1]

    def _draw(self, debate: Debate) -> None:
        question, messages = marks_in(debate, self.hits, self.hit)
        self.query_one("#question", TextView).show(debate.question, question)
        head = self.query_one("#debate-head", Static)
        head.update(head_line(debate), layout=False)
        self._show_strip()
        self.query_one(DebateBoard).show(debate, self.place, messages)

    def _show_strip(self) -> None:
        if self.debate is not None:
            turns = convergence(self.debate)
            self.query_one(AnswerStrip).show(turns, self.place[0], self.app.size.width - 2)
            box = self.query_one("#strip-box", VerticalScroll)
            box.scroll_to(y=max(0, self.place[0] - 1), animate=False)

    def _fit_question(self, debate: Debate) -> None:
        """As many rows as the question needs, within reason."""
        limit = 2 if self.app.size.height < _LOW else 4
        width = max(1, self.app.size.width - 3)
        rows = sum(1 for _ in islice(wrap_rows(safe(debate.question[:2000]), width), limit))
        self.query_one("#question", TextView).styles.height = rows


def _same(a: Debate, b: Debate) -> bool:
    """Whether ``b`` is ``a`` as it is known a little later."""
    if a.key is not None and b.key is not None:
        return a.key == b.key
    if a.version is not None and b.version is not None:
        return a.version == b.version
    return (a.step, a.problem_id, a.question) == (b.step, b.problem_id, b.question)
