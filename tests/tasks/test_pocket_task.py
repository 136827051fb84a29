"""The pocket task: problems nobody can know alone, numbers that splits do not share, verdicts."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.tasks.pocket import (
    SPLITS,
    TEST_SIZE,
    Numbers,
    PocketTask,
    draw_numbers,
    draw_question,
)
from maporl_core.tasks.registry import make_task
from maporl_core.types import Problem

TASK = PocketTask()


def problem(gold: str | None) -> Problem:
    return Problem("p", "?", gold, "pocket", "test")


def readings(question: str) -> set[int]:
    (pair,) = re.findall(r"(\d+) or (\d+)", question)
    return set(map(int, pair))


def test_problems_depend_on_split_position_and_seed_alone() -> None:
    for split in SPLITS:
        whole = TASK.problems(split, 5, 20, seed=3)
        assert PocketTask().problems(split, 5, 20, seed=3) == whole
        assert TASK.problems(split, 15, 5, seed=3) == whole[10:15]
        assert TASK.problems(split, 5, 20, seed=4) != whole


def test_there_are_more_than_ten_thousand_different_questions() -> None:
    assert len({p.question for p in TASK.problems("train", 0, 11_000, seed=0)}) > 10_000
    assert TASK.size("train") is None


def test_the_test_split_is_one_set_in_an_order_of_the_seed() -> None:
    first = TASK.problems("test", 0, TEST_SIZE, seed=0)
    second = TASK.problems("test", 0, TEST_SIZE, seed=1)
    assert len({p.id for p in first}) == TASK.size("test") == TEST_SIZE
    assert first != second
    assert {p.id: p for p in first} == {p.id: p for p in second}


def test_splits_share_no_numbers() -> None:
    seen = {
        split: {draw_numbers(random.Random(f"{split}{n}"), split) for n in range(1500)}
        for split in SPLITS
    }
    assert all(numbers.split == split for split in SPLITS for numbers in seen[split])
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["lessons"]
    assert not seen["lessons"] & seen["test"]


def test_numbers_keep_their_split_whichever_reading_is_printed_first() -> None:
    # The same three numbers and the same smudge are one record, so one split.
    numbers = Numbers(((12, 7, 4), (12, 9, 4)), ("+", "-"), 1)
    questions = {draw_question(random.Random(n), numbers) for n in range(40)}
    assert any("7 or 9" in question for question in questions)
    assert any("9 or 7" in question for question in questions)
    assert numbers.split in SPLITS


def test_the_right_reading_is_one_of_the_two_and_a_coin_decides_which() -> None:
    problems = TASK.problems("train", 0, 4000, seed=0)
    larger = sum(int(p.gold or "") > int(p.meta["other"]) for p in problems)
    first = sum(_first_reading_is_right(p) for p in problems)
    assert all(p.gold != p.meta["other"] for p in problems)
    # Four standard deviations of a fair coin.
    assert abs(larger - 2000) < 4 * 4000**0.5 / 2
    assert abs(first - 2000) < 4 * 4000**0.5 / 2


def test_the_larger_reading_is_meant_as_often_as_the_task_leans() -> None:
    problems = PocketTask(lean=0.9).problems("train", 0, 2000, seed=0)
    larger = sum(_first_reading_is_right(p) == _first_reading_is_larger(p) for p in problems)
    assert abs(larger - 1800) < 4 * (2000 * 0.9 * 0.1) ** 0.5
    asked = [p.question for p in TASK.problems("train", 0, 2000, seed=0)]
    assert [p.question for p in problems] == asked  # the same questions, leaning or not


@pytest.mark.parametrize("options", [{"size": 3}, {"lean": 0.2}, {"lean": True}, {"lean": "much"}])
def test_options_that_mean_nothing_here_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"task\.options"):
        make_task(TaskConfig(options=options))


def _first_reading_is_larger(p: Problem) -> bool:
    ((first, second),) = re.findall(r"(\d+) or (\d+)", p.question)
    return int(first) > int(second)


def _first_reading_is_right(p: Problem) -> bool:
    """Work the question out with its first reading, by the verbs' signs."""
    plain = re.sub(r"(\d+) or \d+", r"\1", p.question)
    a, b, c = map(int, re.findall(r"\d+", plain))
    plus = ("gets", "got", "finds", "found", "buys", "bought", "wins", "won")
    minus = ("loses", "lost", "sells", "sold", "gives", "gave", "drops", "dropped")
    signs = [word in plus for word in re.findall(r"[a-z]+", plain) if word in plus + minus]
    value = a + (b if signs[0] else -b) + (c if signs[1] else -c)
    assert str(value) in (p.gold, p.meta["other"])
    return str(value) == p.gold


def test_any_of_the_three_numbers_may_be_smudged_and_all_results_fit_two_digits() -> None:
    problems = TASK.problems("train", 0, 900, seed=1)
    assert set(Counter(p.meta["smudged"] for p in problems)) == {0, 1, 2}
    results = [int(value) for p in problems for value in (p.gold or "", p.meta["other"])]
    assert min(results) >= 0
    assert max(results) <= 99
    for p in problems:
        low, high = sorted(map(str, readings(p.question)))
        assert len(low) == len(high)
        assert sum(x != y for x, y in zip(low, high, strict=True)) == 1


def test_the_prompt_is_the_question_and_does_not_depend_on_the_answer() -> None:
    p = TASK.problems("test", 0, 1, seed=0)[0]
    twin = Problem(p.id, p.question, p.meta["other"], p.task, p.split, {"other": p.gold})
    assert TASK.prompt(p) == TASK.prompt(twin) == p.question


def test_worked_messages_are_right_for_their_reading_only() -> None:
    numbers = Numbers(((12, 7, 4), (12, 9, 4)), ("+", "-"), 1)
    assert numbers.worked(0) == "7: 12 + 7 = 19 - 4 = 15"
    assert numbers.worked(1) == "9: 12 + 9 = 21 - 4 = 17"
    answers = [TASK.extract(numbers.worked(reading)) for reading in (0, 1)]
    assert answers == ["15", "17"]
    assert [TASK.is_correct(answer, problem("17")) for answer in answers] == [False, True]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("12 + 9 = 21 - 4 = 17", "17"),
        (" 9: 12 + 9 = 21 - 4 = 17 ", "17"),
        ("7: 12 + 7 = 19 - 4 = 15. No, 9: 12 + 9 = 21 - 4 = 17", "17"),
        ("12 + 9 = 21 - 4 = 07", "7"),
        ("12 + 9 = 21 - 4 = 175", None),
        ("12 + 9 = 21 - 4 = 1.5", None),
        ("112 + 9 = 21 - 4 = 17", None),
        ("12 + 9 = 21 - 4 =", None),
        ("12 + 9 = 21", None),
        ("17", None),
        ("", None),
        ("12 + 9 = 21 - 4 = 17 = 3", "17"),
        ("١٢ + ٩ = ٢١ - ٤ = ١٧", None),  # digits of another script
    ],
)
def test_the_answer_is_the_result_of_the_last_worked_step(text: str, answer: str | None) -> None:
    assert TASK.extract(text) == answer


@given(st.text())
def test_extraction_never_raises(text: str) -> None:
    answer = TASK.extract(text)
    assert answer is None or answer.isdigit()


def test_no_answer_is_wrong_and_without_gold_nothing_is_known() -> None:
    assert TASK.is_correct(None, problem("17")) is False
    assert TASK.is_correct("17", problem(None)) is None


def test_an_unknown_split_names_those_there_are() -> None:
    with pytest.raises(DataError, match="train, test, lessons"):
        TASK.problems("validation", 0, 1, seed=0)
    with pytest.raises(DataError, match="train, test, lessons"):
        TASK.size("tset")
