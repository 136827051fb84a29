"""What a set of discussions shows, computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from maporl_core.judging.metrics import (
    agreement_T,
    correctness_QTA,
    majority_right,
    step_metrics,
    transitions,
    votes_QT,
)
from maporl_core.judging.pairing import bootstrap_T
from maporl_core.types import Discussion, Message, Problem

PROBLEM = Problem("p", "q", "1", "t", "train")


def same(a, b, problem):
    return a == b


def message(t, a, answer, gold="1"):
    correct = None if gold is None else answer == gold
    return Message(
        t, a, None, (2,), (3, 4), (-1.0, -1.0), str(answer), "stop", answer, correct, 0.5
    )


def discussion(*turns, gold="1"):
    rows = tuple(
        tuple(message(t, a, answer, gold) for a, answer in enumerate(row))
        for t, row in enumerate(turns)
    )
    names = tuple("ABCDE"[: len(turns[0])])
    return Discussion(replace(PROBLEM, gold=gold), names, rows)


def test_majority_vote_with_equal_first_places_shares_by_chance():
    assert majority_right(discussion("112").messages[0], PROBLEM, same) == 1.0
    assert majority_right(discussion("122").messages[0], PROBLEM, same) == 0.0
    assert majority_right(discussion("12").messages[0], PROBLEM, same) == 0.5
    assert majority_right(discussion("123").messages[0], PROBLEM, same) == pytest.approx(1 / 3)


def test_no_answers_lose_every_vote():
    row = discussion([None, None]).messages[0]
    assert majority_right(row, PROBLEM, same) == 0.0
    assert majority_right(discussion([None, None, "1"]).messages[0], PROBLEM, same) == 1.0


def test_a_discussion_that_stopped_early_counts_on_in_later_turns():
    held = [discussion("11"), discussion("12", "12", "22")]
    table = correctness_QTA(held, 3)
    assert table[0].tolist() == [[1, 1]] * 3
    assert table[1].tolist() == [[1, 0], [1, 0], [0, 0]]
    assert votes_QT(held, 3, same).tolist() == [[1, 1, 1], [0.5, 0.5, 0]]
    assert agreement_T(held, 3, same) == [0.5, 0.5, 1.0]


def test_transitions_are_named_by_what_the_others_were():
    held = [discussion("122", "111", "212")]
    assert transitions(held) == {
        "right→right | others right": 1,
        "right→right | others wrong": 1,
        "right→wrong | others right": 2,
        "wrong→right | others tied": 2,
    }


def test_one_agent_has_no_others():
    assert transitions([discussion("2", "1")]) == {"wrong→right | no others": 1}


def test_problems_without_gold_count_in_no_accuracy():
    metrics = step_metrics([discussion("11", "12", gold=None)], 2, same)
    assert not any(key.startswith(("accuracy", "majority", "oracle")) for key in metrics)
    assert metrics["agreement/turn_1"] == 1.0


def test_step_metrics_hold_accuracy_per_turn_and_agent_votes_and_oracle():
    metrics = step_metrics([discussion("12", "11"), discussion("22", "12")], 2, same)
    assert metrics["accuracy/turn_1"] == 0.25
    assert metrics["accuracy/turn_2"] == 0.75
    assert metrics["accuracy/A/turn_2"] == 1.0
    assert metrics["oracle/turn_1"] == 0.5
    assert metrics["majority/turn_2"] == 0.75
    assert metrics["transitions/wrong_to_right/others_right"] == 1.0
    assert metrics["messages/length"] == 2.0
    assert all(math.isfinite(value) for value in metrics.values())


def test_bootstrap_interval_holds_the_mean_and_is_as_wide_as_theory_says():
    import numpy as np

    values = np.random.default_rng(0).random((400, 2)) < 0.3
    low_high = bootstrap_T(values.astype(float), seed=1)
    for t, interval in enumerate(low_high):
        p = values[:, t].mean()
        assert interval.mean == pytest.approx(p)
        half = 1.96 * math.sqrt(p * (1 - p) / 400)
        assert interval.high - interval.mean == pytest.approx(half, rel=0.2)
        assert interval.mean - interval.low == pytest.approx(half, rel=0.2)


def test_bootstrap_of_nothing_is_not_a_number_and_no_error():
    import numpy as np

    assert math.isnan(bootstrap_T(np.empty((0, 3)), 0)[2].mean)
