"""The terms that a verification reward is made of, against the worked example and the parts."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from maporl_core.config.schema import RewardConfig
from maporl_core.errors import DataError
from maporl_core.judging.rewards.maporl import reward_discussion, score_terms
from maporl_core.types import Discussion, Message, Problem

EXAMPLE = [[0.2, 0.9], [0.8, 0.9], [1.0, 0.7]]
CONFIGS = [
    RewardConfig(horizon=horizon, share=share, gamma=gamma)
    for horizon, share, gamma in itertools.product(
        ("discounted", "current", "last"), ("team", "own"), (0.0, 0.3, 1.0)
    )
]


def scored(scores: list[list[float | None]], answer: str | None = "2") -> Discussion:
    rows = tuple(
        tuple(
            Message(t, a, None, (), (), (), "", "stop", answer, False, score)
            for a, score in enumerate(row)
        )
        for t, row in enumerate(scores)
    )
    names = tuple(f"agent{a}" for a in range(len(scores[0])))
    return Discussion(Problem("p", "?", None, "t", "train"), names, rows)


def test_terms_of_the_worked_example_are_the_fractions_written_out_by_hand() -> None:
    terms = score_terms(scored(EXAMPLE), 0, 0, RewardConfig(gamma=0.3))
    assert [(t.turn, t.agent, t.members) for t in terms] == [
        (0, 0, 1),
        (1, 0, 2),
        (1, 1, 2),
        (2, 0, 2),
        (2, 1, 2),
    ]
    assert [t.denominator for t in terms] == pytest.approx([1.39] * 5)
    by_hand = [0.2 / 1.39, 0.12 / 1.39, 0.135 / 1.39, 0.045 / 1.39, 0.0315 / 1.39]
    assert [t.paid for t in terms] == pytest.approx(by_hand)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.horizon}-{c.share}-{c.gamma}")
def test_terms_add_up_to_exactly_what_was_paid(config: RewardConfig) -> None:
    rng = random.Random(1)
    for turns, agents in ((1, 1), (2, 3), (4, 2)):
        held = scored([[rng.random() for _ in range(agents)] for _ in range(turns)])
        paid = reward_discussion(held, config)
        for t, a in itertools.product(range(turns), range(agents)):
            terms = score_terms(held, t, a, config)
            own = [term.paid for term in terms if (term.turn, term.agent) == (t, a)]
            rest = [term.paid for term in terms if (term.turn, term.agent) != (t, a)]
            assert (own or [0.0]) == [paid[t][a].own]
            assert math.fsum(rest) == paid[t][a].influence


def test_a_message_without_an_answer_counts_as_score_0_in_the_terms() -> None:
    terms = score_terms(scored(EXAMPLE, answer=None), 0, 0, RewardConfig())
    assert {term.score for term in terms} == {0.0}


def test_terms_of_an_unscored_discussion_are_refused() -> None:
    with pytest.raises(DataError, match=r"turn 2, agent 1 .* has no score"):
        score_terms(scored([[0.5], [None]]), 0, 0, RewardConfig())
