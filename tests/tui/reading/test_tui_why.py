"""Why a message was paid: every sentence by hand, sums that add up, numbers that lead somewhere."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from pay_samples import published

from maporl_core.config.schema import RewardConfig, RunConfig
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.store.reader import DiscussionRow, MessageReward, StoredDiscussion
from maporl_core.types import REWARD_PARTS, Discussion, Message, Place, Problem
from maporl_tui.reading.why import Account, Why, account, arithmetic, explain_message

NAMES = ("Ada", "Bo", "Cy", "Di", "Ed")
PAYING = RewardConfig(critical=0.5, persuaded=0.25, constructive=0.75, persuasive=2.0)
EXAMPLE = [[0.2, 0.9], [0.8, 0.9], [1.0, 0.7]]


def talk(
    marks: Sequence[str],
    scores: Sequence[Sequence[float | None]] | None = None,
    names: Sequence[str] = NAMES,
    gold: bool = True,
) -> Discussion:
    """A discussion from one word per turn, a letter per agent: r right, w wrong, n no answer,
    u wrong and unfinished.  Scores default to 0.5."""
    rows = tuple(
        tuple(
            Message(
                turn=t,
                agent=a,
                policy=None if t == 0 else names[a],
                prompt_ids=(),
                ids=(),
                logprobs=(),
                text="",
                finish="length" if mark == "u" else "stop",
                answer=None if mark == "n" else "7",
                correct=(mark == "r") if gold else None,
                score=0.5 if scores is None else scores[t][a],
            )
            for a, mark in enumerate(word)
        )
        for t, word in enumerate(marks)
    )
    problem = Problem("p", "How many?", "7" if gold else None, "pocket", "train")
    return Discussion(problem, tuple(names[: len(marks[0])]), rows)


def stored(held: Discussion, paid_by: RewardConfig) -> StoredDiscussion:
    parts = reward_discussion(held, paid_by)
    rewards = {
        Place(1, t, a): MessageReward(p, 0.1, 0.2)
        for t, row in enumerate(parts)
        for a, p in enumerate(row)
    }
    row = DiscussionRow(
        *(1, 1, "train", None, "p", "How many?", held.problem.gold, held.agents, held.turns),
        *(held.stopped_early, False, False, False, False, False, ()),
    )
    return StoredDiscussion(row, held, rewards, {})


def checked(held: Discussion, config: RewardConfig, paid_by: RewardConfig | None = None) -> Account:
    found = account(stored(held, paid_by or config), RunConfig(reward=config))
    assert found is not None
    return found


def texts(lines: Sequence[Why]) -> list[str]:
    return [line.text for line in lines]


def the(lines: Sequence[Why], part: str) -> str:
    """The one line about a part."""
    (line,) = [line for line in lines if line.part == part and line.kind == "part"]
    return line.text


def places(lines: Sequence[Why], part: str | None) -> list[tuple[str, int, int]]:
    return [(x.text, x.turn, x.agent) for x in lines if x.part == part and x.kind == "from"]


def test_the_worked_example_is_explained_as_written_out_by_hand() -> None:
    lines = explain_message(checked(talk(["ww", "ww", "ww"], EXAMPLE), RewardConfig()), 0, 0)
    assert lines[0].text == "own 0.144 + influence 0.238 = 0.382"
    assert (
        the(lines, "own") == "own 0.144 = score 0.200 ÷ 1.39, where 1.39 = 1 + 0.3 + 0.09 (γ = 0.3)"
    )
    assert the(lines, "influence") == "influence 0.238 = the 4 scores of later turns, weighed:"
    assert places(lines, "influence") == [
        ("turn 2, Ada: 0.3 × score 0.800 ÷ 2 agents ÷ 1.39 = 0.086", 1, 0),
        ("turn 2, Bo: 0.3 × score 0.900 ÷ 2 agents ÷ 1.39 = 0.097", 1, 1),
        ("turn 3, Ada: 0.09 × score 1.000 ÷ 2 agents ÷ 1.39 = 0.032", 2, 0),
        ("turn 3, Bo: 0.09 × score 0.700 ÷ 2 agents ÷ 1.39 = 0.023", 2, 1),
    ]


def test_the_last_turn_is_paid_its_own_score_alone() -> None:
    lines = explain_message(checked(talk(["ww", "ww", "ww"], EXAMPLE), RewardConfig()), 2, 1)
    assert lines[0].text == "own 0.700 = 0.700"
    assert the(lines, "own") == "own 0.700 = score 0.700 (the last turn: only this score counts)"
    assert the(lines, "influence") == "influence 0: no later turn was held"


REVISIONS = [
    # verdicts, part, number, coefficient × weight, change, direction, the others before
    (["www", "rww"], "critical", "+0.500", "0.5 × +1", "wrong → right", "against", "wrong"),
    (["rrr", "wrr"], "critical", "−0.500", "0.5 × −1", "right → wrong", "against", "right"),
    (["wrr", "rrr"], "persuaded", "+0.250", "0.25 × +1", "wrong → right", "over to", "right"),
    (["rww", "www"], "persuaded", "−0.250", "0.25 × −1", "right → wrong", "over to", "wrong"),
]


@pytest.mark.parametrize(
    ("marks", "part", "number", "product", "change", "direction", "verdict"), REVISIONS
)
def test_each_row_of_the_self_revision_table_has_its_sentence(
    marks: list[str],
    part: str,
    number: str,
    product: str,
    change: str,
    direction: str,
    verdict: str,
) -> None:
    lines = explain_message(checked(talk(marks), PAYING), 1, 0)
    assert the(lines, part) == (
        f"{part} {number} = reward.{part} {product}: Ada went {change}, {direction} the majority "
        f"of the others, {verdict} in turn 1 (2 of 2)"
    )
    assert f"{number[0]} {part} {number[1:]} (Ada went {change})" in lines[0].text
    word = {"r": "✓ right", "w": "✗ wrong"}
    assert places(lines, part) == [
        (f"turn 1, {name}: {word[mark]}", 0, a)
        for a, (name, mark) in enumerate(zip(NAMES, marks[0], strict=False))
    ]


INFLUENCES = [
    # verdicts, part, number, coefficient × weight, own verdict, the others' change, direction
    (["www", "wrr"], "constructive", "+0.750", "0.75 × +1", "wrong", "wrong → right", "away from"),
    (["rrr", "rww"], "constructive", "−0.750", "0.75 × −1", "right", "right → wrong", "away from"),
    (["rww", "rrr"], "persuasive", "+2.000", "2 × +1", "right", "wrong → right", "towards"),
    (["wrr", "www"], "persuasive", "−2.000", "2 × −1", "wrong", "right → wrong", "towards"),
]


@pytest.mark.parametrize(
    ("marks", "part", "number", "product", "own", "change", "direction"), INFLUENCES
)
def test_each_row_of_the_influence_table_has_its_sentence(
    marks: list[str], part: str, number: str, product: str, own: str, change: str, direction: str
) -> None:
    lines = explain_message(checked(talk(marks), PAYING), 0, 0)
    assert the(lines, part) == (
        f"{part} {number} = reward.{part} {product}: Ada was {own}; Bo and Cy went {change} by "
        f"turn 2, {direction} this message"
    )
    reason = f"(Bo and Cy went {change} after this message)"
    assert f"{number[0]} {part} {number[1:]} {reason}" in lines[0].text
    word = {"r": "✓ right", "w": "✗ wrong"}
    assert places(lines, part) == [
        (f"{NAMES[a]}: turn 1 {word[marks[0][a]]} → turn 2 {word[marks[1][a]]}", 1, a)
        for a in (1, 2)
    ]


def test_a_pair_is_told_by_the_partner_s_name() -> None:
    held = talk(["wr", "rr", "rw"])
    lines = explain_message(checked(held, PAYING), 1, 0)
    assert the(lines, "persuaded").endswith("Ada went wrong → right, over to Bo, right in turn 1")
    assert the(lines, "constructive").endswith(
        "Ada was right; Bo went right → wrong by turn 3, away from this message"
    )


@pytest.mark.parametrize(
    ("agents", "said"), [(4, "the majority of Bo, Cy and Di"), (5, "the majority of the other 4")]
)
def test_more_than_two_others_move_as_a_majority(agents: int, said: str) -> None:
    marks = ["r" + "w" * (agents - 1), "r" * agents]
    lines = explain_message(checked(talk(marks), PAYING), 0, 0)
    assert f"{said} went wrong → right" in the(lines, "persuasive")


def test_fractions_say_how_many_of_the_others_stood_and_moved() -> None:
    config = PAYING.model_copy(update={"tie": "fraction"})
    lines = explain_message(checked(talk(["wrw", "rrr", "rrw"]), config), 1, 0)
    assert the(lines, "critical") == (
        "critical +0.250 = reward.critical 0.5 × +0.5: Ada went wrong → right, against the 1 of 2 "
        "others that were wrong in turn 1"
    )
    assert the(lines, "persuaded") == (
        "persuaded +0.125 = reward.persuaded 0.25 × +0.5: Ada went wrong → right, over to the "
        "1 of 2 others that were right in turn 1"
    )
    assert the(lines, "constructive") == (
        "constructive −0.375 = reward.constructive 0.75 × −0.5: Ada was right; the others right "
        "went from 2 to 1 of 2 by turn 3, away from this message"
    )


def test_ties_that_paid_nothing_are_said_with_who_stood_where() -> None:
    lines = explain_message(checked(talk(["wrw", "rrr", "rrr"]), PAYING), 1, 0)
    tie = "tie: Ada went wrong → right, but the others were tied in turn 1 (1 of 2 right), so "
    assert f"{tie}self-revision pays nothing" in texts(lines)
    assert ("turn 1, Bo: ✓ right", 0, 1) in places(lines, None)
    lines = explain_message(checked(talk(["rrw", "rrr"]), PAYING), 0, 0)
    moved = "tie: the others went tied → right (1 → 2 of 2 right), so influence pays nothing"
    assert moved in texts(lines)
    assert ("Cy: turn 1 ✗ wrong → turn 2 ✓ right", 1, 2) in places(lines, None)


def test_silence_has_its_reason_too() -> None:
    lines = texts(explain_message(checked(talk(["rww", "rww"]), PAYING), 0, 0))
    assert "no incentive fired: the first turn revises nothing; the others stayed wrong" in lines
    lines = texts(explain_message(checked(talk(["rww", "rww"]), PAYING), 1, 0))
    assert "no incentive fired: Ada stayed right; after the last turn nobody can move" in lines
    lines = texts(explain_message(checked(talk(["w", "r"]), PAYING), 1, 0))
    assert "no incentives: Ada is the only agent" in lines
    lines = texts(explain_message(checked(talk(["ww", "rr"]), RewardConfig()), 1, 0))
    assert "no incentives: all four coefficients of [reward] are 0" in lines


def test_a_row_whose_coefficient_is_0_says_that_it_pays_nothing() -> None:
    config = RewardConfig(persuasive=1.0)
    lines = explain_message(checked(talk(["www", "rww"]), config), 1, 0)
    assert the(lines, "critical").startswith("critical 0: Ada went wrong → right, against")
    assert the(lines, "critical").endswith("reward.critical is 0, so it pays nothing")


def test_penalties_have_their_reason() -> None:
    lines = explain_message(checked(talk(["nu"], [[0.9, 0.5]]), RewardConfig()), 0, 0)
    assert lines[0].text == "− format 0.100 (no answer) = −0.100"
    assert the(lines, "format") == (
        "format −0.100 = reward.format: no answer could be read from this message"
    )
    assert the(lines, "own").endswith(
        "the message has no answer, so its score counts as 0 (the verifier gave 0.900)"
    )
    lines = explain_message(checked(talk(["nu"], [[0.9, 0.5]]), RewardConfig()), 0, 1)
    assert lines[0].text == "own 0.500 − unfinished 0.100 (cut at the length limit) = 0.400"
    assert the(lines, "unfinished") == (
        "unfinished −0.100 = reward.unfinished: stopped by the length limit, before its end token"
    )
    free = explain_message(checked(talk(["n"]), RewardConfig(format=0.0)), 0, 0)
    assert the(free, "format").endswith("reward.format is 0, so it costs nothing")


def test_without_a_gold_answer_the_score_decides_and_is_said_to() -> None:
    held = talk(["ww", "ww"], [[0.4, 0.5], [0.6, 0.7]], gold=False)
    lines = explain_message(checked(held, PAYING), 1, 0)
    assert "no gold answer: for the incentives a message is right from score 0.5 on" in texts(lines)
    assert places(lines, "persuaded") == [
        ("turn 1, Ada: ✗ wrong, score 0.400 < 0.5", 0, 0),
        ("turn 1, Bo: ✓ right, score 0.500 ≥ 0.5", 0, 1),
    ]


def test_an_early_stop_leads_to_the_turn_that_was_the_last() -> None:
    held = replace(talk(["wr", "rr"]), stopped_early=True)
    lines = explain_message(checked(held, PAYING), 0, 0)
    (stop,) = [line for line in lines if "agreed in turn 2" in line.text]
    assert (stop.turn, stop.agent) == (1, 0)


HORIZONS = [
    ("current", "team", 0, "own 0.100 = score 0.200 ÷ 2 agents (horizon current, share team)",
     "influence 0.450 = the score of this turn, weighed:"),
    ("current", "own", 0, "own 0.200 = score 0.200 (horizon current, share own)",
     "influence 0: with horizon current no other score counts here"),
    ("last", "team", 0, "own 0: with horizon last only the scores of the last turn count",
     "influence 0.850 = the 2 scores of the last turn, weighed:"),
    ("last", "own", 0, "own 0: with horizon last only the scores of the last turn count",
     "influence 1.000 = the score of the last turn, weighed:"),
    ("last", "team", 2, "own 0.500 = score 1.000 ÷ 2 agents (horizon last, share team)",
     "influence 0.350 = the score of the last turn, weighed:"),
    ("discounted", "own", 1, "own 0.615 = score 0.800 ÷ 1.3, where 1.3 = 1 + 0.3 (γ = 0.3)",
     "influence 0.231 = the score of later turns, weighed:"),
]  # fmt: skip


@pytest.mark.parametrize(("horizon", "share", "turn", "own", "influence"), HORIZONS)
def test_every_horizon_and_share_is_worded(
    horizon: str, share: str, turn: int, own: str, influence: str
) -> None:
    config = RewardConfig(horizon=horizon, share=share)
    lines = explain_message(checked(talk(["ww", "ww", "ww"], EXAMPLE), config), turn, 0)
    assert the(lines, "own") == own
    assert the(lines, "influence") == influence


def test_gamma_0_is_the_reason_for_no_influence() -> None:
    lines = explain_message(checked(talk(["w", "r"]), RewardConfig(gamma=0.0)), 0, 0)
    assert the(lines, "influence") == "influence 0: γ is 0, so later turns count nothing"


# The stored numbers win ---------------------------------------------------------------------------


def test_an_edited_coefficient_is_said_and_the_stored_number_stands() -> None:
    paid = checked(talk(["www", "rww"]), PAYING, paid_by=RewardConfig(critical=0.125))
    lines = explain_message(paid, 1, 0)
    assert lines[0].text == "own 0.500 + critical 0.125 = 0.625"
    (problem,) = [line.text for line in lines if line.kind == "problem"]
    assert problem.startswith("not explained: critical. ")
    assert problem.endswith("the stored numbers stand")
    assert the(lines, "critical") == "critical 0.125 as stored; the rules now give 0.500"
    assert the(lines, "own") == "own 0.500 = score 0.500 (the last turn: only this score counts)"
    assert not any("fired" in line.text or "tie" in line.text for line in lines)


def test_another_gamma_leaves_all_scores_of_the_debate_unexplained() -> None:
    paid = checked(talk(["w", "r"]), RewardConfig(gamma=0.9), paid_by=RewardConfig(gamma=0.3))
    first, last = explain_message(paid, 0, 0), explain_message(paid, 1, 0)
    assert the(first, "own") == "own 0.385 as stored; the rules now give 0.263"
    assert the(first, "influence") == "influence 0.115 as stored; the rules now give 0.237"
    assert the(last, "own") == "own 0.500 as stored; the rules now give the same"


@pytest.mark.parametrize("why", ["config", "score"])
def test_without_rules_the_sum_is_still_shown(why: str) -> None:
    whole = stored(talk(["wr", "rr"]), PAYING)
    if why == "config":
        found = account(whole, None, "config.toml: bad [red]line\n\x1b[31m")
        said = "no config to explain with: config.toml: bad [red]line; the stored numbers stand"
    else:
        found = account(
            replace(whole, discussion=talk(["wr", "rr"], [[None, 0.5], [0.5, 0.5]])),
            RunConfig(reward=PAYING),
        )
        said = "the message of turn 1, agent 1 on problem 'p' has no score"
    assert found is not None
    lines = explain_message(found, 1, 0)
    assert lines[0].text == "own 0.500 + persuaded 0.250 = 0.750"
    assert lines[1].text.startswith(said)
    assert the(lines, "persuaded") == "persuaded 0.250 as stored"


def test_what_was_not_paid_has_no_account() -> None:
    assert account(replace(stored(talk(["w"]), PAYING), rewards=None), RunConfig()) is None


# Sums ---------------------------------------------------------------------------------------------


def printed_sum(line: str) -> tuple[Decimal, str, Decimal]:
    """(sum of the printed parts, the sign of equality, the printed total)."""
    bare = re.sub(r" \([^)]*\)", "", line)
    left, equals, right = re.fullmatch(r"(.*) ([=≈]) (\S+)", bare).groups()  # type: ignore[union-attr]
    numbers = re.findall(r"(−|\+|^) ?(?:[a-z]+) (\d+\.\d+)", left)
    total = sum((Decimal(n) * (-1 if sign == "−" else 1) for sign, n in numbers), Decimal(0))
    return total, equals, Decimal(right.replace("−", "-"))


def test_printed_parts_add_up_visibly_or_say_about() -> None:
    rng = random.Random(5)
    seen = set()
    for _ in range(300):
        turns, agents = rng.randint(1, 4), rng.randint(1, 5)
        marks = ["".join(rng.choice("rwnu") for _ in range(agents)) for _ in range(turns)]
        scores = [[rng.random() for _ in range(agents)] for _ in range(turns)]
        config = RewardConfig(
            horizon=rng.choice(["discounted", "current", "last"]),
            share=rng.choice(["team", "own"]),
            gamma=rng.random(),
            critical=rng.choice([0.0, rng.random()]),
            persuaded=rng.random(),
            constructive=rng.random(),
            persuasive=rng.choice([0.0, 2.0]),
            tie=rng.choice(["majority", "fraction"]),
            format=-rng.random(),
        )
        paid = checked(talk(marks, scores), config)
        assert not paid.disputed
        for t, a in itertools.product(range(turns), range(agents)):
            lines = explain_message(paid, t, a)
            if lines[0].text.startswith("nothing"):
                assert paid.pay((t, a, 0)).total == 0
                continue
            total, equals, right = printed_sum(lines[0].text)
            assert (equals == "=") == (total == right)
            assert abs(total - Decimal(paid.pay((t, a, 0)).total)) < Decimal("0.005")
            seen.add(equals)
            parts = {line.part for line in lines if line.kind == "part"}
            assert {n for n in REWARD_PARTS if getattr(paid.pay((t, a, 0)), n)} <= parts
    assert seen == {"=", "≈"}


def test_a_tiny_part_is_not_printed_as_zero() -> None:
    held = talk(["wr", "rr"])
    config = PAYING.model_copy(update={"persuaded": 0.0004})
    line = arithmetic(checked(held, config), 1, 0)
    assert line == "own 0.5000 + persuaded 0.0004 (Ada went wrong → right) = 0.5004"


def test_numbers_that_are_none_are_shown_and_not_summed() -> None:
    whole = stored(talk(["r"]), PAYING)
    broken = {Place(1, 0, 0): MessageReward(published(own=float("nan")), None, None)}
    found = account(replace(whole, rewards=broken), RunConfig(reward=PAYING))
    assert found is not None
    assert explain_message(found, 0, 0)[0].text == "own nan ≈ nan"


def test_names_from_a_store_cannot_write_to_the_terminal() -> None:
    names = ("[red]A\x1b[31m\r\n", "\ud800\x00B", "汉" * 40)
    lines = explain_message(checked(talk(["rww", "rrr"], names=names), PAYING), 0, 0)
    joined = "".join(texts(lines))
    assert joined.isprintable()
    assert "[red]A" in joined
    assert "\ufffdB" in joined
