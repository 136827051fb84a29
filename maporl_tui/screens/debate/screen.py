"""3 Debate: what the agents say to each other, live or from the past.

In: keys.  Out: another debate, another message, a filter, a text to read, copy or keep.
Neighbours: ``showing`` is the screen without keys; ``debate_query`` reads filters,
``debate_export`` writes files, ``keymap`` has the keys.
"""

from __future__ import annotations

from functools import partial

from textual import work

from maporl_core.errors import MaporlError
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.debate_export import debate_file
from maporl_tui.reading.debate_feed import Feed
from maporl_tui.reading.debate_follow import Keep, Newest, ShowLive, being_written
from maporl_tui.reading.debate_made import live_debate
from maporl_tui.reading.debate_query import HINT, Query, QueryError, parse_query
from maporl_tui.reading.debate_records import Cell, Debate
from maporl_tui.reading.debate_walk import NEWER, OLDER
from maporl_tui.screens.debate.board import DebateBoard
from maporl_tui.screens.debate.lines import NO_RUN
from maporl_tui.screens.debate.showing import DebateShowing
from maporl_tui.screens.dialogs import Ask, Whole


class DebateScreen(DebateShowing):
    """One debate at a time."""

    NAME = "debate"
    FOOTER = (
        "debate.previous_debate",
        "debate.next_debate",
        "debate.to_rewards",
        "common.find",
        "common.follow",
        "app.help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[int] = []
        self._walking = False

    # Walking ----------------------------------------------------------------------------------

    def action_previous_debate(self) -> None:
        self._walk(OLDER)

    def action_next_debate(self) -> None:
        self._walk(NEWER)

    def _walk(self, way: int) -> None:
        feed, debate = self._feed, self._pane.debate
        if feed is None or debate is None:
            return
        at_hand = feed.at_hand(debate, way) if not self._walking else None
        if at_hand is not None:
            feed.follow = False
            self._show_found(at_hand)
            return
        # Keys come faster than a slow disk answers: each one counts.
        self._steps.append(way)
        if not self._walking:
            self._walking = True
            self._walk_on(feed)

    @work(group="walk")
    async def _walk_on(self, feed: Feed) -> None:
        try:
            while self._steps and feed is self._feed and self._pane.debate is not None:
                way = self._steps.pop(0)
                found = await feed.neighbour(self._pane.debate, way)
                if found is None:
                    self._at_the_end(feed, way)
                else:
                    feed.follow = False
                    self._show_found(found)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
        finally:
            self._walking = False
            self._steps.clear()

    def _at_the_end(self, feed: Feed, way: int) -> None:
        view = self.view
        if way == NEWER and view is not None and being_written(view) and not feed.filter_words:
            if not feed.follow:
                self.action_follow()
            return
        which = "newest" if way == NEWER else "oldest"
        passes = " that passes the filter" if feed.filter_words else ""
        self.notify(f"this is the {which} debate{passes}", timeout=2, markup=False)

    def action_follow(self) -> None:
        """To the newest debate, and on with the run; in a live run off again."""
        feed, view = self._feed, self.view
        if feed is None or view is None:
            return
        feed.follow = not (feed.follow and view.is_live)
        if feed.follow:
            want = feed.next_want(view, None)
            if isinstance(want, ShowLive):
                self._show(live_debate(want.live), None)
            else:
                self._fetch(want if not isinstance(want, Keep) else Newest(()))
        self._say_state()

    def action_agent(self, way: int) -> None:
        self._step(0, way)

    def action_turn(self, way: int) -> None:
        self._step(way, 0)

    def _step(self, down: int, right: int) -> None:
        pane = self._pane
        if pane.debate is not None:
            self._move(pane.debate.beside(pane.place, down, right))

    def on_debate_board_moved(self, event: DebateBoard.Moved) -> None:
        if event.place != self._pane.place:
            self._move(event.place)

    def _move(self, place: Cell) -> None:
        self._pane.move(place)
        pane = self.query_one(DebateBoard).pane(self._pane.place)
        if self.maximized is not None and pane is not None:
            self.maximize(pane, container=False)
        self._select()

    # The filter -------------------------------------------------------------------------------

    @work(exclusive=True, group="ask")
    async def action_find(self) -> None:
        """Ask for words and conditions; nothing typed takes them off."""
        feed = self._feed
        if feed is None:
            self.maporl.say_problem(NO_RUN)
            return
        typed, problem = feed.typed, ""
        while True:
            question = f"{problem}Only debates with words and conditions, such as:\n{HINT}"
            answer = await self.maporl.push_screen_wait(Ask(question, typed))
            if answer is None or feed is not self._feed:
                return
            typed = answer
            try:
                self._narrow(parse_query(typed), feed.toggles, typed)
                return
            except QueryError as error:
                problem = f"{error}\n\n"

    def action_only(self, name: str) -> None:
        """Switch one of the four conditions on or off."""
        if self._feed is not None:
            self._narrow(self._feed.query, self._feed.toggles ^ {name}, self._feed.typed)

    def _narrow(self, query: Query, toggles: frozenset[str], typed: str) -> None:
        """Set the filter and show a debate that passes.  Raises QueryError."""
        feed, view = self._feed, self.view
        if feed is not None and view is not None:
            feed.narrow(query, toggles, typed, view)
            self._find_nearest(feed)
            self._count(feed, view)
            self._say_state()

    def action_back(self) -> None:
        """Undo the last narrowing: a maximised pane, the filter, then the screen before."""
        feed = self._feed
        if self.maximized is None and feed is not None and feed.filter_words:
            self._narrow(Query(), frozenset(), "")
        else:
            super().action_back()

    def action_next_match(self) -> None:
        self._match(NEWER)

    def action_previous_match(self) -> None:
        self._match(OLDER)

    def _match(self, way: int) -> None:
        """The next hit in this debate, then in the next one that passes."""
        feed, pane = self._feed, self._pane
        if feed is None or pane.debate is None:
            return
        if not feed.query.text:
            self.notify("no words to look for: press / and type some", timeout=3, markup=False)
            return
        first, last = 0, len(pane.hits) - 1
        number = (first if way == NEWER else last) if pane.hit is None else pane.hit + way
        if pane.hits and first <= number <= last:
            pane.look_at_hit(number)
            self._select()
            self._say_state()
        else:
            self._match_elsewhere(feed, pane.debate, way)

    @work(exclusive=True, group="show")
    async def _match_elsewhere(self, feed: Feed, debate: Debate, way: int) -> None:
        try:
            found = await feed.neighbour(debate, way)
            if found is None:
                found = await feed.far_end(way)
                self.notify("went round to the other end", timeout=2, markup=False)
        except MaporlError as error:
            self.maporl.say_problem(str(error))
            return
        if found is None or feed is not self._feed:
            return
        feed.follow = False
        pane = self._pane
        self._show_found(found)
        if pane.hits:
            pane.look_at_hit(0 if way == NEWER else len(pane.hits) - 1)
            self._select()
        self._say_state()

    # One message ------------------------------------------------------------------------------

    def action_open_whole(self) -> None:
        said, pane = self._pane.said, self._pane
        if said is not None:
            title = f"{one_line(said.name, 40)}{said.number}, turn {said.turn + 1}: {said.mark} "
            title += "no answer" if said.answer is None else one_line(said.answer, 80)
            self.maporl.push_screen(Whole(title, said.text, pane.marks()))

    def action_raw_prompt(self) -> None:
        """Everything the agent had before it when it wrote the message."""
        said = self._pane.said
        if said is None:
            return
        if self._stored is None:
            self.maporl.say_problem("the prompt is stored with the step: ask again when it is over")
            return
        prompt = self._stored.raw_prompt(said.turn, said.agent, said.branch)
        if prompt is None:
            self.maporl.say_problem("the prompt of this message was not kept in the store")
            return
        title = f"What {one_line(said.name, 40)} read before turn {said.turn + 1}"
        self.maporl.push_screen(Whole(title, prompt))

    def action_to_rewards(self) -> None:
        debate = self._pane.debate
        if debate is None:
            return
        if debate.key is None:
            self.maporl.say_problem("rewards are stored with the step: ask again when it is over")
            return
        self._select()
        self.maporl.show_screen("rewards")

    def action_copy(self) -> None:
        said = self._pane.said
        if said is not None:
            what = f"message of {one_line(said.name, 30)}, turn {said.turn + 1}"
            self.maporl.copy(said.text, what)

    def action_export(self) -> None:
        debate, view = self._pane.debate, self.view
        if debate is None or view is None:
            self.maporl.say_problem("no debate to export")
            return
        paid = self._stored.rewards if self._stored is not None else None
        number = "live" if debate.key is None else str(debate.key)
        self.maporl.export(
            f"{view.name}-debate-{number}.md",
            partial(debate_file, run=view.name, debate=debate, rewards=paid),
        )
