"""Collaboration incentives: both tables row by row, ties, and a reference that looks rows up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.config.schema import RewardConfig
from maporl_core.errors import DataError
from maporl_core.judging.rewards.maporl import (
    ShapingRow,
    count_shaping,
    reward_discussion,
    shaping_events,
)
from maporl_core.types import Discussion, Message, Problem

PROBLEM = Problem("p1", "1 + 1?", "2", "test", "train")
NAMES = ("critical", "persuaded", "constructive", "persuasive")
COEFFICIENTS = {"critical": 2.0, "persuaded": 3.0, "constructive": 5.0, "persuasive": 7.0}
R, W = True, False

# Self-revision of method.md 2.2: (own before, own now, others before) → row and sign.
REVISION = {
    (W, R, "wrong"): ("critical", +1),
    (R, W, "right"): ("critical", -1),
    (W, R, "right"): ("persuaded", +1),
    (R, W, "wrong"): ("persuaded", -1),
}
# Influence: (others now, others next, own now) → row and sign.
INFLUENCE = {
    ("wrong", "right", W): ("constructive", +1),
    ("right", "wrong", R): ("constructive", -1),
    ("wrong", "right", R): ("persuasive", +1),
    ("right", "wrong", W): ("persuasive", -1),
}


def discussion(correct, scores=None):
    """Tables are [T][A]; without scores a right message has 1 and a wrong one 0."""
    rows = tuple(
        tuple(
            Message(
                t,
                a,
                "A",
                (1,),
                (2,),
                (-0.5,),
                "2",
                "stop",
                "2",
                correct=c,
                score=float(bool(c)) if scores is None else scores[t][a],
            )
            for a, c in enumerate(row)
        )
        for t, row in enumerate(correct)
    )
    return Discussion(PROBLEM, tuple(f"agent{a}" for a in range(len(correct[0]))), rows)


def shaping(correct, **config):
    """What the incentives pay, by name, [T][A]."""
    rewards = reward_discussion(discussion(correct), RewardConfig(**{**COEFFICIENTS, **config}))
    return [[{name: getattr(p, name) for name in NAMES} for p in row] for row in rewards]


def only(name, amount):
    return {other: amount if other == name else 0.0 for other in NAMES}


@pytest.mark.parametrize("agent", [0, -1])
@pytest.mark.parametrize("turns", [2, 3])
@pytest.mark.parametrize("agents", [2, 3])
@pytest.mark.parametrize(("row", "pays"), list(REVISION.items()))
def test_each_self_revision_row_pays_its_coefficient_with_its_sign(row, pays, agents, turns, agent):
    before, now, verdict = row
    side = verdict == "right"
    correct = [[side] * agents for _ in range(turns)]  # the others never move
    agent = range(agents)[agent]
    for t in range(turns):
        correct[t][agent] = now if t == turns - 1 else before
    paid = shaping(correct)[turns - 1][agent]
    name, sign = pays
    assert paid == only(name, sign * COEFFICIENTS[name])


@pytest.mark.parametrize("agent", [0, -1])
@pytest.mark.parametrize("turns", [2, 3])
@pytest.mark.parametrize("agents", [2, 3])
@pytest.mark.parametrize(("row", "pays"), list(INFLUENCE.items()))
def test_each_influence_row_pays_its_coefficient_with_its_sign(row, pays, agents, turns, agent):
    now, after, own = row
    correct = [[now == "right"] * agents for _ in range(turns)]
    correct[-1] = [after == "right"] * agents
    agent = range(agents)[agent]
    for t in range(turns):
        correct[t][agent] = own  # it never changes its mind, so no self-revision
    paid = shaping(correct)[turns - 2][agent]
    name, sign = pays
    assert paid == only(name, sign * COEFFICIENTS[name])
    assert shaping(correct)[turns - 1][agent] == only("none", 0.0)  # nothing after the last turn


def test_one_discussion_with_every_kind_of_move_by_hand():
    # Agent 0: right, right, wrong.  Agent 1: wrong, right, right.
    paid = shaping([[R, W], [R, R], [W, R]])
    assert paid[0][0] == only("persuasive", 7.0)  # its peer came over to right
    assert paid[0][1] == only("none", 0.0)  # its peer stayed right
    assert paid[1][0] == only("none", 0.0)
    assert paid[1][1] == {  # came over to a right peer, which then broke away to wrong
        "critical": 0.0,
        "persuaded": 3.0,
        "constructive": -5.0,
        "persuasive": 0.0,
    }
    assert paid[2][0] == only("critical", -2.0)  # left a right peer
    assert paid[2][1] == only("none", 0.0)


def majority_reference(correct, t, a):
    """Rows that fire for message (t, a), by looking them up."""

    def verdict(turn):
        others = [c for b, c in enumerate(correct[turn]) if b != a]
        right, wrong = others.count(True), others.count(False)
        if right * 2 > len(others):
            return "right"
        return "wrong" if wrong * 2 > len(others) else "tied"

    paid = dict.fromkeys(NAMES, 0.0)
    if len(correct[0]) == 1:
        return paid
    if t > 0:
        name, sign = REVISION.get(
            (correct[t - 1][a], correct[t][a], verdict(t - 1)), ("critical", 0)
        )
        paid[name] += sign
    if t < len(correct) - 1:
        name, sign = INFLUENCE.get((verdict(t), verdict(t + 1), correct[t][a]), ("constructive", 0))
        paid[name] += sign
    return paid


def fraction_reference(correct, t, a):
    paid = dict.fromkeys(NAMES, 0.0)
    others = len(correct[0]) - 1
    if others == 0:
        return paid

    def right_share(turn):
        return Fraction(sum(c for b, c in enumerate(correct[turn]) if b != a), others)

    if t > 0 and correct[t - 1][a] != correct[t][a]:
        share = right_share(t - 1)
        if correct[t][a]:
            paid["critical"], paid["persuaded"] = float(1 - share), float(share)
        else:
            paid["critical"], paid["persuaded"] = -float(share), -float(1 - share)
    if t < len(correct) - 1:
        change = right_share(t + 1) - right_share(t)
        if change > 0:
            paid["persuasive" if correct[t][a] else "constructive"] = float(change)
        elif change < 0:
            paid["constructive" if correct[t][a] else "persuasive"] = float(change)
    return paid


@st.composite
def correctness(draw):
    agents = draw(st.sampled_from([1, 2, 3, 5]))
    turns = draw(st.sampled_from([1, 2, 3]))
    row = st.lists(st.booleans(), min_size=agents, max_size=agents)
    return draw(st.lists(row, min_size=turns, max_size=turns))


@pytest.mark.parametrize(
    ("tie", "reference"), [("majority", majority_reference), ("fraction", fraction_reference)]
)
@settings(deadline=None, max_examples=300)
@given(correct=correctness())
def test_incentives_of_any_discussion_follow_the_tables(tie, reference, correct):
    paid = shaping(correct, tie=tie)
    for t, row in enumerate(correct):
        for a in range(len(row)):
            expected = {k: COEFFICIENTS[k] * w for k, w in reference(correct, t, a).items()}
            assert paid[t][a] == pytest.approx(expected, abs=1e-12), (t, a)


@settings(deadline=None, max_examples=100)
@given(correct=correctness(), tie=st.sampled_from(["majority", "fraction"]))
def test_zero_coefficients_pay_exactly_nothing(correct, tie):
    for row in shaping(correct, tie=tie, **dict.fromkeys(NAMES, 0.0)):
        for paid in row:
            assert set(map(str, paid.values())) == {"0.0"}  # not even minus zero


@settings(deadline=None, max_examples=100)
@given(correct=correctness())
def test_both_tie_modes_agree_when_the_others_are_of_one_mind(correct):
    correct = [[row[0], *[row[-1]] * (len(row) - 1)] for row in correct]
    for majority, fraction in zip(shaping(correct), shaping(correct, tie="fraction"), strict=True):
        assert majority[0] == fraction[0]


def test_split_of_the_others_pays_nothing_but_is_counted():
    # Agent 0 turns right while agents 1 and 2 are split; then they agree on right.
    correct = [[W, R, W], [R, R, R]]
    assert shaping(correct)[1][0] == only("none", 0.0)
    assert shaping(correct)[0][0] == only("none", 0.0)
    events = shaping_events(discussion(correct))
    assert events[1][0].revision_tied
    assert events[0][0].influence_tied
    assert (events[0][0].others, events[0][0].others_after) == ("tied", "right")
    # Agents 0 and 2 each turned right beside a split; agent 1 saw both come over to it.
    fired = {key: n for key, n in count_shaping(events).items() if n}
    assert fired == {"revision_tied": 2, "influence_tied": 2, "persuasive+": 1}


def test_split_of_the_others_pays_by_fraction():
    correct = [[W, R, W], [R, R, R]]
    paid = shaping(correct, tie="fraction")
    assert paid[1][0] == {**only("none", 0.0), "critical": 1.0, "persuaded": 1.5}
    assert paid[0][0] == only("constructive", 2.5)
    assert count_shaping(shaping_events(discussion(correct), "fraction"))["revision_tied"] == 0


def test_others_that_stay_split_are_not_counted_as_a_tie():
    event = shaping_events(discussion([[R, R, W], [R, R, W]]))[0][0]
    assert event.rows == ()
    assert not event.influence_tied


def test_influence_fires_in_a_discussion_of_two_turns_and_pays_for_a_peer_that_turns_right():
    paid = shaping([[R, W], [R, R]])
    assert paid[0][0]["persuasive"] == 7.0


def test_early_stop_is_not_read_as_the_others_becoming_wrong():
    stopped = discussion([[R, R]])
    stopped = Discussion(stopped.problem, stopped.agents, stopped.messages, stopped_early=True)
    (row,) = shaping_events(stopped)
    assert all(event.rows == () and event.others_after is None for event in row)


def test_lone_agent_gets_no_incentives_and_has_no_verdict_of_others():
    for (event,) in shaping_events(discussion([[W], [R]])):
        assert event.rows == ()
        assert event.others is None


def test_without_gold_answers_scores_from_one_half_count_as_right():
    scores = [[0.49, 0.5], [0.5, 0.9]]
    events = shaping_events(discussion([[None, None], [None, None]], scores))
    assert [event.right for event in events[0]] == [False, True]
    assert events[1][0].rows == (ShapingRow("persuaded", 1.0),)


def test_gold_verdict_goes_before_the_score():
    event = shaping_events(discussion([[W, R], [R, R]], [[0.9, 0.1], [0.1, 0.1]]))[1][0]
    assert event.rows == (ShapingRow("persuaded", 1.0),)


def test_message_with_neither_verdict_nor_score_is_refused():
    with pytest.raises(DataError, match="score the discussion with a verifier first"):
        shaping_events(discussion([[None]], [[None]]))


def test_counts_name_every_row_even_when_nothing_happened():
    counts = count_shaping(shaping_events(discussion([[R, R]])))
    assert counts == {
        **{f"{name}{sign}": 0 for name in NAMES for sign in "+-"},
        "revision_tied": 0,
        "influence_tied": 0,
    }
