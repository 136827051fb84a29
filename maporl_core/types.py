"""Frozen records that every stage reads and writes; no torch in here.

Data moves one way: config → task → engine → discussion → verifier → rewards →
credit → losses → update → store.  Each arrow carries one of these records.
A ``Place`` is the one name of a message, from the rollout to the screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One question q with its gold answer.

    ``gold`` is None where the task has no answer key; correctness is then unknown.
    ``meta`` holds small JSON-able facts a task wants to keep (difficulty, source row).
    """

    id: str
    question: str
    gold: str | None
    task: str
    split: str
    meta: Mapping[str, Any] = field(default_factory=dict)


class Place(NamedTuple):
    """Where a message stands; all count from 0.

    ``discussion`` is its index among those held together (its row in a store); ``branch`` tells
    candidates apart that were sampled at the same turn for the same agent.
    """

    discussion: int
    turn: int
    agent: int
    branch: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What one agent wrote in one turn: s(t, a).

    ``prompt_ids`` + ``ids`` is exactly what the model saw and sampled.  The end token,
    where one was sampled, is part of ``ids``.  ``logprobs`` are those of the distribution
    that was really sampled from, one per id.  ``correct`` is None without a gold answer.
    ``score`` is the verifier's probability in [0, 1]; None before it was scored.
    ``dropped_context`` counts the prompt tokens that did not fit the context window.
    ``branch`` numbers the candidates at one place; the discussion went on with the ``chosen`` one.
    ``phase`` is the topology's short word for what was asked: answer, plan, judge …
    """

    turn: int  # 0-based; shown to people 1-based
    agent: int
    policy: str | None  # None: the base with adapters off wrote it
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish: Finish
    answer: str | None = None
    correct: bool | None = None
    score: float | None = None
    dropped_context: int = 0
    branch: int = 0
    phase: str = "answer"
    chosen: bool = True


@dataclass(frozen=True, slots=True)
class Discussion:
    """One problem discussed by A agents over T turns (T is the last turn really held).

    Turns are ragged: who speaks in a turn is the topology's business, and a place may hold several
    candidates.  ``sample`` tells discussions of the same problem apart.
    """

    problem: Problem
    agents: tuple[str, ...]  # A names, in agent order
    messages: tuple[tuple[Message, ...], ...]  # per turn, in speaking order
    stopped_early: bool = False  # consensus stop
    sample: int = 0

    @property
    def turns(self) -> int:
        return len(self.messages)

    def said(self, turn: int) -> tuple[Message, ...]:
        """What the discussion went on with in one turn, in speaking order."""
        return tuple(message for message in self.messages[turn] if message.chosen)

    def by(self, agent: int) -> tuple[Message, ...]:
        """One agent's messages that the discussion went on with, turn after turn."""
        return tuple(m for turn in self.messages for m in turn if m.agent == agent and m.chosen)

    def standing(self, turn: int) -> tuple[Message, ...]:
        """What each agent that has spoken by the end of a turn last said, in agent order.

        A turn that was not held stands for the last one.
        """
        last: dict[int, Message] = {}
        for row in self.messages[: turn + 1]:
            last |= {message.agent: message for message in row if message.chosen}
        return tuple(last[agent] for agent in sorted(last))

    def at(self, turn: int, agent: int, branch: int | None = None) -> Message | None:
        """The message of a place, without ``branch`` the chosen one; None where nobody spoke."""
        for message in self.messages[turn] if 0 <= turn < len(self.messages) else ():
            wanted = message.chosen if branch is None else message.branch == branch
            if message.agent == agent and wanted:
                return message
        return None

    def everything(self) -> tuple[Message, ...]:
        """Every message, candidates included, in the order of their places."""
        return tuple(
            sorted(
                (message for turn in self.messages for message in turn),
                key=lambda m: (m.turn, m.agent, m.branch),
            )
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """What a verifier sees: a graded message, its problem, and what was said in earlier turns.

    ``seed`` belongs to the place, for verifiers that draw.
    """

    problem: Problem
    message: Message
    earlier: tuple[Message, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a reward, as its scheme declares it: a name and one line of what it says."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Pay:
    """What one message was paid, part by part in declared order; ``total`` is their sum."""

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return float(sum(self.parts.values()))

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Pay) else NotImplemented

    def __getattr__(self, name: str) -> float:
        """A part by its name, 0 for those that this Pay has not."""
        if name in REWARD_PARTS:
            return self.parts.get(name, 0.0)
        raise AttributeError(name)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one part of a message's pay is what it is, or with ``part`` "" a note on the message.

    The first of ``words`` is about the part, the others say where it comes from.  ``about`` names
    the messages that the words speak of, one by one, as far as it goes.  ``brief``: a few words
    that have room in a sum.
    """

    part: str
    amount: float
    words: tuple[str, ...]
    about: tuple[Place, ...] = ()
    brief: str = ""


REWARD_PARTS = (
    *("own", "influence", "critical", "persuaded"),
    *("constructive", "persuasive", "format", "unfinished"),
)
"""Parts of the published reward."""


class RewardParts(Pay):
    """A Pay with every part of the published reward, 0 where nothing is said."""

    def __init__(
        self,
        own: float = 0.0,
        influence: float = 0.0,
        critical: float = 0.0,
        persuaded: float = 0.0,
        constructive: float = 0.0,
        persuasive: float = 0.0,
        format: float = 0.0,
        unfinished: float = 0.0,
    ) -> None:
        given = (own, influence, critical, persuaded, constructive, persuasive, format, unfinished)
        super().__init__(dict(zip(REWARD_PARTS, given, strict=True)))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the ends of its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class EvalSummary:
    """What one evaluation found; suffixes are axes (T turns, A agents, Q questions).

    Transitions count pairs (message of turn t−1, message of turn t) over all agents and turns
    ≥ 2 by how correctness changed and by the verdict of the *other* agents at t−1: keys like
    "wrong→right | others right".
    """

    label: str
    policy_state: str  # "base", "trained" or a checkpoint name
    task: str
    split: str
    questions: int
    agents: tuple[str, ...]
    temperature: float
    seed: int
    accuracy_T: tuple[Interval, ...]  # mean over agents, bootstrap over questions
    accuracy_TA: tuple[tuple[float, ...], ...]
    majority_T: tuple[Interval, ...]  # accuracy of the majority vote (ties share by chance)
    oracle_T: tuple[float, ...]  # some agent is right
    agreement_T: tuple[float, ...]  # all agents gave the same answer
    transitions: Mapping[str, int]
    unparsable: float  # share of messages
    unfinished: float
    seconds: float


@dataclass(frozen=True, slots=True)
class PairedGain:
    """Trained minus base on the same questions and seeds, per turn, bootstrap over questions."""

    before: EvalSummary
    after: EvalSummary
    gain_T: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class StepReport:
    """One finished step, for whoever watches; ``metrics`` is what the store keeps."""

    step: int  # 1-based: steps done so far
    steps: int
    metrics: Mapping[str, float]
    seconds: float
