"""Frozen records that the store takes and gives; no SQL and no torch in here.

A ``Place`` is the one name of a message; rows per turn (``…_TA``) are ragged.  Neighbours:
``writer`` takes them, ``reader`` gives them; ``run_records`` has those of a run as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from maporl_core.types import Discussion, EvalSummary, Message, Pay, Place

COMMANDS = ("pause", "resume", "checkpoint", "stop")
"""What a running trainer can be asked to do."""

LiveStatus = Literal["waiting", "writing", "done", "scored"]


@dataclass(frozen=True, slots=True)
class MessageReward:
    """What one message was paid, with its mean advantage and KL where they were computed."""

    pay: Pay
    advantage: float | None = None
    kl: float | None = None

    @property
    def parts(self) -> Pay:
        """The pay, under its name of before."""
        return self.pay


Rewards = Mapping[Place, MessageReward]


@dataclass(frozen=True, slots=True)
class Paid:
    """One discussion with what was paid for it; None where nothing was (an evaluation).

    All places number the discussion alike, as the caller does.  A message that is not among them
    was not paid.
    """

    discussion: Discussion
    rewards: Rewards | None = None


@dataclass(frozen=True, slots=True)
class DiscussionFilter:
    """Which discussions; None means "either".  Every condition that is set must hold.

    ``text`` finds words in questions, gold answers and messages: in the order given, next to each
    other, the last one possibly unfinished; case, accents and punctuation do not matter.
    ``majority_right``: more than half of the agents are right in the last turn.
    """

    first_step: int | None = None
    last_step: int | None = None
    split: Literal["train", "eval"] | None = None
    evaluation: int | None = None
    corrected: bool | None = None
    broke: bool | None = None
    persuaded: bool | None = None
    all_wrong: bool | None = None
    all_right: bool | None = None
    majority_right: bool | None = None
    problem_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class DiscussionRow:
    """One line of a list of discussions; ``question`` is cut to its first 200 characters.

    ``correct_TA``: per turn the verdicts of those who spoke, in agent order (the chosen messages).
    ``sample``: which of several discussions of the same problem.
    """

    id: int
    step: int
    split: str
    evaluation: int | None
    problem_id: str
    question: str
    gold: str | None
    agents: tuple[str, ...]
    turns: int
    stopped_early: bool
    corrected: bool
    broke: bool
    persuaded: bool
    all_wrong: bool
    all_right: bool
    correct_TA: tuple[tuple[bool | None, ...], ...]
    sample: int = 0


@dataclass(frozen=True, slots=True)
class NewPrompt:
    """What an agent read that it had not read before.

    ``continues``: it follows the agent's last prompt and message; if not, it is the whole prompt
    (the first one, or one rebuilt to fit the context window).
    """

    text: str
    continues: bool


@dataclass(frozen=True, slots=True)
class StoredDiscussion:
    """One discussion whole.

    ``discussion`` equals the one written, except that its token ids and log-probabilities are
    empty when the store was told not to keep them.  Places number the discussion by its id.
    ``prompts`` lacks what was not kept.
    """

    row: DiscussionRow
    discussion: Discussion
    rewards: Rewards | None
    prompts: Mapping[Place, NewPrompt]

    def place(self, message: Message) -> Place:
        """The name of one of its messages."""
        return Place(self.row.id, message.turn, message.agent, message.branch)

    def reward(self, message: Message) -> MessageReward | None:
        """What one of its messages was paid; None if it was not."""
        return self.rewards.get(self.place(message)) if self.rewards is not None else None

    def raw_prompt(self, turn: int, agent: int, branch: int | None = None) -> str | None:
        """Everything the agent had before it when it wrote this message, as one text.

        ``branch`` None: the chosen message.  None where nobody spoke or prompts were not kept.
        """
        message = self.discussion.at(turn, agent, branch)
        text = ""
        while message is not None:
            prompt = self.prompts.get(self.place(message))
            if prompt is None:
                return None
            text = prompt.text + text
            if not prompt.continues:
                return text
            message = last_before(self.discussion, message)
            text = (message.text if message is not None else "") + text
        return None

    @property
    def rewards_TA(self) -> tuple[tuple[MessageReward, ...], ...] | None:
        """Per turn what the chosen messages were paid; None unless all of them were."""
        rows = [
            [self.reward(message) for message in self.discussion.said(turn)]
            for turn in range(self.discussion.turns)
        ]
        paid = tuple(tuple(reward for reward in row if reward is not None) for row in rows)
        return paid if self.rewards and [*map(len, rows)] == [*map(len, paid)] else None


def last_before(discussion: Discussion, message: Message) -> Message | None:
    """The same agent's last message of an earlier turn that the discussion went on with."""
    for turn in range(message.turn - 1, -1, -1):
        found = discussion.at(turn, message.agent)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """One message of the watched discussion as far as it is written."""

    turn: int
    agent: int
    status: LiveStatus
    text: str = ""
    answer: str | None = None
    correct: bool | None = None
    score: float | None = None
    reward: float | None = None
    branch: int = 0
    phase: str = "answer"


@dataclass(frozen=True, slots=True)
class LiveDiscussion:
    """The watched discussion.  ``version`` grows with each new one.

    ``discussion`` is its id in the store once its step has been written, None before.
    """

    version: int
    step: int
    split: str
    turns: int
    agents: tuple[str, ...]
    problem_id: str
    question: str
    gold: str | None
    started: float
    discussion: int | None
    messages: tuple[LiveMessage, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked the trainer to do; ``acknowledged`` and ``result`` once it answered."""

    id: int
    time: float
    command: str
    args: Mapping[str, Any]
    acknowledged: float | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One stored evaluation; ``origin`` is "run" (by the trainer) or "command"."""

    id: int
    step: int
    origin: str
    created: float
    summary: EvalSummary


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """How one question of an evaluation went; two evaluations pair up by ``problem_id``.

    Rows per turn hold, in agent order, what each agent that has spoken by then stands at: its last
    chosen message.
    """

    problem_id: str
    discussion: int
    correct_TA: tuple[tuple[bool | None, ...], ...]
    answer_TA: tuple[tuple[str | None, ...], ...]
    score_TA: tuple[tuple[float | None, ...], ...]
