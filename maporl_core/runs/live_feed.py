"""The watched discussion of a step, on its way to whoever looks at the store.

In: what a discussion's listeners hear.  Out: at most five small writes a second.  Neighbours:
``train`` makes one per step, ``store.live`` keeps the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from maporl_core.rollout.discussion import Listeners
from maporl_core.store.live import LiveWriter
from maporl_core.store.records import LiveMessage
from maporl_core.types import Discussion, Message, Pay, Place, Problem

INTERVAL = 0.2
"""Seconds between two writes of growing text."""


class Watch:
    """Follows the first problem of a step.

    ``give_way`` is called with every token heard and may raise: with a large model a turn takes
    long, and a run that was asked to stop should not finish it.
    """

    def __init__(
        self,
        live: LiveWriter,
        step: int,
        problem: Problem,
        agents: Sequence[str],
        turns: int,
        give_way: Callable[[], None],
    ) -> None:
        self._live, self._give_way = live, give_way
        self._pending: dict[tuple[int, int], LiveMessage] = {}
        self._next = 0.0
        live.begin(step, "train", problem, agents, turns)

    def listeners(self) -> Listeners:
        return Listeners(watched=frozenset({0}), text=self._text, spoken=self._spoken)

    def _text(self, _problem: int, turn: int, agent: int, text: str) -> None:
        self._give_way()
        self._pending[turn, agent] = LiveMessage(turn, agent, "writing", text)
        now = time.monotonic()
        if now >= self._next:
            self._flush()
            self._next = now + INTERVAL

    def _spoken(self, _problem: int, row: Sequence[Message]) -> None:
        for message in row:
            self._pending[message.turn, message.agent] = _scored(message, None)
        self._flush()

    def end(self, discussion: Discussion, paid: Mapping[Place, Pay], key: int | None) -> None:
        """The discussion is stored under ``key``; show what each message said was paid."""
        for message in discussion.everything():
            if message.chosen:
                pay = paid[Place(0, message.turn, message.agent, message.branch)]
                self._pending[message.turn, message.agent] = _scored(message, pay.total)
        self._flush()
        self._live.end(key)

    def _flush(self) -> None:
        if self._pending:
            self._live.update(list(self._pending.values()))
            self._pending.clear()


def _scored(message: Message, reward: float | None) -> LiveMessage:
    return LiveMessage(
        turn=message.turn,
        agent=message.agent,
        status="scored",
        text=message.text,
        answer=message.answer,
        correct=message.correct,
        score=message.score,
        reward=reward,
    )
