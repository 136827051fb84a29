"""Labels, choices and exact text in messages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.tasks.answers.choices import extract_choice, same_choice
from maporl_core.tasks.answers.grading import LABEL, TEXT, choice_grading
from maporl_core.tasks.answers.labels import LABELS, extract_label
from maporl_core.tasks.answers.texts import exact_text, extract_text
from maporl_core.types import Problem

E, N, C = LABELS


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ("not a contradiction; neutral", N),
        ("contradictory", C),
        ("Entailment.", E),
        ("NEUTRAL", N),
        ("**neutral**", N),
        ("_neutral_", N),
        ("The premise contradicts the hypothesis.", C),
        ("The hypothesis is entailed by the premise.", E),
        ("It does not entail the hypothesis, it contradicts it.", C),
        ("This is not entailment but contradiction.", C),
        ("no contradiction, so it is entailment", E),
        ("It is not neutral and contradicts the claim.", C),
        ("neutral, not contradiction", N),
        ("neutral rather than entailment", N),
        ("Entailment is ruled out; contradiction", C),
        ("Entailment? No. It is a contradiction.", C),
        ("Contradiction: no. Neutral: yes.", N),
        ("neither entailment nor contradiction", N),
        ("not contradictory or neutral, entailment", E),
        ("I would not say it is a contradiction. I would say neutral.", N),
        ("The premise entails the hypothesis, which does not mention cats.", E),
        ("There is no doubt: entailment", E),
    ],
)
def test_the_one_label_that_is_asserted_is_the_answer(message: str, label: str) -> None:
    assert extract_label(message) == label


@pytest.mark.parametrize(
    "message",
    [
        "entailment or neutral",
        "entailment, neutral",
        "The answer is entailment or neutral.",
        r"\boxed{entailment or neutral}",
        "not entailment",
        r"\boxed{not entailment}",
        "isn't neutral",
        "doesn't contradict",
        "doesn’t contradict",
        "non-contradictory",
        "",
        "hello",
        r"\boxed{}",
        r"neutral \boxed{",
        r"\boxed{neutral",
        "<think>neutral",
    ],
)
def test_no_label_or_several_are_no_answer(message: str) -> None:
    assert extract_label(message) is None


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ("It could be entailment, but the answer is neutral.", N),
        ("Options: entailment, neutral, contradiction. Answer: neutral", N),
        ("The answer is neutral. It would be entailment if the premise said so.", N),
        ("The answer is not entailment, it is neutral", N),
        ("I first thought entailment. Therefore it is a contradiction.", C),
        ("Entailment or contradiction?\nNeutral.", N),
        (r"Entailment looks right. \boxed{neutral}", N),
        (r"\boxed{entailment} … wait, \boxed{\text{Contradiction}}", C),
        (r"\boxed{neutral}\boxed{}", N),
        ("<think>neutral</think>entailment", E),
        ("#### contradiction", C),
        ("Bo says neutral, Cy says entailment. Label: Contradiction", C),
        ("Final answer: entailed", E),
    ],
)
def test_a_final_statement_decides_between_several_labels(message: str, label: str) -> None:
    assert extract_label(message) == label


def test_labels_are_graded_by_name() -> None:
    problem = Problem("id", "q", N, "anli", "test")
    assert LABEL.is_correct(LABEL.extract("Answer: neutral"), problem) is True
    assert LABEL.is_correct(LABEL.extract("Answer: entailment"), problem) is False
    assert LABEL.is_correct(LABEL.extract("hm"), problem) is False


@pytest.mark.parametrize(
    ("message", "letter"),
    [
        *(("B", "B"), ("(B)", "B"), ("b)", "B"), ("B.", "B"), ("**B**", "B"), ("B: Paris", "B")),
        ("The answer is B", "B"),
        ("The answer is (B) Paris", "B"),
        ("The answer is B because A is wrong", "B"),
        ("The correct answer is option B.", "B"),
        ("The answer is A, because …", "A"),
        ("answer is not A. Answer: C", "C"),
        ("It must be\nB", "B"),
        ("Option C is right", "C"),
        ("not (A), so (B)", "B"),
        ("#### C", "C"),
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{(C)}}", "C"),
        (r"\boxed{A} no, \boxed{D}", "D"),
        ("<think>A</think>B", "B"),
    ],
)
def test_a_chosen_letter_is_found(message: str, letter: str) -> None:
    assert extract_choice(message) == letter


@pytest.mark.parametrize(
    "message",
    [
        *("", "A or B", "The answer is A or B", "I choose (A) or (B)", r"\boxed{A, B}"),
        *(r"\boxed{A and C}", "A cat sat there", "I think so", r"\boxed{}", r"\boxed{B"),
        "<think>B",
    ],
)
def test_no_letter_or_several_are_no_choice(message: str) -> None:
    assert extract_choice(message) is None


@pytest.mark.parametrize(
    ("message", "letter"),
    [
        ("The answer is Paris.", "A"),
        ("london", "B"),
        (r"\boxed{A cat}", "C"),
        (r"\boxed{C}", "C"),
        (r"\boxed{Rome}", None),
        ("I'd go with Paris", None),
    ],
)
def test_the_text_of_an_option_is_its_letter(message: str, letter: str | None) -> None:
    assert extract_choice(message, ("Paris", "London", "a cat")) == letter


def test_choices_are_graded_by_letter_or_text() -> None:
    grading = choice_grading()
    problem = Problem("id", "q", "B", "jsonl", "test", {"choices": ("Rome", "Paris")})
    for message in ("B", "(b)", r"\boxed{Paris}", "The answer is PARIS."):
        assert grading.is_correct(grading.extract(message), problem) is True
    for message in ("A", r"\boxed{Rome}", r"\boxed{Oslo}", "Z", ""):
        assert grading.is_correct(grading.extract(message), problem) is False
    assert same_choice("b", "B")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Cafe\u0301", "CAFÉ"),
        ("Straße", "STRASSE"),
        ("  New \t York\n", "new york"),
        ("İ", "i\u0307"),
    ],
)
def test_exact_text_knows_unicode_forms_case_and_spaces(first: str, second: str) -> None:
    assert exact_text(first) == exact_text(second)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("The answer is Paris.", "paris"),
        (r"\boxed{\text{New  York}}", "new york"),
        ("reasons\nParis", "paris"),
        ("<answer> Paris </answer> I hope", "paris"),
        ("#### 2024-01-05", "2024-01-05"),
        (r"\boxed{}", None),
        (r"Paris \boxed{Lon", None),
        ("", None),
        (" \n ", None),
    ],
)
def test_exact_text_is_found(message: str, answer: str | None) -> None:
    assert extract_text(message) == answer


def test_exact_text_differs_by_a_single_sign() -> None:
    problem = Problem("id", "q", "2024-01-05", "jsonl", "test")
    assert TEXT.is_correct(TEXT.extract(r"\boxed{2024-01-05}"), problem) is True
    assert TEXT.is_correct(TEXT.extract(r"\boxed{2024-01-06}"), problem) is False
    assert TEXT.is_correct(TEXT.extract(r"\boxed{2018}"), problem) is False


_WORDS = st.sampled_from(
    [
        *(
            "not ",
            "neutral",
            "entail",
            "contradictory",
            " or ",
            "neither ",
            "nor ",
            ". ",
            ", ",
            "\n",
        ),
        *(
            "Answer: ",
            "(A)",
            "B",
            "option C",
            "\\boxed{",
            "}",
            "<think>",
            "</think>",
            "####",
            "n't ",
        ),
        *("\ud800", "\0", "İ", "ß", "<answer>", "</answer>", "if ", "so ", "_", "**"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(_WORDS, st.text(max_size=4)), max_size=25).map("".join))
def test_any_text_gives_a_known_answer_or_none(text: str) -> None:
    assert extract_label(text) in (*LABELS, None)
    assert extract_choice(text, ("Paris", "Rome")) in (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", None)
    found = extract_text(text)
    assert found is None or exact_text(found) == found


@pytest.mark.parametrize(
    "text",
    ["neutral " * 10**6, "not neutral, " * 10**5, "(A)" * 10**6, "a\n" * 10**6, "so " * 10**6],
)
def test_long_text_is_read_in_bounded_time(text: str) -> None:
    start = time.process_time()
    for extract in (extract_label, extract_choice, extract_text):
        extract(text)
    assert time.process_time() - start < 5
