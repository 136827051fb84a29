"""A topology: one agent speaks per turn, each in its turn, and reads the one before."""

from __future__ import annotations

from maporl_core.config.kinds import Section
from maporl_core.rollout.topology.base import Slot
from maporl_core.types import Discussion, Message


class InTurn:
    says = "one agent speaks per turn and reads the one before"
    Options = Section

    def __init__(self, options: Section, turns: int) -> None:
        self.turns = turns

    def next(self, held: Discussion) -> Slot | None:
        over = held.turns >= self.turns
        return None if over else Slot((held.turns % len(held.agents),))

    def reads(self, reader: int, held: Discussion) -> tuple[Message, ...]:
        return held.said(held.turns - 1)

    def longest(self, agents: int, turns: int) -> int:
        return turns
