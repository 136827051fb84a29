"""The influence-aware verification reward: a weighted mean of scores, term by term.

In: a scored Discussion, a turn and an agent.  Out: ScoreTerms; a message's own term is its part
``own``, the others' sum its ``influence``.  Pure.  Neighbour: ``maporl`` pays them.

Source: MAPoRL (arXiv 2502.18439); docs/rewards.md has the formulas and a worked example.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maporl_core.config.schema import RewardConfig
from maporl_core.errors import DataError
from maporl_core.types import Discussion, Message

Scores_TA = Sequence[Mapping[int, float]]
"""Per turn, the score of each agent that spoke in it, in speaking order."""


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """One score in a verification reward; ``members`` agents share the ``weight`` of its turn."""

    turn: int
    agent: int
    score: float
    weight: float
    members: int
    denominator: float

    @property
    def paid(self) -> float:
        """Its share of ``own`` or ``influence``."""
        return self.weight * self.score / self.members / self.denominator


def score_terms(
    discussion: Discussion, turn: int, agent: int, config: RewardConfig
) -> tuple[ScoreTerm, ...]:
    """The scores that the verification reward of one message is made of, its own included.

    Its own term is the part ``own``, the others' sum ``influence``.  Raises DataError when a
    message has no score.
    """
    return tuple(terms(scores_of(discussion), turn, agent, config))


def scores_of(discussion: Discussion) -> list[dict[int, float]]:
    """Scores of what was said.  Raises DataError when a message has none."""
    return [
        {message.agent: score_of(discussion, message) for message in discussion.said(turn)}
        for turn in range(discussion.turns)
    ]


def score_of(discussion: Discussion, message: Message) -> float:
    """v(t, a): 0 without a parsable answer, whatever was given.  Raises DataError without one."""
    if message.score is None:
        raise DataError(
            f"the message of turn {message.turn + 1}, agent {message.agent + 1} on problem "
            f"{discussion.problem.id!r} has no score: score the discussion with a verifier first"
        )
    return 0.0 if message.answer is None else message.score


def verification(
    scores: Scores_TA, turn: int, agent: int, config: RewardConfig
) -> tuple[float, float]:
    """(own, influence) of one message; with horizon "last", own = 0 before the last turn."""
    own, others = 0.0, []
    for term in terms(scores, turn, agent, config):
        if (term.turn, term.agent) == (turn, agent):
            own = term.paid
        else:
            others.append(term.paid)
    return own, math.fsum(others)  # fsum: the same for any order of the agents


def terms(scores: Scores_TA, turn: int, agent: int, config: RewardConfig) -> list[ScoreTerm]:
    """The reward of one message as a weighted mean of scores v(u, j), term by term.

    Turn weights are γ^(u−t) for u ≥ t ("discounted"), or all on turn t ("current") or on turn T
    ("last").  A turn's weight goes to the mean over all agents that spoke in it (share "team", a
    itself included) or to agent a alone ("own"; turns without it do not count, and the last turn is
    then its own last one); in "discounted" the present turn is always a's alone.
    """
    spoken = [u for u in range(turn, len(scores)) if config.share == "team" or agent in scores[u]]
    if config.horizon == "discounted":
        weights = {u: config.gamma ** (u - turn) for u in spoken}
    else:
        weights = {turn if config.horizon == "current" else spoken[-1]: 1.0}
    denominator = sum(weights.values())
    found = []
    for u, weight in weights.items():
        alone = config.share == "own" or (config.horizon == "discounted" and u == turn)
        members = (agent,) if alone else tuple(scores[u])
        found += [ScoreTerm(u, j, scores[u][j], weight, len(members), denominator) for j in members]
    return found
