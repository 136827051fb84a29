"""What a discussion is held with: speakers, rules, judges, listeners, and a seat per discussion.

Plain records; no torch.  Neighbours: ``assembly`` makes them, ``discussion`` and ``table`` read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maporl_core.kit.seeds import stable_seed
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.rollout.engine.base import Engine, Sampling
from maporl_core.rollout.topology.base import Topology
from maporl_core.types import Judged, Message, Problem

Grade = Callable[[str, Problem], tuple[str | None, bool | None]]
"""The answer a message gives (None: none) and whether it is right (None: no gold answer)."""

Score = Callable[[Sequence[Judged]], Sequence[float | None]]
"""Verifier scores in [0, 1] of one turn's messages, None for "not scored"."""

Same = Callable[[str, str, Problem], bool]
"""Whether two answers to one problem are the same answer."""

Choose = Callable[[Problem, Sequence[Message]], int]
"""Which of several graded and scored candidates a discussion goes on with: its ``branch``."""

OnText = Callable[[int, int, int, str], None]
"""Text as it is generated: (index of the discussion, turn, agent, all text so far)."""


def lowest_branch(_problem: Problem, candidates: Sequence[Message]) -> int:
    """The candidate that was drawn first."""
    return min(message.branch for message in candidates)


@dataclass(frozen=True, slots=True)
class Speaker:
    """One agent at the table."""

    name: str
    role: str
    policy: str
    engine: Engine
    codec: ChatCodec
    context: int  # window in tokens


@dataclass(frozen=True, slots=True)
class Rules:
    """How one set of discussions is held.

    ``topology`` says who speaks when.  ``base_turns`` is the number of first turns spoken by the
    base with adapters off: 1 for ``train_turns = "discussion"``, 0 for "all", T for the untrained
    agents.  Each problem is discussed ``samples`` times; each speaker of a turn writes
    ``candidates`` messages, of which the discussion goes on with one.
    """

    topology: Topology
    feedback: bool
    consensus_stop: bool
    style: str
    sampling: Sampling
    base_turns: int
    seed: int
    max_batch: int  # messages generated at once
    samples: int = 1
    candidates: int = 1


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears a discussion while it is held.

    ``text`` hears the discussions whose indices are in ``watched`` as they are generated, of
    candidates the first; ``spoken`` hears what was said in each finished turn of those; ``turn``
    the number of messages of every turn.  Any of them may raise to abandon the discussions.
    """

    turn: Callable[[int], None] | None = None
    watched: frozenset[int] = frozenset()
    text: OnText | None = None
    spoken: Callable[[int, Sequence[Message]], None] | None = None


@dataclass(frozen=True, slots=True)
class Judges:
    """What a task and a verifier say of messages; plain functions, so no stage knows the other."""

    prompt: Callable[[Problem], str]
    grade: Grade
    score: Score
    same: Same
    choose: Choose = field(default=lowest_branch)


@dataclass(frozen=True, slots=True)
class Seat:
    """One discussion to be held: the problem, its number in the data, and which sample of it.

    The number decides seeds: the same problem at the same place is discussed the same way again.
    """

    problem: Problem
    number: int
    sample: int = 0

    def seed(self, run_seed: int, use: str, turn: int, agent: int, branch: int = 0) -> int:
        """The seed of one message for one use; those of sample 0, branch 0 name neither."""
        parts: tuple[int, ...] = (self.number, turn, agent)
        if self.sample or branch:
            parts += (self.sample,)
        if branch:
            parts += (branch,)
        return stable_seed(run_seed, use, *parts)
