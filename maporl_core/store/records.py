"""Frozen records that the store takes and gives; no SQL and no torch in here.

Axis order is always turn, then agent.  Neighbours: ``writer`` takes them, ``reader`` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from maporl_core.types import Discussion, EvalSummary, Pay

COMMANDS = ("pause", "resume", "checkpoint", "stop")
"""What a running trainer can be asked to do."""

RUNNING_STATES = ("running", "paused")
"""Stored states that need a living trainer; without one the run has died."""
STATES = ("new", *RUNNING_STATES, "finished", "interrupted", "failed")
"""Stored states; a reader adds "died" and "unreadable"."""

LiveStatus = Literal["waiting", "writing", "done", "scored"]


@dataclass(frozen=True, slots=True)
class MessageReward:
    """Why one message was paid, with its mean advantage and KL where they were computed."""

    parts: Pay
    advantage: float | None = None
    kl: float | None = None


Rewards_TA = tuple[tuple[MessageReward, ...], ...]


@dataclass(frozen=True, slots=True)
class Paid:
    """One discussion with what was paid for it; None where nothing was (an evaluation)."""

    discussion: Discussion
    rewards_TA: Rewards_TA | None = None


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
    """One line of a list of discussions; ``question`` is cut to its first 200 characters."""

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


@dataclass(frozen=True, slots=True)
class NewPrompt:
    """What an agent read that it had not read before.

    ``continues``: it follows the agent's prompt and message of the turn before; if not, it is the
    whole prompt (the first one, or one rebuilt to fit the context window).
    """

    text: str
    continues: bool


@dataclass(frozen=True, slots=True)
class StoredDiscussion:
    """One discussion whole.

    ``discussion`` equals the one written, except that its token ids and log-probabilities are
    empty when the store was told not to keep them.  ``prompts_TA`` is None where not kept.
    """

    row: DiscussionRow
    discussion: Discussion
    rewards_TA: Rewards_TA | None
    prompts_TA: tuple[tuple[NewPrompt | None, ...], ...]

    def raw_prompt(self, turn: int, agent: int) -> str | None:
        """Everything the agent had before it when it wrote this message, as one text."""
        text = ""
        for earlier in range(turn + 1):
            prompt = self.prompts_TA[earlier][agent]
            if prompt is None:
                return None
            if prompt.continues:
                text += self.discussion.messages[earlier - 1][agent].text + prompt.text
            else:
                text = prompt.text
        return text


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the run's story; ``step``: the training step it is about, if it is about one."""

    id: int
    time: float
    level: str
    kind: str
    text: str
    step: int | None = None


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
    """How one question of an evaluation went; two evaluations pair up by ``problem_id``."""

    problem_id: str
    discussion: int
    correct_TA: tuple[tuple[bool | None, ...], ...]
    answer_TA: tuple[tuple[str | None, ...], ...]
    score_TA: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class MetricBatch:
    """Metric values written since a cursor, and the cursor to ask with next time."""

    cursor: int
    rows: tuple[tuple[int, str, float], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric over steps, at most about as many points as asked for.

    Each point stands for ``counts`` finite values from ``steps`` (its first step) on: their mean
    and extremes.  Steps whose value is not finite are left out.
    """

    steps: tuple[int, ...] = ()
    means: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """``state`` is a stored state, or "died": stored as running with no trainer alive.

    ``quiet`` is seconds since the trainer's last heartbeat.
    """

    state: str
    step: int
    steps: int | None
    pid: int | None = None
    host: str | None = None
    quiet: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of a list of runs; ``problem`` says why an unreadable one is unreadable."""

    name: str
    status: RunStatus
    task: str
    created: float
    age: float  # seconds since the last step was written, or since it was made
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the last step
    problem: str | None = None
