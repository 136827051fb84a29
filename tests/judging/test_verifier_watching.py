"""Scores held against the rule: metrics by hand, and when a growing gap is told."""

from __future__ import annotations

import random

import pytest

from maporl_core.judging.verifier.watching import ScoreDrift, verifier_metrics
from maporl_core.types import Discussion, Message, Problem


def message(turn: int, score: float | None, correct: bool | None, answer: str | None = "1"):
    return Message(
        turn, 0, None, (), (), (), "text", "stop", answer=answer, correct=correct, score=score
    )


def discussion(*rows: Message) -> Discussion:
    return Discussion(Problem("p", "q", "1", "own", "own"), ("Ada",), tuple((m,) for m in rows))


def test_disagreement_gap_and_auroc_are_those_worked_out_by_hand() -> None:
    held = [
        discussion(message(0, 0.9, True), message(1, 0.6, False)),
        discussion(message(0, 0.2, False), message(1, 0.4, True)),
    ]
    found = verifier_metrics(held)
    assert found["verifier/disagreement"] == 0.5  # .6 is called right, .4 wrong
    assert found["verifier/gap"] == pytest.approx((0.9 + 0.6 + 0.2 + 0.4) / 4 - 0.5)
    assert found["verifier/gap/turn_1"] == pytest.approx(0.55 - 0.5)
    assert found["verifier/gap/turn_2"] == pytest.approx(0.5 - 0.5)
    assert found["verifier/auroc"] == 0.75  # of (.9, .4) over (.6, .2) three of four pairs


def test_what_has_no_answer_counts_as_the_zero_it_is_paid() -> None:
    found = verifier_metrics([discussion(message(0, 0.9, False, answer=None))])
    assert found["verifier/gap"] == 0.0
    assert found["verifier/disagreement"] == 0.0


def test_messages_without_verdict_or_score_say_nothing() -> None:
    assert verifier_metrics([discussion(message(0, 0.9, None), message(1, None, True))]) == {}


def test_one_kind_of_verdict_has_no_auroc() -> None:
    assert "verifier/auroc" not in verifier_metrics([discussion(message(0, 0.9, True))])


def warnings(gaps: list[float], limit: float = 0.1) -> list[int]:
    drift = ScoreDrift(limit)
    return [step for step, gap in enumerate(gaps, 1) if drift.add(gap) is not None]


def test_a_large_gap_that_does_not_grow_is_not_told() -> None:
    assert warnings([0.4] * 300) == []
    assert warnings([-0.4] * 300) == []


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.2])
def test_the_noise_of_small_steps_is_not_told(spread: float) -> None:
    told = 0
    for seed in range(40):
        rng = random.Random(seed)
        told += bool(warnings([0.05 + rng.gauss(0.0, spread) for _ in range(300)]))
    assert told <= 1


def test_a_gap_that_grows_is_told_once_per_limit() -> None:
    told = warnings([step * 0.005 for step in range(200)])
    assert len(told) == 9  # it ends at .995 less the lag of .02, and every further .1 is news
    assert told == sorted(told)
    assert 20 < told[0] < 30


def test_agents_that_find_what_it_likes_within_a_few_updates_are_told() -> None:
    rng = random.Random(1)
    gaps = [-0.04, 0.01, 0.06, 0.08, 0.09] + [0.09 + rng.gauss(0.0, 0.02) for _ in range(10)]
    assert 5 <= warnings(gaps)[0] <= 12


def test_a_falling_gap_is_never_told_and_a_second_rise_is_told_again() -> None:
    assert warnings([0.0] * 5 + [-0.01 * step for step in range(100)]) == []
    rise, fall = [0.01 * step for step in range(16)], [0.15 - 0.01 * step for step in range(16)]
    flat, low = [0.15] * 30, [0.0] * 30
    told = warnings([*low, *rise, *flat, *fall, *low, *rise, *flat])
    assert len(told) == 2
    assert told[0] < 30 + 16 + 30
    assert told[1] > 30 + 16 + 30 + 16 + 30


def test_the_warning_names_both_gaps() -> None:
    drift = ScoreDrift(0.1)
    for _ in range(20):
        drift.add(0.02)
    words = next(words for _ in range(50) if (words := drift.add(0.4)))
    assert "+0.02 then" in words
    assert "score that are wrong" in words


def test_a_gap_that_is_no_number_is_passed_over() -> None:
    drift = ScoreDrift(0.1)
    for gap in (0.1, float("nan"), 0.2):
        drift.add(gap)
    assert (drift.seen, drift.start, drift.growth) == (2, 0.1, pytest.approx(0.02))
