"""Discussions to learn from: agents that compute right and choose a reading by a known rule.

In: a random state and the shape of a discussion.  Out: one agent's side of it as texts, in the
words of the compact prompts.  Turn 1 takes either reading with equal odds.  Every later turn keeps
the own reading, takes over that of another agent, or picks afresh, with equal odds, whatever the
scores.  An agent whose role is to trust scores takes the reading with the best score instead.
Neighbours: ``batches`` makes ids of these, ``build`` says which are taught when.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from maporl_core.rollout.prompts import STYLES, Seen, score_digit
from maporl_core.runs.pocket.tokenizer import AGENT_NAMES, TRUST_ROLE
from maporl_core.tasks.pocket import draw_numbers, draw_question

NOISY_SCORE = ((0.30, 0.18), (0.72, 0.18))
"""Mean and standard deviation of the scores of wrong and of right messages, cut to [0, 1]."""

_UNINFORMATIVE = 0.2  # share of discussions whose scores say nothing at all


@dataclass(frozen=True, slots=True)
class Shape:
    """``agents`` and ``turns`` of a discussion; without ``feedback`` no scores are shown."""

    agents: int
    turns: int
    feedback: bool = True


@dataclass(frozen=True, slots=True)
class Said:
    """One message an agent gives: ``text``, or with probability ``chance`` its ``twin``.

    The two work out the two readings of the smudged number.  ``text`` is what was drawn and what
    the discussion goes on from; knowing the odds lets the loss use them instead of the draw.
    """

    text: str
    twin: str
    chance: float


@dataclass(frozen=True, slots=True)
class Lesson:
    """One agent's side: ``user[t]`` is what it reads, ``agent[t]`` what it answers in turn t.

    ``role`` is its system text, "" for none.
    """

    role: str
    user: tuple[str, ...]
    agent: tuple[Said, ...]


def draw_shape(rng: random.Random) -> Shape:
    """Mostly the default of three agents and three turns, with every A and T from 1 to 4."""
    return Shape(
        agents=rng.choices((1, 2, 3, 4), (1, 2, 5, 2))[0],
        turns=rng.choices((1, 2, 3, 4), (6, 2, 5, 1))[0],
        feedback=rng.random() < 0.9,
    )


def draw_lesson(
    rng: random.Random, shape: Shape, *, trusting: bool = False, leaning: float = 0.0
) -> Lesson:
    """Let ``shape.agents`` agents discuss one problem of the split "lessons".

    With ``trusting`` the agent whose side this is has the role TRUST_ROLE and follows it.  A share
    ``leaning`` of everybody's later messages follows the best score in any case.  Without
    feedback there is no score to follow, and neither has an effect.
    """
    numbers = draw_numbers(rng, "lessons")
    names = rng.sample(AGENT_NAMES, shape.agents)
    true = rng.randrange(2)
    informative = rng.random() >= _UNINFORMATIVE
    trusting = trusting and shape.feedback
    leaning = leaning if shape.feedback else 0.0
    user, agent = [draw_question(rng, numbers)], []
    chances = [0.5] * shape.agents  # per agent: that it takes reading 1
    readings: list[int] = []
    for turn in range(shape.turns):
        if turn:
            scores = [_draw_score(rng, reading == true, informative) for reading in readings]
            seen = [
                Seen(name, numbers.worked(reading), score if shape.feedback else None)
                for name, reading, score in zip(names, readings, scores, strict=True)
            ]
            user.append(STYLES["compact"].later(seen[0], seen[1:]))
            chances = [
                chance(readings, own, scores, 1.0 if trusting and own == 0 else leaning)
                for own in range(shape.agents)
            ]
        readings = [int(rng.random() < odds) for odds in chances]
        mine = readings[0]
        other = 1.0 - chances[0] if mine else chances[0]
        agent.append(Said(numbers.worked(mine), numbers.worked(1 - mine), other))
    return Lesson(TRUST_ROLE if trusting else "", tuple(user), tuple(agent))


def chance(readings: Sequence[int], own: int, scores: Sequence[float], leaning: float) -> float:
    """Chance that agent ``own`` takes reading 1 after a turn with these readings and scores.

    Leaning goes by the digits that are shown; equal best digits share it.
    """
    others = [*readings[:own], *readings[own + 1 :]]
    keep, afresh = readings[own], 0.5
    take = sum(others) / len(others) if others else afresh
    digits = [score_digit(score) for score in scores]
    best = [r for r, digit in zip(readings, digits, strict=True) if digit == max(digits)]
    return (1.0 - leaning) * (keep + take + afresh) / 3.0 + leaning * sum(best) / len(best)


def _draw_score(rng: random.Random, right: bool, informative: bool) -> float:
    if not informative:
        return rng.random()
    return min(1.0, max(0.0, rng.gauss(*NOISY_SCORE[right])))
