"""Messages of every kind: grading never raises, takes bounded time and always says the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.config.schema import TaskConfig
from maporl_core.tasks.answers import choices, labels, maths, numerals, texts
from maporl_core.tasks.answers.grading import LABEL, NUMBER, TEXT, choice_grading
from maporl_core.tasks.pocket import PocketTask
from maporl_core.tasks.registry import make_task

OPTIONS = ("Paris", "Rome", "3")
EXTRACTORS: dict[str, Callable[[str], str | None]] = {
    "number": numerals.extract_number,
    "maths": maths.extract_maths,
    "text": texts.extract_text,
    "choice": choices.extract_choice,
    "choice of known options": lambda text: choices.extract_choice(text, OPTIONS),
    "label": labels.extract_label,
    "pocket": PocketTask().extract,
}
SOLUTIONS = (
    "Ann sold 48/2 = 24 clips in May.\nShe sold 48 + 24 = 72 clips in all.\n#### 72",
    "He earns $12.50 an hour, so 8 hours bring 8 * 12.50 = $100.00.\nThe answer is $100.",
    "A third of 1,234 is about 411.33, so \\boxed{\\frac{1234}{3}}.",
    "<think>maybe 5?</think>The premise says nothing of it, so it is neutral.\nAnswer: neutral",
    "Not (A), since Rome lies elsewhere. The answer is (B) Paris.",
    "9: 12 + 9 = 21 - 4 = 17",
)
SPICES = (
    *("\\boxed{", "}", "{", "\\frac", "####", "<think>", "</think>", "<answer>", "</answer>"),
    *("the answer is ", "answer:", "not ", "$", "€", "%", "−", "–", "½", "²", "٣", "७", "１", "①"),
    *("\0", "\x1b[31m", "\ud800", "\udfff", "\u200b", "\u202e", "\ufeff", "\r", "\n", "\t"),
    *("1,234.5", "1.234,5", "1'234", "12,34,567", "1e-7", "10^22", "9^{9^{9^9}}", "1e999999"),
    *("9" * 3000, "(" * 500, "{" * 500, "\\sqrt{2}", "neutral", "(B)", "A or B", "1/0", "7!", "="),
)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1.234.567", "1234567"),
        ("1.234,56", "1234.56"),
        ("1.234.567,8", "1234567.8"),
        ("1'234'567", "1234567"),
        ("1’234.5", "1234.5"),
        ("1 234 567", "1234567"),
        ("12,50 €", "12.5"),
        ("€ 12,50", "12.5"),
        ("1.234", "1.234"),
        ("12,345", "12345"),
        ("1,23,456", "123456"),
        ("١٬٢٣٤٫٥", "1234.5"),
        ("१२", "12"),
        ("１，２３４", "1234"),
        ("2½", "2.5"),
        ("5×10³", "5000"),
        ("50 %", "50"),
        ("-$5", "-5"),
    ],
)
def test_numbers_of_other_places_are_read(written: str, value: str) -> None:
    for message in (f"\\boxed{{{written}}}", f"The answer is {written}.", f"#### {written}"):
        assert numerals.extract_number(message) == value, message


@pytest.mark.parametrize(
    "written", ["12,5", "1,234,56", "1,234.567,8", "3–5", "3 to 5", "5 or 6", "between 3 and 5"]
)
def test_what_may_be_two_numbers_is_no_answer(written: str) -> None:
    assert numerals.extract_number(f"There are 9. The answer is {written}.") is None
    assert numerals.extract_number(f"\\boxed{{{written}}}") is None


def test_one_space_between_groups_joins_an_answer_that_stands_alone_only() -> None:
    assert numerals.extract_number("\\boxed{1 234}") == "1234"
    assert numerals.extract_number("The answer is 5 100 times over.") == "5"


def test_a_choice_between_equal_numbers_is_one_answer() -> None:
    assert numerals.extract_number("The answer is 12 or 12.0.") == "12"
    assert numerals.extract_number("The answer is 10 – 3.") == "7"


def mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 6)):
        at, kind = rng.randint(0, len(text)), rng.random()
        if kind < 0.5:
            text = text[:at] + rng.choice(SPICES) + text[at:]
        elif kind < 0.7:
            text = text[:at] + text[at + rng.randint(0, 20) :]
        elif kind < 0.85:
            text += text[at : at + 40]
        else:
            text = text[:at] + chr(rng.randrange(0x110000)) + text[at:]
    return text


def test_an_answer_of_any_mangled_message_is_right_for_itself_and_the_same_in_any_thread() -> None:
    rng = random.Random(5)
    messages = [mutated(rng, rng.choice(SOLUTIONS)) for _ in range(500)]
    gradings = (NUMBER, TEXT, LABEL, choice_grading(OPTIONS))

    def answers(message: str) -> list[str | None]:
        return [extract(message) for extract in EXTRACTORS.values()]

    found = [answers(message) for message in messages]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(answers, messages)) == found
    given_at_all = 0
    for message in messages:
        for grading in gradings:
            answer = grading.extract(message)
            if answer is not None:
                given_at_all += 1
                assert grading.right(answer, answer, {"choices": OPTIONS}), (answer, message)
    assert given_at_all > 400


@given(st.text(max_size=60), st.text(max_size=60))
def test_sameness_of_numbers_has_no_direction(first: str, second: str) -> None:
    one, two = (numerals.extract_number(f"answer is 5 {text}") for text in (first, second))
    if one is not None and two is not None:
        assert numerals.same_number(one, two) == numerals.same_number(two, one) == (one == two)


@given(st.fractions(max_denominator=10**6))
def test_every_value_has_one_spelling_that_reads_as_itself(value: object) -> None:
    spelled = numerals.canonical(value)  # type: ignore[arg-type]
    assert numerals.number(spelled) == value
    assert numerals.extract_number(f"\\boxed{{{spelled}}}") == spelled


@given(st.text() | st.text(st.sampled_from("".join(SPICES)), max_size=80))
def test_no_message_whatever_raises(text: str) -> None:
    for name, extract in EXTRACTORS.items():
        answer = extract(text)
        assert answer is None or answer, name


_REPEATED = (
    *(
        "1",
        "1 ",
        "1,",
        "1,234,",
        "1.",
        "½",
        "-",
        "{",
        "(",
        "\\boxed{",
        "\\boxed{1}",
        "\\frac{1}{2}",
    ),
    *("#### ", "<answer>", "<think>", "answer is ", "answer: ", "answer - ", "not ", "entailment "),
    *("neither ", "\\[x", "$x$", "1 + ", "1 = ", "9^", "1'234", "A or B ", "(A) ", " ", "\n", "\0"),
)


@pytest.mark.parametrize("piece", _REPEATED)
def test_long_repetitions_take_no_time(piece: str) -> None:
    text = piece * (40_000 // len(piece))
    for name, extract in EXTRACTORS.items():
        start = time.process_time()
        extract(text)
        # Measured below 0.5 s each on an idle machine; quadratic work would take a minute.
        assert time.process_time() - start < 10, name


def test_ten_megabytes_are_read_from_their_end() -> None:
    text = "no number here. " * 650_000 + "\nThe answer is 18."
    start = time.process_time()
    assert numerals.extract_number(text) == "18"
    assert maths.extract_maths(text) == "18"
    assert time.process_time() - start < 20


def test_generators_of_problems_grade_any_message() -> None:
    pytest.importorskip("reasoning_gym")
    task = make_task(TaskConfig(name="gym:chain_sum"))
    (problem,) = task.problems("test", 0, 1, 0)
    for content in (
        "\0",
        "\ud800",
        "9" * 30_000,
        "[" * 5_000,
        "__import__('os').abort()",
        "1" * 19,
    ):
        answer = task.extract(f"<answer>{content}</answer>")
        assert task.is_correct(answer, problem) is False
    assert task.is_correct(task.extract(f"<answer>{problem.gold}</answer>"), problem) is True
