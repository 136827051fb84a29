"""One message of a graded discussion, with all that its explanation asks for.

In: a discussion in which the message was said, the scheme's options, what was paid.  Out: who
stood where, and verdicts in words.  Pure.  Neighbours: ``explain_scores`` and
``explain_incentives`` put it into lines.

An agent stands at what it last said; where everybody speaks in every turn that is its message of
the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.incentives import (
    SCORE_THRESHOLD,
    ShapingEvent,
    shaping_events,
)
from maporl_core.kit.figures import short
from maporl_core.kit.plain_text import one_line
from maporl_core.types import Discussion, Message, Pay, Place


@dataclass(slots=True)
class Told:
    """``key`` numbers the discussion in the places that lines speak of."""

    held: Discussion
    message: Message
    options: RewardConfig
    pay: Pay
    by_score: bool = False
    key: int = 0
    events: Mapping[tuple[int, int], ShapingEvent] = field(init=False)

    def __post_init__(self) -> None:
        rows = shaping_events(self.held, self.options.tie, self.by_score)
        self.events = {(event.turn, event.agent): event for row in rows for event in row}

    @property
    def event(self) -> ShapingEvent:
        """What the incentives saw around the message."""
        return self.events[self.message.turn, self.message.agent]

    @property
    def who(self) -> str:
        return self.name(self.message.agent)

    def name(self, agent: int) -> str:
        """An agent's name, safe to print."""
        return one_line(self.held.agents[agent], 24) or f"agent {agent + 1}"

    def place(self, message: Message) -> Place:
        return Place(self.key, message.turn, message.agent, message.branch)

    def stood(self, turn: int, agent: int) -> Message | None:
        """What an agent had last said by the end of a turn; None before it spoke."""
        for t in range(turn, -1, -1):
            message = self.held.at(t, agent)
            if message is not None:
                return message
        return None

    def others(self, turn: int) -> list[int]:
        """Who else had spoken by the end of a turn."""
        return [
            agent
            for agent in range(len(self.held.agents))
            if agent != self.message.agent and self.stood(turn, agent) is not None
        ]

    def right(self, message: Message) -> bool:
        """Whether a message counts as right for the incentives."""
        return self.events[message.turn, message.agent].right

    def others_right(self, turn: int, among: int | None = None) -> int:
        """How many others stood right at a turn; of those that had spoken by turn ``among``."""
        stood = (self.stood(turn, j) for j in self.others(turn if among is None else among))
        return sum(self.right(message) for message in stood if message is not None)

    def count(self, turn: int, right: bool) -> str:
        """ "2 of 3": others that stood right, or wrong, at a turn."""
        others, found = len(self.others(turn)), self.others_right(turn)
        return f"{found if right else others - found} of {others}"

    def verdict(self, message: Message) -> str:
        """A message's verdict, with its ground where that is not the gold answer."""
        right = self.right(message)
        text = f"{mark(right)} {word(right)}"
        if message.answer is None:
            return f"{text}, no answer"
        if (self.by_score or message.correct is None) and message.score is not None:
            than = "≥" if right else "<"
            return f"{text}, score {message.score:.3f} {than} {short(SCORE_THRESHOLD)}"
        return text


def mark(right: bool) -> str:
    return "✓" if right else "✗"


def word(right: bool) -> str:
    return "right" if right else "wrong"


def change(to_right: bool) -> str:
    return "wrong → right" if to_right else "right → wrong"
