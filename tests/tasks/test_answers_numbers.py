"""Numbers in messages: what is read as the answer, and exact comparison."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.tasks.answers.grading import NUMBER
from maporl_core.tasks.answers.numerals import canonical, extract_number, number, same_number
from maporl_core.types import Problem


def right(message: str, gold: str) -> bool | None:
    problem = Problem("id", "question", gold, "task", "test")
    return NUMBER.is_correct(NUMBER.extract(message), problem)


def box(content: str) -> str:
    return "so \\boxed{" + content + "}"


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("72, in total, so", "72"),
        ("3 apples, 4 pears, and", "4"),
        (",", None),
        (", , ,", None),
        ("well, so, in total", None),
        ("", None),
        (".", None),
        ("-", None),
    ],
)
def test_a_comma_alone_is_never_a_number(message: str, answer: str | None) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("$1,234.50.", "1234.5"),
        ("18.0", "18"),
        (box("5."), "5"),
        (box(r"\$1{,}234.50"), "1234.5"),
        (box(r"1\,234"), "1234"),
        ("1\u00a0234", "1234"),
        ("1\u202f234\u202f567 in all", "1234567"),
        ("12,345,678", "12345678"),
        ("1_000", "1000"),
        ("It costs -$5.", "-5"),
        ("It costs $-5", "-5"),
        (box("18 dollars"), "18"),
        (box(r"18 \text{ dollars}"), "18"),
        (box(r"60\,\mathrm{km/h}"), "60"),
        (box("18 m^2"), "18"),
        (box(r"18 \text{ m}^2"), "18"),
        (box(r"180^\circ"), "180"),
        (box("180°"), "180"),
        (box("€ 20"), "20"),
        (box("USD 18"), "18"),
        (box("Total: 5"), "5"),
        (box("x = 5"), "5"),
        (box("16 - 3 - 4 = 9"), "9"),
        (box(r"50\%"), "50"),
        ("50%", "50"),
        (box("+18"), "18"),
        (box("007"), "7"),
        (box("-0"), "0"),
        (box("5 million"), "5000000"),
        (box("negative 5"), "-5"),
        ("**18**", "18"),
        ("_18_", "18"),
        ("１８", "18"),
        ("٤٢", "42"),
        ("4\u200b2", "42"),
    ],
)
def test_money_separators_units_and_punctuation_do_not_change_a_number(
    message: str, answer: str
) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize("message", ["-3", "−3", "–3", "－3", box("−3"), box("- 3"), "= - 3"])
def test_every_minus_sign_is_a_minus_sign(message: str) -> None:
    assert right(message, "#### -3") is True
    assert right(message, "3") is False


@pytest.mark.parametrize("message", ["from 5-3", "- 3 eggs", "total-3", "a list:\n- 3", "10–3"])
def test_hyphens_ranges_and_list_dashes_are_no_minus(message: str) -> None:
    assert extract_number(message) == "3"


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (r"\boxed{3} … wait, \boxed{9}", "9"),
        (r"\boxed{18}\boxed{}", "18"),
        (r"\boxed{18} \boxed{ } \boxed{\text{}} \boxed{$\,$} \boxed{?}", "18"),
        (r"\boxed{7} is what I think; Bo says 9.", "7"),
        (r"\boxed{7} #### 8", "7"),
        (r"\boxed{3} … \boxed{9", "3"),
        (r"$\boxed{4}}$", "4"),
        (r"\fbox{6}", "6"),
        (r"\boxed 5", "5"),
        (r"\boxed {5}", "5"),
        ("boxed{5}", "5"),
        ("\\\\boxed{5}", "5"),
        ("\x08oxed{5}", "5"),
    ],
)
def test_the_last_box_with_something_in_it_wins(message: str, answer: str) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (box(r"\dfrac{1}{2}"), "0.5"),
        (box(r"\frac12"), "0.5"),
        (box(r"-\frac{1}{3}"), "-1/3"),
        (box(r"\frac{-1}{3}"), "-1/3"),
        (box(r"\frac{1.5}{3}"), "0.5"),
        (box(r"\frac{\frac{1}{2}}{2}"), "0.25"),
        (box(r"2\frac{1}{2}"), "2.5"),
        (box(r"-2\frac{1}{2}"), "-2.5"),
        (box("2 1/2"), "2.5"),
        (box("6/2"), "3"),
        ("it takes 2½ hours", "2.5"),
        ("it takes 1 3/4 hours", "1.75"),
        ("about 3/4 of it", "0.75"),
        (r"so \frac{1}{2}", "0.5"),
        (box(r"\boxed{5}"), "5"),
        (box(r"x = \boxed{5}"), "5"),
        (box("{5}"), "5"),
        (box("1e-7"), "0.0000001"),
        (box(r"3 \times 10^{4}"), "30000"),
        (box(r"2 \cdot 9"), "18"),
        (box("10²²"), str(10**22)),
        ("5.0e3", "5000"),
    ],
)
def test_fractions_mixed_numbers_nested_boxes_and_powers_have_a_value(
    message: str, answer: str
) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    "message",
    [
        r"\boxed{5",
        r"The sum is 5. \boxed{5",
        r"\boxed{}",
        r"The sum is 5. \boxed{}",
        r"\boxed{\boxed{}}",
        r"\boxed{blue}",
        r"\boxed{3, 4}",
        r"\boxed{5 or 6}",
        r"\boxed{not 5}",
        r"\boxed{5x}",
        r"\boxed{x+1}",
        r"\boxed{x^2+5}",
        r"\boxed{5\pi}",
        r"\boxed{> 5}",
        r"\boxed{a = 1, b = 2}",
        r"\boxed{1/0}",
        r"\boxed{0^{-1}}",
        r"\boxed{3 hours 20 minutes}",
        r"\boxed{2024-01-05}",
        r"\boxed{12/25/2023}",
        r"\boxed{9^{9^{9^9}}}",
        r"\boxed{1e999999999}",
        r"\boxed{(9^{999})!}",
        "\\boxed{" + "9" * 5000 + "}",
        "version 1.2.3",
        "H2O",
    ],
)
def test_unclosed_empty_and_unreadable_boxes_give_no_answer(message: str) -> None:
    assert extract_number(message) is None
    assert right(message, "5") is False


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (r"<think>maybe \boxed{7}", None),
        (r"\boxed{5} <think>or is it", None),
        (r"<thinking>maybe \boxed{7}", None),
        (r"< THINK >maybe \boxed{7}", None),
        ("[THINK]maybe 7", None),
        (r"<think>maybe \boxed{7}</think> no: \boxed{8}", "8"),
        (r"<think>maybe \boxed{7}</think>", None),
        (r"\boxed{6} <think>maybe \boxed{7}</think>", "6"),
        (r"it began in the prompt \boxed{7}</think> \boxed{8}", "8"),
        (r"<think>a</think> \boxed{8} <think>b \boxed{9}", None),
        (r"<think>a<think>b</think> \boxed{8}", "8"),
        (r"<reasoning>12</reasoning> 13", "13"),
        (r"I think \boxed{7}", "7"),
    ],
)
def test_only_what_stands_outside_of_thinking_counts(message: str, answer: str | None) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("16 - 3 = 13\n#### 1,080", "1080"),
        ("#### Step 2\nso it is 18", "18"),
        ("#### 3. Add up\nso it is 18", "18"),
        ("#### \nso it is 18", "18"),
        ("<answer>7</answer> and 9", "7"),
        ("<answer>7</answer> <answer> </answer>", "7"),
        ("The answer is 18. She had 20 at first.", "18"),
        ("The answer is 18, since 4 * 5 = 20.", "18"),
        ("The answer is 16 - 3 - 4 = 9 eggs; she had 20.", "9"),
        ("The answer is 2 eggs * 3 dollars = 6 dollars.", "6"),
        ("The answer is 16 -3 = 13. Not 20", "13"),
        (r"The answer is $\frac{1}{2}$. Not 3.", "0.5"),
        ("The answer is 18!", "18"),
        ("**Answer:** 18. Bo had 3.", "18"),
        ("Answer:\n\n$$18$$\nand 3", "18"),
        ("Final Answer - 18, not 3", "18"),
        ("The answer is not 5. The answer is 6, or was it 7", "6"),
        ("Bo's answer of 17 is wrong. My answer is 18, not 17", "18"),
        ("there are 3 boxes of 6, that makes 18 in all", "18"),
    ],
)
def test_marked_and_stated_answers_come_before_the_last_number(message: str, answer: str) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("1e-7", "2e-7", False),
        ("1e-7", "1e-7", True),
        ("1e-7", "0.0000001", True),
        (str(10**22 + 3), str(10**22 + 4), False),
        (str(10**22 + 3), str(10**22 + 3), True),
        ("10^22+3", "10^22+4", False),
        ("10^22+3", str(10**22 + 3), True),
        ("0.1", "0.10", True),
        ("0.30000000000000004", "0.3", False),
        ("1/3", "0.3333333333", False),
        ("1/3", "2/6", True),
        ("9007199254740993", "9007199254740992", False),
        ("18", "18.0", True),
        ("1,080", "1080", True),
        ("#### 5", "5", True),
    ],
)
def test_plain_numbers_are_compared_exactly(gold: str, answer: str, verdict: bool) -> None:
    assert right(box(answer), gold) is verdict
    assert same_number(answer, gold) is verdict


def test_towers_of_powers_are_wrong_at_once() -> None:
    start = time.process_time()
    towers = [rf"\boxed{{{n % 9 + 2}^{{9^{{9^{n + 9}}}}}}}" for n in range(63)]
    assert not any(right(tower, "5") for tower in [*towers, r"\boxed{9^{9^{9^9}}}"])
    assert time.process_time() - start < 2


def test_no_gold_answer_gives_no_verdict_and_no_answer_is_wrong() -> None:
    without = Problem("id", "question", None, "task", "test")
    with_gold = Problem("id", "question", "5", "task", "test")
    assert NUMBER.is_correct("5", without) is None
    assert NUMBER.is_correct(None, without) is None
    assert NUMBER.is_correct(None, with_gold) is False


def test_grading_from_many_threads_is_the_same_as_from_one() -> None:
    messages = [box(str(n)) for n in range(50)]
    found: list[list[bool | None]] = []
    threads = [
        threading.Thread(target=lambda: found.append([right(m, "7") for m in messages]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[n == 7 for n in range(50)]] * 4


@pytest.mark.parametrize(
    "text",
    [
        "\ud800\udfff 5 \ud800",
        "\0" * 1000 + "5",
        "x" * 10_000_000 + " 5",
        "1" * 10_000_000,
        "1,234" * 1_000_000,
        "\\boxed{" * 300_000,
        "{" * 2_000_000 + "\\boxed{5}",
        "\\boxed{" + "(" * 100_000 + "5" + ")" * 100_000 + "}",
        "\\boxed{" + "-" * 1_000 + "5}",
        "\\boxed{" + "9^" * 500 + "9}",
        "<think>" * 200_000,
        "<answer>" * 100_000 + "</answer>",
        "the answer is " * 100_000,
        "answer " * 200_000,
        "\\frac{" * 100_000,
        "1 1/2 " * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    start = time.process_time()
    assert right(text, "77") is False
    assert time.process_time() - start < 5


def test_ten_megabytes_before_the_answer_do_not_hide_it() -> None:
    assert extract_number("x" * 10_000_000 + " \\boxed{5}") == "5"


@settings(max_examples=150, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9)))
def test_any_decimal_is_found_again_with_its_exact_value(value: Decimal) -> None:
    shown = f"{value:,f}"
    for message in (box(shown), f"The answer is {shown}.", f"#### {shown}"):
        found = extract_number(message)
        assert found is not None
        assert number(found) == Fraction(value)


@settings(max_examples=150, deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_one_value_has_one_spelling_which_reads_back(value: Fraction) -> None:
    assert number(canonical(value)) == value
    assert extract_number(box(f"\\frac{{{value.numerator}}}{{{value.denominator}}}")) == canonical(
        value
    )


_PIECES = st.sampled_from(
    [
        *("\\boxed{", "}", "{", "\\frac", "{1}", "5", "1,234", ".", ",", "-", "−", "$", "%", "^"),
        *("####", "answer is ", "<answer>", "</answer>", "<think>", "</think>", "e9", "million"),
        *("½", "²", "\ud800", "\0", "\u200b", "１", "\\text{", "\\", "!", "*", "=", "x", "\n", " "),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=5)), max_size=25).map("".join))
def test_any_text_gives_none_or_a_number_that_equals_itself(text: str) -> None:
    found = extract_number(text)
    if found is not None:
        assert same_number(found, found)
        assert extract_number(box(found)) == found


def test_a_gsm8k_solution_gives_its_own_answer() -> None:
    solution = "He pays 3*$5=$<<3*5=15>>15.\nWith tax that is $1,<<1000+5=1005>>005.\n#### 1,005"
    assert extract_number(solution) == "1005"
    assert right(solution, "1005") is True
