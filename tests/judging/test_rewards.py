"""Verification reward and penalties: every horizon and share, against formulas written out here."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pay_samples import NAMES, published

from maporl_core.config.schema import RewardConfig
from maporl_core.errors import DataError
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.types import Discussion, Message, Problem

PROBLEM = Problem("p1", "1 + 1?", "2", "test", "train")
HORIZONS = ("discounted", "current", "last")
SHARES = ("team", "own")
NO_PENALTY = {"format": 0.0, "unfinished": 0.0}


def message(turn, agent, score, correct=None, answer="2", finish="stop"):
    correct = score >= 0.5 if correct is None and score is not None else correct
    return Message(
        turn, agent, "A", (1,), (2,), (-0.5,), "2", finish, answer, correct=correct, score=score
    )


def discussion(scores, correct=None, answers=None, finishes=None):
    """Tables are [T][A]."""
    rows = tuple(
        tuple(
            message(
                t,
                a,
                score,
                None if correct is None else correct[t][a],
                "2" if answers is None else answers[t][a],
                "stop" if finishes is None else finishes[t][a],
            )
            for a, score in enumerate(row)
        )
        for t, row in enumerate(scores)
    )
    return Discussion(PROBLEM, tuple(f"agent{a}" for a in range(len(scores[0]))), rows)


def totals(rewards):
    return np.array([[parts.total for parts in row] for row in rewards])


def written_out(v, horizon, share, gamma):
    """R of method.md section 2.1, [T, A], in plain NumPy, straight from the formulas."""
    turns, agents = v.shape
    out = np.zeros_like(v)
    for t, a in itertools.product(range(turns), range(agents)):
        if horizon == "last":
            out[t, a] = v[-1].mean() if share == "team" else v[-1, a]
        elif horizon == "current":
            out[t, a] = v[t].mean() if share == "team" else v[t, a]
        else:
            top, bottom = v[t, a], 1.0
            for u in range(t + 1, turns):
                top += gamma ** (u - t) * (v[u].mean() if share == "team" else v[u, a])
                bottom += gamma ** (u - t)
            out[t, a] = top / bottom
    return out


def score_tables():
    shape = st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 3, 5]))
    return shape.flatmap(
        lambda ta: st.lists(
            st.lists(st.floats(0, 1), min_size=ta[1], max_size=ta[1]),
            min_size=ta[0],
            max_size=ta[0],
        )
    )


def configs():
    coefficient = st.floats(0, 3)
    return st.builds(
        RewardConfig,
        horizon=st.sampled_from(HORIZONS),
        share=st.sampled_from(SHARES),
        gamma=st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
        critical=coefficient,
        persuaded=coefficient,
        constructive=coefficient,
        persuasive=coefficient,
        tie=st.sampled_from(["majority", "fraction"]),
        format=st.floats(-1, 0),
        unfinished=st.floats(-1, 0),
    )


def test_worked_example_of_two_agents_and_three_turns():
    rewards = reward_discussion(
        discussion([[0.2, 0.9], [0.8, 0.9], [1.0, 0.7]]), RewardConfig(gamma=0.3)
    )
    assert rewards[0][0].own == pytest.approx(0.2 / 1.39, abs=1e-12)
    assert rewards[0][0].influence == pytest.approx((0.3 * 0.85 + 0.09 * 0.85) / 1.39, abs=1e-12)
    assert rewards[0][0].total == pytest.approx(0.382374, abs=1e-6)
    assert rewards[2][1].total == pytest.approx(0.7, abs=1e-12)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("horizon", HORIZONS)
@settings(deadline=None, max_examples=60)
@given(scores=score_tables(), gamma=st.floats(0, 1))
def test_each_horizon_and_share_follows_its_formula(horizon, share, scores, gamma):
    config = RewardConfig(horizon=horizon, share=share, gamma=gamma, **NO_PENALTY)
    rewards = reward_discussion(discussion(scores), config)
    expected = written_out(np.array(scores), horizon, share, gamma)
    np.testing.assert_allclose(totals(rewards), expected, rtol=0, atol=1e-12)


def test_own_part_is_the_message_itself_and_influence_the_rest():
    v = [[0.2, 0.6], [0.4, 1.0]]
    expected = {
        ("discounted", "team"): [(0.2 / 1.5, 0.5 * 0.7 / 1.5), (0.4, 0.0)],
        ("discounted", "own"): [(0.2 / 1.5, 0.5 * 0.4 / 1.5), (0.4, 0.0)],
        ("current", "team"): [(0.1, 0.3), (0.2, 0.5)],
        ("current", "own"): [(0.2, 0.0), (0.4, 0.0)],
        ("last", "team"): [(0.0, 0.7), (0.2, 0.5)],
        ("last", "own"): [(0.0, 0.4), (0.4, 0.0)],
    }
    for (horizon, share), by_turn in expected.items():
        config = RewardConfig(horizon=horizon, share=share, gamma=0.5)
        rewards = reward_discussion(discussion(v), config)
        found = [(row[0].own, row[0].influence) for row in rewards]
        np.testing.assert_allclose(found, by_turn, atol=1e-12, err_msg=f"{horizon} {share}")


@settings(deadline=None, max_examples=60)
@given(scores=score_tables(), share=st.sampled_from(SHARES))
def test_gamma_zero_pays_the_own_score_and_no_influence(scores, share):
    rewards = reward_discussion(discussion(scores), RewardConfig(gamma=0.0, share=share))
    assert [[parts.own for parts in row] for row in rewards] == scores
    assert all(parts.influence == 0.0 for row in rewards for parts in row)


def test_gamma_one_weighs_all_later_turns_alike():
    rewards = reward_discussion(
        discussion([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]), RewardConfig(gamma=1.0)
    )
    np.testing.assert_allclose(totals(rewards)[:, 0], [1.0 / 3, 1.0 / 2, 1.0])


@settings(deadline=None, max_examples=100)
@given(scores=score_tables(), config=configs(), data=st.data())
def test_total_is_the_sum_of_the_stored_parts(scores, config, data):
    turns, agents = len(scores), len(scores[0])
    answers = data.draw(tables(turns, agents, st.sampled_from([None, "2"])))
    finishes = data.draw(tables(turns, agents, st.sampled_from(["stop", "length"])))
    held = discussion(scores, answers=answers, finishes=finishes)
    for row in reward_discussion(held, config):
        for parts in row:
            assert parts.total == pytest.approx(sum(parts.parts.values()), abs=1e-6)
            assert parts.format <= 0
            assert parts.unfinished <= 0


def tables(turns, agents, cell):
    return st.lists(
        st.lists(cell, min_size=agents, max_size=agents), min_size=turns, max_size=turns
    )


@settings(deadline=None, max_examples=100)
@given(scores=score_tables(), config=configs(), data=st.data())
def test_permuting_agents_permutes_the_rewards(scores, config, data):
    agents = len(scores[0])
    order = data.draw(st.permutations(range(agents)))
    correct = data.draw(tables(len(scores), agents, st.booleans()))
    plain = reward_discussion(discussion(scores, correct), config)
    moved = reward_discussion(
        discussion(
            [[row[a] for a in order] for row in scores],
            [[row[a] for a in order] for row in correct],
        ),
        config,
    )
    for before, after in zip(plain, moved, strict=True):
        for place, a in enumerate(order):
            for part in NAMES:
                assert getattr(after[place], part) == pytest.approx(
                    getattr(before[a], part), abs=1e-12
                )


@settings(deadline=None, max_examples=60)
@given(scores=score_tables(), horizon=st.sampled_from(HORIZONS), share=st.sampled_from(SHARES))
def test_equal_scores_everywhere_pay_that_score(scores, horizon, share):
    level = scores[0][0]
    flat = [[level] * len(row) for row in scores]
    config = RewardConfig(horizon=horizon, share=share, **NO_PENALTY)
    np.testing.assert_allclose(totals(reward_discussion(discussion(flat), config)), level)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_early_stop_pays_like_a_discussion_of_that_many_turns(horizon):
    v = [[0.2, 0.9], [0.8, 0.9]]
    stopped = discussion(v)
    stopped = Discussion(stopped.problem, stopped.agents, stopped.messages, stopped_early=True)
    config = RewardConfig(horizon=horizon, gamma=0.3)
    rewards = reward_discussion(stopped, config)
    assert rewards == reward_discussion(discussion(v), config)
    assert len(rewards) == 2
    if horizon == "discounted":
        assert rewards[0][0].total == pytest.approx((0.2 + 0.3 * 0.85) / 1.3, abs=1e-12)


def test_penalties_are_paid_once_by_that_message_only():
    v = [[0.0, 0.5], [0.5, 0.5]]
    held = discussion(
        v,
        correct=[[False, False], [False, False]],
        answers=[[None, "2"], ["2", "2"]],
        finishes=[["stop", "stop"], ["length", "stop"]],
    )
    config = RewardConfig(format=-0.3, unfinished=-0.2)
    penalised = reward_discussion(held, config)
    clean = reward_discussion(held, RewardConfig(**NO_PENALTY))
    difference = totals(penalised) - totals(clean)
    np.testing.assert_allclose(difference, [[-0.3, 0.0], [-0.2, 0.0]], atol=1e-12)
    assert penalised[0][0].format == -0.3
    assert penalised[1][0].unfinished == -0.2


def test_single_agent_and_single_turn_is_just_the_score():
    (row,) = reward_discussion(discussion([[0.25]]), RewardConfig(critical=2.0, constructive=2.0))
    assert row == (published(own=0.25),)


def test_message_without_a_score_is_refused_with_its_place():
    held = discussion([[0.2, 0.4]])
    bare = message(0, 1, None, correct=True)
    held = Discussion(held.problem, held.agents, ((held.messages[0][0], bare),))
    with pytest.raises(DataError, match=r"turn 1, agent 2 on problem 'p1' has no score"):
        reward_discussion(held, RewardConfig())


def test_score_that_is_not_a_number_stays_visible_in_the_reward():
    rewards = reward_discussion(
        discussion([[float("nan"), 0.5]], correct=[[False, True]]), RewardConfig()
    )
    assert np.isnan(rewards[0][0].total)
    assert rewards[0][1].total == 0.5
