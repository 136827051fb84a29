"""A question of one's own on the Compare screen: both sides answer it while one watches.

In: what was typed into the dialog, events of the worker.  Out: both debates as they grow, in place
of the stored ones until escape.  Neighbours: ``questioner`` owns the worker,
``screens.compare`` adds the keys.
"""

from __future__ import annotations

from pathlib import Path

from textual import work
from textual.content import Content

from maporl_core.store.reader import RunDir
from maporl_tui.drawing.text import one_line
from maporl_tui.processes.questioner import Questioner
from maporl_tui.reading.compare_items import voice
from maporl_tui.reading.compare_talk import OwnQuestion, Talk
from maporl_tui.reading.debate_records import Debate
from maporl_tui.screens.compare.dialogs import AskOwn
from maporl_tui.screens.compare.pair_board import Pair
from maporl_tui.screens.compare.showing import CompareShowing

_LOOK = 0.25
"""Seconds between two looks at answers that grow."""
_IDLE_LOOK = 30.0


class CompareTalking(CompareShowing):
    """The Compare screen with questions of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self._questioner = Questioner(self._heard)
        self._talk: Talk | None = None  # the one that is shown
        self._reversed = False  # the sides were exchanged since it was asked
        self._news = False
        self._said_title = Content()

    def on_mount(self) -> None:
        self._look = self.set_interval(_LOOK, self._look_closer, pause=True)
        self.set_interval(_IDLE_LOOK, self._questioner.close_if_idle)

    async def on_unmount(self) -> None:
        await self._questioner.close()

    @property
    def _occupied(self) -> bool:
        return self._talk is not None

    def _begin(self, runs: tuple[RunDir, ...]) -> None:
        self._show_talk(None)
        self.run_worker(self._questioner.close(), group="compare-talk")
        super()._begin(runs)

    # Asking ---------------------------------------------------------------------------------------

    def _who(self) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """Both sides as the worker is started for them, and as people call them."""
        found, view = self._found, self.view
        if found is not None:
            left, right = found.sides
            return (left.voice, right.voice), (left.name, right.name)
        if len(self._runs) == 2:
            a, b = self._runs
            return (voice(a, "trained"), voice(b, "trained")), (
                f"{a.name} (trained)",
                f"{b.name} (trained)",
            )
        if view is None:
            return None
        run = RunDir(Path(view.path))
        return (voice(run, "base"), voice(run, "trained")), (
            f"{run.name} (base)",
            f"{run.name} (trained)",
        )

    @work(exclusive=True, group="compare-ask")
    async def action_ask(self) -> None:
        """Type a question and let both sides answer it."""
        who = self._who()
        if who is None:
            self.maporl.say_problem("nobody to ask: choose a run on 1 Runs")
            return
        sides, names = who
        last = self._talk.asked if self._talk is not None else None
        loaded = (sides, sides[::-1])
        loads = not (self._questioner.alive and self._questioner.sides in loaded)
        asked = await self.maporl.push_screen_wait(AskOwn(names, last, loads))
        if asked is not None:
            await self._put(sides, asked)

    async def _put(self, sides: tuple[str, str], asked: OwnQuestion) -> None:
        # After a swap the worker's first side is the right one; it need not load anew for that.
        there = self._questioner.sides
        self._reversed = sides != there == sides[::-1]
        await self._questioner.ask(sides[::-1] if self._reversed else sides, asked)
        self._say_nothing("")
        self._show_talk(self._questioner.talk)

    def _show_talk(self, talk: Talk | None) -> None:
        """Show a question that both sides answer; None: the stored debates again."""
        self._talk = talk
        self.set_class(talk is not None, "-talking")
        self._said_title = Content()
        if talk is not None:
            self._look.resume()
        else:
            self._look.pause()
        self._draw()

    def _end_talk(self) -> None:
        self._show_talk(None)
        self._list.focus()
        if self._found is None:
            self._find_sides()

    def action_back(self) -> None:
        """A maximised pane, the answer under way, the question, the filter, the screen before."""
        talk = self._talk
        if self.maximized is not None or talk is None:
            super().action_back()
        elif talk.busy:
            self._withdraw()
        else:
            self._end_talk()

    @work(group="compare-talk")
    async def _withdraw(self) -> None:
        await self._questioner.withdraw()

    # Watching -------------------------------------------------------------------------------------

    def _heard(self) -> None:
        """The worker said something; it is drawn with the next look."""
        self._news = True

    def _look_closer(self) -> None:
        talk = self._talk
        if talk is None or not self.is_current:
            return
        if self._news:
            self._news = False
            self._draw()
        elif talk.busy:
            self._say_talk(talk)
        else:
            self._look.pause()

    def _draw(self) -> None:
        talk = self._talk
        if talk is None:
            super()._draw()
            return
        self._say_talk(talk)
        self._question.show(talk.question or "a held-out question …")
        self._board.show(self._live_pair(talk))

    def _live_pair(self, talk: Talk) -> Pair:
        pair: tuple[Debate | None, Debate | None] = (talk.debate(0), talk.debate(1))
        return (pair[1], pair[0]) if self._reversed else pair

    def _say_talk(self, talk: Talk) -> None:
        seconds = f"{self._questioner.elapsed:.0f} s"
        gold = "no gold answer" if talk.gold is None else f"gold {talk.gold}"
        leave = "a asks another one, escape leaves"
        if talk.state == "loading":
            words = f"{one_line(talk.stage, 60)} … {seconds} · escape withdraws"
            line = Content.styled(words, "$text-muted")
        elif talk.state == "answering":
            line = Content(f"answering … {seconds} · {one_line(gold, 40)} · escape withdraws")
        elif talk.state == "withdrawn":
            line = Content.styled(f"withdrawn; {leave}", "$text-muted")
        elif talk.state == "failed":
            line = Content.styled(f"{one_line(talk.problem or '', 300)} · {leave}", "$error")
        else:
            unscored = "not scored: " * (talk.gold is None and not talk.scored)
            line = Content(f"answered · {unscored}{one_line(gold, 40)} · {leave}")
        if not line.is_same(self._said_title):
            self._said_title = line
            self._title.update(line, layout=True)
