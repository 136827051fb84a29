"""Keeps one worker for the questions that both sides of the Compare screen are asked.

In: who answers, a question.  Out: a ``Talk`` that grows, and a call whenever it did.  Neighbours:
``asker`` is one worker process; the Compare screen owns the questioner and closes it.

The worker is started with the first question, kept for the next one, and ended when others shall
answer, when nobody asked anything for a while, and with the app.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from maporl_tui.processes.asker import Asker, Event
from maporl_tui.reading.compare_talk import OwnQuestion, Talk, Voice, voices

IDLE = 600.0
"""Seconds without a question after which the worker is ended: it holds models in memory."""

MakeAsker = Callable[[Sequence[str], Callable[[Event], None]], Asker]


class Questioner:
    """One worker at a time."""

    def __init__(self, changed: Callable[[], None], make: MakeAsker = Asker) -> None:
        self._changed, self._make = changed, make
        self._asker: Asker | None = None
        self._voices: tuple[Voice, Voice] | None = None
        self._used = time.monotonic()
        self.talk: Talk | None = None
        self.since = 0.0

    @property
    def alive(self) -> bool:
        """Whether a worker is there."""
        return self._asker is not None and self._asker.alive

    @property
    def sides(self) -> tuple[str, ...]:
        """Who the worker that is there answers for."""
        return self._asker.sides if self._asker is not None else ()

    @property
    def elapsed(self) -> float:
        """Seconds since the question was put."""
        return time.monotonic() - self.since

    async def ask(self, sides: Sequence[str], asked: OwnQuestion) -> None:
        """Put a question, with a new worker where the present one does not answer for these sides.

        What goes wrong is in the talk: ``state`` "failed" and ``problem``.
        """
        await self.withdraw()
        if self._asker is not None and (not self._asker.alive or self.sides != tuple(sides)):
            await self.close()
        self.talk = talk = Talk(asked)
        self.since = self._used = time.monotonic()
        try:
            if self._asker is None:
                self._asker = self._make(sides, self._heard)
                await self._asker.start()
            elif self._voices is not None:
                talk.voices, talk.state = self._voices, "answering"
            talk.ask = await self._asker.ask(
                asked.question, asked.gold, asked.number, asked.temperature, asked.seed
            )
        except (OSError, ConnectionError) as error:
            if talk.busy:
                talk.state, talk.problem = "failed", f"the worker could not be asked: {error}"
        self._changed()

    async def withdraw(self) -> None:
        """Take the present question back; the worker stays for the next one."""
        talk, asker = self.talk, self._asker
        if talk is None or not talk.busy:
            return
        talk.state = "withdrawn"
        if asker is not None and talk.ask is not None:
            await asker.cancel(talk.ask)
        self._changed()

    async def close(self) -> None:
        """End the worker; a talk that was still going on is withdrawn."""
        asker, self._asker, self._voices = self._asker, None, None
        if self.talk is not None and self.talk.busy:
            self.talk.state = "withdrawn"
        if asker is not None:
            await asker.close(patience=0.5)

    async def close_if_idle(self) -> None:
        """End a worker that nobody needed for a while."""
        busy = self.talk is not None and self.talk.busy
        if self._asker is not None and not busy and time.monotonic() - self._used > IDLE:
            await self.close()

    def _heard(self, event: Event) -> None:
        self._used = time.monotonic()
        if event.get("event") == "ready":
            self._voices = voices(event)
        if self.talk is not None:
            self.talk.hear(event)
            self._changed()
