"""The topology "all": everybody speaks in every turn and reads the turn before."""

from __future__ import annotations

from maporl_core.config.kinds import Section
from maporl_core.rollout.topology.base import Slot
from maporl_core.types import Discussion, Message


class Everybody:
    says = "all agents speak at once in every turn and read the turn before"
    Options = Section

    def __init__(self, options: Section, turns: int) -> None:
        self.options, self.turns = options, turns

    def next(self, held: Discussion) -> Slot | None:
        over = held.turns >= self.turns
        return None if over else Slot(tuple(range(len(held.agents))))

    def reads(self, _reader: int, held: Discussion) -> tuple[Message, ...]:
        return held.said(held.turns - 1)

    def longest(self, _agents: int, turns: int) -> int:
        return turns
