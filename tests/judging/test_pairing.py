"""Two evaluations question by question: gains, flips, and what chance would do."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.judging.pairing import bootstrap_T, mcnemar_p, pair

R, W = True, False


def test_accuracies_and_gain_are_means_over_agents_and_questions() -> None:
    before = {"a": [[R, W], [W, W]], "b": [[W, W], [R, W]]}
    after = {"a": [[R, R], [R, R]], "b": [[W, W], [R, R]]}
    found = pair(before, after)
    assert [i.mean for i in found.before_T] == [0.25, 0.25]
    assert [i.mean for i in found.after_T] == [0.5, 1.0]
    assert [i.mean for i in found.gain_T] == [0.25, 0.75]
    assert found.gain_T[1].low == pytest.approx(0.5)
    assert found.gain_T[1].high == pytest.approx(1.0)


def test_flips_count_teams_of_which_more_than_half_are_right() -> None:
    before = {"a": [[R, R, W]], "b": [[R, W, W]], "c": [[W, W, W]], "d": [[R, R, R]]}
    after = {"a": [[R, R, R]], "b": [[R, R, W]], "c": [[R, W, W]], "d": [[R, W, W]]}
    (flips,) = pair(before, after).flips_T
    assert (flips.both_right, flips.gained, flips.both_wrong, flips.lost) == (1, 1, 1, 1)
    assert flips.p == 1.0


def test_half_of_two_agents_is_not_a_majority() -> None:
    (flips,) = pair({"a": [[R, W]]}, {"a": [[R, R]]}).flips_T
    assert flips.gained == 1


def test_only_questions_of_both_sides_with_known_verdicts_are_paired() -> None:
    before = {"a": [[R]], "b": [[None]], "c": [[R]], "d": [[W]]}
    after = {"d": [[R]], "b": [[R]], "a": [[W]], "e": [[R]]}
    found = pair(before, after)
    assert found.problems == ("a", "d")
    assert (found.unpaired, found.unknown) == (2, 1)


def test_a_discussion_that_ended_early_counts_on_with_its_last_turn() -> None:
    found = pair({"a": [[R]]}, {"a": [[W], [W], [R]]})
    assert [i.mean for i in found.gain_T] == [-1.0, -1.0, 0.0]


def test_nothing_in_common_is_no_number_and_no_error() -> None:
    found = pair({"a": [[R]]}, {"b": [[R]]})
    assert found.problems == ()
    assert found.gain_T == ()
    assert found.flips_T == ()


@given(st.integers(0, 60), st.integers(0, 60))
def test_p_value_is_twice_the_smaller_binomial_tail(gained: int, lost: int) -> None:
    n, k = gained + lost, min(gained, lost)
    exact = min(1.0, 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n)
    assert mcnemar_p(gained, lost) == pytest.approx(exact, rel=1e-9)
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained)


def test_p_value_of_very_many_questions_is_a_number() -> None:
    assert mcnemar_p(600_000, 400_000) == 0.0
    assert mcnemar_p(500_000, 500_000) == 1.0
    assert 0.0 < mcnemar_p(50_200, 49_800) < 0.25


def test_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(100):
        drawn = (rng.random((100, 1)) < 0.7).astype(float)
        (interval,) = bootstrap_T(drawn, seed=trial)
        covered += interval.low <= 0.7 <= interval.high
    assert 87 <= covered <= 99
