"""Numbers in words, with short scales, with LaTeX's thousands, and very long ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.tasks.answers.grading import NUMBER
from maporl_core.tasks.answers.numerals import extract_number
from maporl_core.types import Problem


def right(message: str, gold: str) -> bool | None:
    return NUMBER.is_correct(NUMBER.extract(message), Problem("id", "q", gold, "task", "test"))


@pytest.mark.parametrize(
    "written",
    [
        *(r"32,\! 349", r"32,\!349", r"32\!,349", r"32{,}349", r"32{, }349", r"32 {, }349"),
        *(r"32\,349", r"32{\,}349", r"32\;349", r"32\ 349", "32~349", r"32\thinspace349"),
        *(r"32\text{,}349", r"32\mathord{,}349", r"32{,}\!349"),
    ],
)
def test_spacings_that_latex_writers_put_into_thousands_belong_to_the_number(written: str) -> None:
    assert extract_number(f"\\boxed{{{written}}}") == "32349"
    assert extract_number(f"So it is ${written}$") == "32349"


@pytest.mark.parametrize("written", ["32, 349", r"32,\,349", r"32,\ 349", "0,111", r"32\,34"])
def test_a_comma_and_a_space_separate_two_numbers(written: str) -> None:
    assert extract_number(f"\\boxed{{{written}}}") is None


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("5k", "5000"),
        ("5.5K", "5500"),
        (r"\boxed{\$5M}", "5000000"),
        ("It costs $5m.", "5000000"),
        ("$2.5B in all", "2500000000"),
        ("1.2bn", "1200000000"),
        (r"\boxed{5\text{k}}", "5000"),
        ("5m", "5"),
        ("5 m", "5"),
        ("5 km", "5"),
    ],
)
def test_short_scales_multiply_and_metres_do_not(message: str, answer: str) -> None:
    assert extract_number(message) == answer


def test_a_short_scale_in_the_gold_answer_counts_too() -> None:
    assert right("5000", "5k") is True
    assert right("5", "5k") is False


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("eighteen", "18"),
        ("Eighteen dollars.", "18"),
        (r"\boxed{eighteen}", "18"),
        (r"\boxed{\text{twenty-one}}", "21"),
        ("The answer is eighteen. She had 20 at first.", "18"),
        ("<answer>one hundred and five</answer>", "105"),
        ("#### five thousand two hundred", "5200"),
        ("So she has twenty-one eggs left.", "21"),
        (r"\boxed{negative five}", "-5"),
        ("two and a half", "2.5"),
        ("three quarters", "0.75"),
        ("two dozen", "24"),
        ("zero", "0"),
    ],
)
def test_an_answer_in_words_is_the_number(message: str, answer: str) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("no one knows", None),
        ("twenty-third", None),
        ("two three", None),
        ("She has 5 eggs. So five of them make 12.", "12"),
        ("The answer is one more than 17.", "17"),
    ],
)
def test_number_words_of_prose_are_no_answer(message: str, answer: str | None) -> None:
    assert extract_number(message) == answer


@pytest.mark.parametrize(
    "value", ["9" * 1200, "-" + "9" * 1200, "0." + "9" * 1200, "1/" + "9" * 1200, "9" * 4000]
)
def test_numbers_of_thousands_of_digits_equal_themselves_only(value: str) -> None:
    for message in (value, f"\\boxed{{{value}}}", f"The answer is {value}.", f"#### {value}"):
        assert right(message, value) is True
    assert right(value[:-1] + "8", value) is False


def test_a_number_beyond_four_thousand_digits_is_no_answer() -> None:
    assert extract_number("9" * 4001) is None


def test_a_percent_sign_is_a_unit() -> None:
    assert extract_number("So it increases by 100%.") == "100"


_PIECES = st.sampled_from(
    [
        *("one ", "hundred ", "and ", "a ", "half ", "twenty", "-", "third", "thousand ", "dozen"),
        *("5", "k", "K", "M", "bn ", "$", "\\$", ",", "\\!", "{,}", "\\,", " ", "\\boxed{", "}"),
        *("The answer is ", ". ", "\n", "\\text{", "negative ", "٣", "０"),
    ]
)


@given(st.lists(_PIECES, max_size=20).map("".join))
def test_any_mixture_of_words_and_scales_gives_none_or_a_number_that_equals_itself(
    text: str,
) -> None:
    found = extract_number(text)
    assert found is None or right(found, found) is True
