"""Figures of scores, against values worked out by hand or by counting pairs."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from maporl_core.judging.verifier.calibration import (
    accuracy,
    auroc,
    bins_of_equal_mass,
    bins_of_equal_width,
    brier,
    expected_calibration_error,
    fit_temperature,
    log_loss,
    sigmoid,
    within_auroc,
)
from maporl_core.judging.verifier.data import Example
from maporl_core.judging.verifier.report import ablation, measure


def pairs_auroc(scores: list[float], labels: list[bool]) -> float:
    """Every pair of a right and a wrong one, counted."""
    wins = [
        (a > b) + 0.5 * (a == b)
        for (a, x), (b, y) in itertools.product(zip(scores, labels, strict=True), repeat=2)
        if x and not y
    ]
    return sum(wins) / len(wins)


def test_auroc_counts_equal_scores_one_half() -> None:
    # Pairs: .8>.5, .8>.2, .5=.5, .5>.2 → 3.5 of 4.
    assert auroc([0.8, 0.5, 0.5, 0.2], [True, True, False, False]) == pytest.approx(3.5 / 4)


@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_the_share_of_pairs_in_order(seed: int) -> None:
    rng = random.Random(seed)
    scores = [rng.randrange(6) / 5 for _ in range(40)]
    labels = [rng.random() < 0.4 for _ in range(40)]
    assert auroc(scores, labels) == pytest.approx(pairs_auroc(scores, labels), abs=1e-12)


def test_auroc_of_one_class_does_not_exist() -> None:
    assert math.isnan(auroc([0.1, 0.9], [True, True]))


def test_auroc_within_questions_is_a_mean_over_questions_with_both() -> None:
    scores = [0.9, 0.1, 0.2, 0.8, 0.3, 0.99]
    labels = [True, False, True, False, True, True]
    found = within_auroc(scores, labels, ["a", "a", "b", "b", "c", "c"])
    assert found.auroc == pytest.approx(0.5)  # a: 1, b: 0; c has only right answers
    assert found.questions == 2
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_score_that_only_knows_the_question_is_worth_nothing_within_questions() -> None:
    # Easy question scored .9 (3 of 4 right), hard one .1 (1 of 4 right).
    scores, labels = [0.9] * 4 + [0.1] * 4, [True] * 3 + [False] + [True] + [False] * 3
    assert auroc(scores, labels) == pytest.approx((3 * 3 + 0.5 * (3 + 3)) / 16)
    assert within_auroc(scores, labels, ["easy"] * 4 + ["hard"] * 4).auroc == 0.5


def test_brier_accuracy_and_log_loss_by_hand() -> None:
    assert brier([0.9, 0.4], [True, False]) == pytest.approx((0.01 + 0.16) / 2)
    assert accuracy([0.9, 0.4, 0.5, 0.3], [True, False, True, True]) == 0.75
    assert log_loss([0.0, math.log(3)], [True, False]) == pytest.approx(
        (math.log(2) + math.log(4)) / 2
    )
    assert sigmoid([-1000.0, 0.0, 1000.0]).tolist() == [0.0, 0.5, 1.0]


def test_bins_of_equal_width_hold_both_ends() -> None:
    found = bins_of_equal_width([0.0, 0.05, 0.1, 1.0], [False, True, True, True])
    assert [(b.low, b.high, b.count) for b in found] == [
        (0.0, 0.1, 2),
        (0.1, 0.2, 1),
        (0.9, 1.0, 1),
    ]
    assert found[0].share_right == 0.5


def test_bins_of_equal_mass_never_part_equal_scores() -> None:
    found = bins_of_equal_mass([0.1, 0.5, 0.5, 0.5, 0.5, 0.9], [False] * 3 + [True] * 3, bins=3)
    assert [b.count for b in found] == [5, 1]


def test_calibration_error_weighs_bins_by_their_messages() -> None:
    # .05 in a bin of three, right 1 of 3; .95 in a bin of one, right.
    bins = bins_of_equal_width([0.05] * 3 + [0.95], [True, False, False, True])
    expected = 0.75 * abs(0.05 - 1 / 3) + 0.25 * 0.05
    assert expected_calibration_error(bins) == pytest.approx(expected)


@pytest.mark.parametrize("true", [0.4, 1.0, 3.0])
def test_temperature_is_found_again(true: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 40_000)
    labels = rng.random(40_000) < sigmoid(z)
    assert fit_temperature(z * true, labels) == pytest.approx(true, rel=0.05)


def test_temperature_has_the_least_loss_of_its_neighbours() -> None:
    rng = np.random.default_rng(1)
    z, labels = rng.normal(-1, 1, 200), rng.random(200) < 0.5
    z = z + 2 * labels
    best = fit_temperature(z, labels)
    losses = [log_loss(z / t, labels) for t in (best * 0.98, best, best * 1.02)]
    assert losses[1] == min(losses)


def test_temperature_of_hopeless_or_perfect_scores_stays_in_bounds() -> None:
    assert fit_temperature([3.0, -3.0], [False, True]) == 20.0
    assert fit_temperature([3.0, -3.0], [True, False]) == 0.05
    assert fit_temperature([], []) == 1.0


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        auroc([0.1, math.nan], [True, False])


def example(question: str, label: bool, difficulty: float) -> Example:
    return Example(question, question, "text", label, "test", "1", difficulty)


def test_report_is_apart_by_difficulty_and_holds_no_nan() -> None:
    rows = [example("a", True, 0.2), example("a", False, 0.2), example("b", True, 0.9)]
    found = measure(np.array([2.0, -2.0, 1.0]), rows, 2.0)
    assert found["auroc"] == 1.0
    assert found["by_difficulty"]["0.00-0.25"]["auroc_within_questions"] == 1.0
    assert found["by_difficulty"]["0.75-1.00"]["auroc"] is None
    assert found["brier"] == pytest.approx(np.mean((sigmoid([1.0, -1.0, 0.5]) - [1, 0, 1]) ** 2))


def test_a_constant_per_question_has_one_half_within_questions() -> None:
    rows = [example("a", True, 0.5), example("a", False, 0.5)]
    assert ablation(np.array([1.3, 1.3]), rows) == {"auroc": 0.5, "auroc_within_questions": 0.5}
