"""Pay where not everybody speaks in every turn, or places hold candidates; and why it was paid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.maporl import Maporl, shaping_events
from maporl_core.types import Discussion, Message, Place, Problem

PROBLEM = Problem("p", "1 + 1?", "2", "test", "train")
PAYING = RewardConfig(critical=2.0, persuaded=3.0, constructive=5.0, persuasive=7.0)


def said(turn: int, agent: int, right: bool, score: float, branch: int = 0) -> Message:
    answer = "2" if right else "3"
    return Message(
        *(turn, agent, "p", (1,), (2,), (-0.5,), answer, "stop", answer, right, score),
        branch=branch,
    )


def held(*turns: tuple[Message, ...], agents: int = 3) -> Discussion:
    return Discussion(PROBLEM, tuple("ABCDEFG"[:agents]), turns)


# A and B answer, C judges, A answers again: γ = 0.3.
SOLVERS_AND_JUDGE = held(
    (said(0, 0, False, 0.2), said(0, 1, True, 0.6)),
    (said(1, 2, True, 0.5),),
    (said(2, 0, True, 0.8),),
)


def test_a_turn_counts_with_the_mean_over_those_who_spoke_in_it() -> None:
    paid = Maporl(RewardConfig(gamma=0.3)).pay([SOLVERS_AND_JUDGE])
    assert list(paid) == [Place(0, 0, 0), Place(0, 0, 1), Place(0, 1, 2), Place(0, 2, 0)]
    assert paid[Place(0, 0, 0)].parts["own"] == pytest.approx(0.2 / 1.39)
    later = (0.3 * 0.5 + 0.09 * 0.8) / 1.39
    assert paid[Place(0, 0, 0)].parts["influence"] == pytest.approx(later)
    assert paid[Place(0, 0, 1)].total == pytest.approx(0.6 / 1.39 + later)
    assert paid[Place(0, 1, 2)].total == pytest.approx((0.5 + 0.3 * 0.8) / 1.3)
    assert paid[Place(0, 2, 0)].total == pytest.approx(0.8)


def test_of_ones_own_scores_those_of_the_turns_in_which_one_spoke_count() -> None:
    scheme = Maporl(RewardConfig(gamma=0.3, share="own"))
    paid = scheme.pay([SOLVERS_AND_JUDGE])
    assert paid[Place(0, 0, 0)].total == pytest.approx((0.2 + 0.09 * 0.8) / 1.09)
    assert paid[Place(0, 0, 1)].total == pytest.approx(0.6)
    last = Maporl(RewardConfig(horizon="last", share="own")).pay([SOLVERS_AND_JUDGE])
    assert last[Place(0, 0, 1)].total == pytest.approx(0.6)  # its own last one
    assert last[Place(0, 0, 0)].total == pytest.approx(0.8)


def test_an_agent_stands_at_what_it_last_said() -> None:
    events = shaping_events(SOLVERS_AND_JUDGE)
    first, second, judge, again = (event for row in events for event in row)
    assert [row.name for row in again.rows] == ["persuaded"]  # B and C stood at right
    assert (again.right_before, again.others_before) == (False, "right")
    assert judge.right_before is None  # speaks for the first time
    assert (judge.others, judge.others_after) == ("tied", "right")
    assert judge.influence_tied
    assert first.rows == second.rows == ()  # nobody around them moved in the next turn


@pytest.mark.parametrize("agents", [1, 7])
def test_one_agent_and_seven_are_paid_by_place(agents: int) -> None:
    turns = tuple(tuple(said(t, a, True, 1.0) for a in range(agents)) for t in range(2))
    paid = Maporl(PAYING).pay([held(*turns, agents=agents)] * 2)
    assert list(paid) == [Place(d, t, a) for d in (0, 1) for t in (0, 1) for a in range(agents)]
    assert all(pay.total == pytest.approx(1.0) for pay in paid.values())


def test_a_candidate_that_was_not_taken_is_paid_as_if_it_had_ended_the_discussion() -> None:
    other = replace(said(0, 0, True, 0.9, branch=1), chosen=False)
    whole = held(
        (said(0, 0, False, 0.2), other, said(0, 1, True, 0.6)),
        (said(1, 0, True, 1.0), said(1, 1, True, 1.0)),
        agents=2,
    )
    without = replace(whole, messages=((whole.messages[0][0], whole.messages[0][2]), whole.said(1)))
    scheme = Maporl(PAYING)
    paid, plain = scheme.pay([whole]), scheme.pay([without])
    assert paid[Place(0, 0, 0, 1)].parts == {
        "own": 0.9,
        "influence": 0.0,
        "critical": 0.0,
        "persuaded": 0.0,
        "constructive": 0.0,
        "persuasive": 0.0,
        "format": 0.0,
        "unfinished": 0.0,
    }
    assert {place: pay for place, pay in paid.items() if place.branch == 0} == plain


def test_every_part_that_pays_says_why_and_what_else_it_speaks_of() -> None:
    scheme = Maporl(PAYING)
    own, influence, persuaded = scheme.explain(SOLVERS_AND_JUDGE, Place(7, 2, 0))
    assert (own.part, own.amount) == ("own", 0.8)
    assert own.words == ("own 0.800 = score 0.800 (the last turn: only this score counts)",)
    assert own.about == (Place(7, 2, 0),)
    assert influence.words == ("influence 0: no later turn was held",)
    assert (persuaded.part, persuaded.amount) == ("persuaded", 3)
    assert persuaded.brief == "A went wrong → right"
    assert persuaded.words == (
        "persuaded +3.000 = reward.persuaded 3 × +1: A went wrong → right, over to the majority of "
        "the others, right in turn 2 (2 of 2)",
        "turn 1, A: ✗ wrong",
        "turn 1, B: ✓ right",
        "turn 2, C: ✓ right",
    )
    assert persuaded.about[1:] == (Place(7, 0, 0), Place(7, 0, 1), Place(7, 1, 2))


def test_a_tie_that_paid_nothing_is_a_note_without_a_part() -> None:
    note = Maporl(PAYING).explain(SOLVERS_AND_JUDGE, Place(0, 1, 2))[-1]
    assert (note.part, note.amount) == ("", 0.0)
    assert note.words == (
        "tie: the others went tied → right (1 → 2 of 2 right), so influence pays nothing",
        "A: turn 1 ✗ wrong → turn 3 ✓ right",
        "B: turn 1 ✓ right → turn 1 ✓ right",
    )


def test_amounts_of_reasons_add_up_to_the_total() -> None:
    scheme = Maporl(PAYING)
    for place, pay in scheme.pay([SOLVERS_AND_JUDGE]).items():
        reasons = scheme.explain(SOLVERS_AND_JUDGE, place)
        assert sum(reason.amount for reason in reasons) == pytest.approx(pay.total)


def test_nobody_is_paid_where_nobody_spoke() -> None:
    with pytest.raises(LookupError, match="turn 2, agent 1"):
        Maporl(PAYING).explain(SOLVERS_AND_JUDGE, Place(0, 1, 0))


def test_how_often_incentives_fired_is_counted_over_discussions() -> None:
    counts = Maporl(PAYING).counts([SOLVERS_AND_JUDGE, SOLVERS_AND_JUDGE])
    assert counts["shaping/persuaded+"] == 2.0
    assert counts["shaping/influence_tied"] == 2.0
    assert counts["shaping/critical+"] == 0.0
    assert len(counts) == 10
