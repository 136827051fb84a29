"""Naive discussions to learn from: agents that compute right and choose readings blindly.

In: a random state and the shape of a discussion.  Out: one agent's side of it as texts (user and
agent in turn), ready for a tokenizer.  Turn 1 picks a reading at random.  Every later turn keeps
the own reading, takes over that of another agent, or picks afresh, with equal odds; scores are
shown and not heeded (``score_leaning`` 0), so accuracy stays at one half over the turns.
Neighbours: ``build`` trains on these, ``gates`` measures with the same prompts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from maporl_core.pocket.tokenizer import AGENT_NAMES
from maporl_core.prompts import STYLES, Seen
from maporl_core.tasks.pocket import Numbers, draw_numbers, draw_question

# Scores of the noisy verifier: (mean, standard deviation) for wrong and for right messages.
NOISY_SCORE = ((0.30, 0.18), (0.72, 0.18))
_UNINFORMATIVE = 0.2  # share of discussions whose scores say nothing at all


@dataclass(frozen=True, slots=True)
class Shape:
    """``agents`` and ``turns`` of a discussion; without ``feedback`` no scores are shown."""

    agents: int
    turns: int
    feedback: bool = True


@dataclass(frozen=True, slots=True)
class Lesson:
    """One agent's side: ``user[t]`` is what it reads, ``agent[t]`` what it answers in turn t."""

    user: tuple[str, ...]
    agent: tuple[str, ...]


def draw_shape(rng: random.Random) -> Shape:
    """Mostly the default of three agents and three turns, with every A and T from 1 to 4."""
    return Shape(
        agents=rng.choices((1, 2, 3, 4), (1, 2, 5, 2))[0],
        turns=rng.choices((1, 2, 3, 4), (6, 2, 5, 1))[0],
        feedback=rng.random() < 0.9,
    )


def draw_lesson(rng: random.Random, shape: Shape, score_leaning: float = 0.0) -> Lesson:
    """``score_leaning`` is the share of later messages that follow the best score."""
    numbers = draw_numbers(rng, "lessons")
    names = rng.sample(AGENT_NAMES, shape.agents)
    true = rng.randrange(2)
    informative = rng.random() >= _UNINFORMATIVE
    user, agent = [draw_question(rng, numbers)], []
    readings = [rng.randrange(2) for _ in names]
    for turn in range(shape.turns):
        if turn:
            scores = [_draw_score(rng, reading == true, informative) for reading in readings]
            seen = [
                Seen(name, numbers.worked(reading), score if shape.feedback else None)
                for name, reading, score in zip(names, readings, scores, strict=True)
            ]
            user.append(STYLES["compact"].later(seen[0], seen[1:]))
            leaning = score_leaning if shape.feedback else 0.0
            readings = [
                _next_reading(rng, readings, own, scores, leaning) for own in range(len(names))
            ]
        agent.append(numbers.worked(readings[0]))
    return Lesson(tuple(user), tuple(agent))


def _draw_score(rng: random.Random, right: bool, informative: bool) -> float:
    if not informative:
        return rng.random()
    return min(1.0, max(0.0, rng.gauss(*NOISY_SCORE[right])))


def _next_reading(
    rng: random.Random, readings: list[int], own: int, scores: list[float], leaning: float
) -> int:
    """Reading of agent ``own`` in the next turn, from those of the turn before."""
    if leaning and rng.random() < leaning:
        return readings[max(range(len(scores)), key=scores.__getitem__)]
    others = readings[:own] + readings[own + 1 :]
    way = rng.randrange(3)
    if way == 0:
        return readings[own]
    if way == 1 and others:
        return rng.choice(others)
    return rng.randrange(2)


__all__ = ["Lesson", "Numbers", "Shape", "draw_lesson", "draw_shape"]
