"""Rewards of any discussion against a brute-force oracle written from the method's tables.

The oracle (``reference.verification`` and ``reference.shaping``) looks every row up by its words;
it shares nothing with ``rewards``, which counts.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import reference_run as ref
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.maporl import reward_discussion, shaping_events
from maporl_core.types import Discussion, Message, Pay, Problem

AGENTS, TURNS = (1, 2, 3, 5), (1, 2, 3)
HORIZONS, SHARES, TIES = (
    ("discounted", "current", "last"),
    ("team", "own"),
    ("majority", "fraction"),
)
SCORE = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
GAMMA = st.one_of(st.sampled_from([0.0, 0.3, 1.0]), st.floats(0, 1))
COEFFICIENT = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0]), st.floats(0, 3))


def discussion(cells: list[list[dict[str, Any]]], gold: str | None = "7") -> Discussion:
    """Messages from tables [T][A] of score, correct, answer and finish."""
    rows = tuple(
        tuple(
            Message(t, a, "p", (1,), (2, 3), (-0.5, -0.5), "text", **cell)
            for a, cell in enumerate(row)
        )
        for t, row in enumerate(cells)
    )
    names = tuple(f"agent {a}" for a in range(len(cells[0])))
    return Discussion(Problem("p", "q", gold, "made-up", "train"), names, rows)


@st.composite
def discussions(
    draw: st.DrawFn, agents: tuple[int, ...] = AGENTS, turns: tuple[int, ...] = TURNS
) -> Discussion:
    """Any scores and verdicts, unparsable and unfinished messages, early stops."""
    width, height = draw(st.sampled_from(agents)), draw(st.sampled_from(turns))

    def cell() -> dict[str, Any]:
        answer = draw(st.sampled_from(["7", "8", None]))
        correct = draw(st.booleans()) and answer is not None
        finish = draw(st.sampled_from(["stop", "length"]))
        score = 0.0 if answer is None else draw(SCORE)
        return {"score": score, "correct": correct, "answer": answer, "finish": finish}

    held = discussion([[cell() for _ in range(width)] for _ in range(height)])
    return replace(held, stopped_early=draw(st.booleans()))


def configs(**fixed: Any) -> st.SearchStrategy[RewardConfig]:
    dials = {
        "horizon": st.sampled_from(HORIZONS),
        "share": st.sampled_from(SHARES),
        "gamma": GAMMA,
        **dict.fromkeys(ref.SHAPING, COEFFICIENT),
        "tie": st.sampled_from(TIES),
        "format": st.floats(-1, 0),
        "unfinished": st.floats(-1, 0),
    }
    dials |= {name: st.just(value) for name, value in fixed.items()}
    return st.builds(RewardConfig, **dials)


def coefficients(config: RewardConfig) -> dict[str, float]:
    return {part: getattr(config, part) for part in ref.SHAPING}


def scores(held: Discussion) -> list[list[float]]:
    return [[m.score for m in row] for row in held.messages]


def verdicts(held: Discussion) -> list[list[bool]]:
    return [[m.correct for m in row] for row in held.messages]


def shaping_of(parts: Pay) -> dict[str, float]:
    return {name: getattr(parts, name) for name in ref.SHAPING}


# ---- everything against the oracle -------------------------------------------------------------


@settings(max_examples=400)
@given(held=discussions(), config=configs())
def test_any_discussion_is_paid_as_the_oracle_says(held: Discussion, config: RewardConfig) -> None:
    whole = ref.verification(scores(held), config.gamma, config.horizon, config.share)
    incentives = ref.shaping(verdicts(held), coefficients(config), config.tie)
    for t, row in enumerate(reward_discussion(held, config)):
        for a, parts in enumerate(row):
            m = held.messages[t][a]
            penalty = (config.format if m.answer is None else 0.0) + (
                config.unfinished if m.finish == "length" else 0.0
            )
            assert parts.own + parts.influence == pytest.approx(whole[t][a], abs=1e-9)
            assert shaping_of(parts) == pytest.approx(incentives[t][a], abs=1e-9)
            assert parts.format + parts.unfinished == pytest.approx(penalty, abs=1e-12)
            assert parts.total == pytest.approx(
                whole[t][a] + sum(incentives[t][a].values()) + penalty, abs=1e-6
            )
            assert parts.total == pytest.approx(sum(tuple(parts.parts.values())), abs=1e-6)


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize(("agents", "turns"), [(2, 2), (2, 3), (3, 2), (3, 3), (5, 2)])
def test_every_pattern_of_verdicts_is_shaped_as_the_oracle_says(
    agents: int, turns: int, tie: str
) -> None:
    config = RewardConfig(critical=2.0, persuaded=3.0, constructive=5.0, persuasive=7.0, tie=tie)
    seen = set()
    for flat in itertools.product([False, True], repeat=agents * turns):
        correct = [list(flat[t * agents : (t + 1) * agents]) for t in range(turns)]
        held = discussion(
            [
                [{"score": 0.5, "correct": c, "answer": "7", "finish": "stop"} for c in row]
                for row in correct
            ]
        )
        expected = ref.shaping(correct, coefficients(config), tie)
        found = [[shaping_of(p) for p in row] for row in reward_discussion(held, config)]
        for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-12)
            seen |= {(name, pay > 0) for name, pay in ours.items() if pay}
    assert seen == {(name, up) for name in ref.SHAPING for up in (True, False)}


# ---- properties --------------------------------------------------------------------------------


@settings(max_examples=120)
@given(held=discussions(), config=configs(), data=st.data())
def test_renaming_agents_permutes_every_part(
    held: Discussion, config: RewardConfig, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(held.agents))))
    moved = replace(
        held,
        messages=tuple(
            tuple(replace(row[a], agent=place) for place, a in enumerate(order))
            for row in held.messages
        ),
    )
    plain, after = reward_discussion(held, config), reward_discussion(moved, config)
    for t, row in enumerate(after):
        for place, a in enumerate(order):
            assert tuple(row[place].parts.values()) == pytest.approx(
                tuple(plain[t][a].parts.values()), abs=1e-12
            )


@settings(max_examples=120)
@given(held=discussions(), config=configs(**dict.fromkeys(ref.SHAPING, 0.0)))
def test_zero_coefficients_shape_exactly_zero(held: Discussion, config: RewardConfig) -> None:
    paid = [p for row in reward_discussion(held, config) for p in row]
    assert all(pay == 0.0 for p in paid for pay in shaping_of(p).values())


@settings(max_examples=100)
@given(held=discussions(agents=(1,)), config=configs())
def test_a_lone_agent_is_never_shaped(held: Discussion, config: RewardConfig) -> None:
    paid = [p for row in reward_discussion(held, config) for p in row]
    assert all(pay == 0.0 for p in paid for pay in shaping_of(p).values())
    events = [event for row in shaping_events(held, config.tie) for event in row]
    assert not any(event.rows or event.revision_tied or event.influence_tied for event in events)


@settings(max_examples=120)
@given(held=discussions(turns=(1,)), config=configs())
def test_a_single_turn_is_never_shaped(held: Discussion, config: RewardConfig) -> None:
    paid = [p for row in reward_discussion(held, config) for p in row]
    assert all(pay == 0.0 for p in paid for pay in shaping_of(p).values())


@settings(max_examples=120)
@given(held=discussions(), config=configs())
def test_the_verification_reward_is_bounded_by_the_scores_it_is_made_of(
    held: Discussion, config: RewardConfig
) -> None:
    for t, row in enumerate(reward_discussion(held, config)):
        ahead = [v for later in scores(held)[t:] for v in later]
        for parts in row:
            assert parts.own >= 0.0
            assert parts.influence >= 0.0
            assert min(ahead) - 1e-12 <= parts.own + parts.influence <= max(ahead) + 1e-12
            assert parts.own + parts.influence <= 1.0 + 1e-12


@settings(max_examples=120)
@given(held=discussions(), config=configs(), flag=st.booleans())
def test_a_stop_is_paid_like_a_discussion_planned_that_short(
    held: Discussion, config: RewardConfig, flag: bool
) -> None:
    marked = replace(held, stopped_early=flag)
    assert reward_discussion(marked, config) == reward_discussion(held, config)


@settings(max_examples=120)
@given(held=discussions(turns=(2, 3)), config=configs(), data=st.data())
def test_a_score_pays_no_later_message(
    held: Discussion, config: RewardConfig, data: st.DataObject
) -> None:
    """What is paid for turn t looks at turns t and later, its incentives at t − 1 as well."""
    fresh = [replace(m, score=data.draw(SCORE)) for m in held.messages[0]]
    changed = replace(held, messages=(tuple(fresh), *held.messages[1:]))
    assert reward_discussion(changed, config)[1:] == reward_discussion(held, config)[1:]


@settings(max_examples=120)
@given(held=discussions(), config=configs(gamma=0.0, horizon="discounted"))
def test_gamma_zero_pays_the_own_score_alone(held: Discussion, config: RewardConfig) -> None:
    for row, said in zip(reward_discussion(held, config), held.messages, strict=True):
        assert [(p.own, p.influence) for p in row] == [(m.score, 0.0) for m in said]


@settings(max_examples=120)
@given(held=discussions(), config=configs(gamma=1.0, horizon="discounted", share="team"))
def test_gamma_one_pays_the_mean_of_the_own_score_and_the_later_team_means(
    held: Discussion, config: RewardConfig
) -> None:
    team = [sum(row) / len(row) for row in scores(held)]
    for t, row in enumerate(reward_discussion(held, config)):
        for a, p in enumerate(row):
            counted = [scores(held)[t][a], *team[t + 1 :]]
            assert p.own + p.influence == pytest.approx(sum(counted) / len(counted), abs=1e-12)


@settings(max_examples=120)
@given(held=discussions(), config=configs(), data=st.data())
def test_a_penalty_changes_its_own_message_by_itself_and_nothing_else(
    held: Discussion, config: RewardConfig, data: st.DataObject
) -> None:
    t = data.draw(st.integers(0, held.turns - 1))
    a = data.draw(st.integers(0, len(held.agents) - 1))
    rows = [list(row) for row in held.messages]
    rows[t][a] = replace(rows[t][a], finish="stop")
    finished = replace(held, messages=tuple(map(tuple, rows)))
    rows[t][a] = replace(rows[t][a], finish="length")
    cut = replace(held, messages=tuple(map(tuple, rows)))
    before, after = reward_discussion(finished, config), reward_discussion(cut, config)
    for u, b in itertools.product(range(held.turns), range(len(held.agents))):
        if (u, b) == (t, a):
            assert after[u][b] == Pay({**before[u][b].parts, "unfinished": config.unfinished})
        else:
            assert after[u][b] == before[u][b]


@settings(max_examples=120)
@given(held=discussions(), config=configs(), data=st.data())
def test_a_message_without_an_answer_counts_as_score_zero_and_wrong_whatever_it_was_given(
    held: Discussion, config: RewardConfig, data: st.DataObject
) -> None:
    """So a verifier that scores text without an answer pays nobody for it."""
    rows = [list(row) for row in held.messages]
    for row in rows:
        for a, m in enumerate(row):
            if m.answer is None:
                correct = data.draw(st.sampled_from([True, False, None]))
                row[a] = replace(m, score=data.draw(SCORE), correct=correct)
    odd = replace(held, messages=tuple(map(tuple, rows)))
    assert reward_discussion(odd, config) == reward_discussion(held, config)
    assert shaping_events(odd, config.tie) == shaping_events(held, config.tie)


@settings(max_examples=120)
@given(held=discussions(agents=(2, 3, 5), turns=(2, 3)), config=configs())
def test_without_gold_answers_verdicts_are_those_of_the_scores(
    held: Discussion, config: RewardConfig
) -> None:
    rows = tuple(tuple(replace(m, correct=None) for m in row) for row in held.messages)
    unknown = replace(held, messages=rows, problem=replace(held.problem, gold=None))
    right = [[v >= 0.5 for v in row] for row in scores(held)]
    expected = ref.shaping(right, coefficients(config), config.tie)
    for row, paid in zip(reward_discussion(unknown, config), expected, strict=True):
        for parts, pay in zip(row, paid, strict=True):
            assert shaping_of(parts) == pytest.approx(pay, abs=1e-9)
