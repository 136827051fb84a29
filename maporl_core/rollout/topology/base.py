"""What a topology is: who speaks next in a discussion, and who reads what.

In: a Discussion as far as it is held.  Out: the next ``Slot``, and the messages that a speaker
reads before it speaks.  Pure: the same discussion always gives the same answer.  Neighbours:
``rollout.table`` asks once per turn; a run's topology is made of its own options and the turns T of
``discussion.turns``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from maporl_core.types import Discussion, Message


@dataclass(frozen=True, slots=True)
class Slot:
    """One turn: agents (0-based, each once) that speak at the same time, and what they are asked.

    ``phase`` is a short word: answer, plan, judge …
    """

    speakers: tuple[int, ...]
    phase: str = "answer"


class Topology(Protocol):
    def next(self, held: Discussion, /) -> Slot | None:
        """Who speaks after what was said so far (nothing at first); None ends the discussion."""
        ...

    def reads(self, reader: int, held: Discussion, /) -> tuple[Message, ...]:
        """What ``reader`` sees before it speaks next, in order; its own messages among it or not.

        Never asked in the first turn: then there is the question only.
        """
        ...

    def longest(self, agents: int, turns: int, /) -> int:
        """Most turns that A agents hold where T are asked for."""
        ...
