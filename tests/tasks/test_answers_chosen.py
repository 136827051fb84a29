"""Ways of choosing a letter, and exact text that was written as LaTeX or with short words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.tasks.answers.choices import extract_choice
from maporl_core.tasks.answers.grading import TEXT
from maporl_core.tasks.answers.texts import extract_text
from maporl_core.types import Problem


@pytest.mark.parametrize(
    "message",
    [
        *("So B is the correct answer.", "B is correct.", "My choice: B", "b. 4", "Ｂ", "Ⓑ", "b"),
        *("I would pick B — a safe choice.", "The answer is therefore B.", "It must be B", "So B."),
        *("The correct option is (B).", "I am going with B!", "The best choice would be B."),
        *("I think A is wrong and B is right.", "Is A correct? No, B is correct.", "B - Paris"),
        *("A seems right, but B is the correct choice.", "I'd go with option B, not D", "(B) 4"),
        *(
            "The answer is most likely B",
            "B is my final answer",
            "Therefore it's B.",
            'Answer: "B"',
        ),
        *("B, because A is too small", "If A is correct, then C is wrong. So B.", "b) 4"),
    ],
)
def test_the_letter_that_a_sentence_chooses_is_the_answer(message: str) -> None:
    assert extract_choice(message) == "B"


def test_a_small_letter_alone_is_a_choice() -> None:
    assert extract_choice("d", ("1", "3", "8", "16")) == "D"


@pytest.mark.parametrize(
    "message",
    [
        *("A cat is correct.", "I would pick A safe one.", "A good question. Let me think."),
        *("A and B are correct.", "Either A or B is correct.", "Options are A, B, C and D."),
        *("B is not correct.", "I would not pick B.", "A is a letter. B is a letter.", "A or B?"),
        *("Choose between A and B", r"\boxed{A} and \boxed{B}", r"\boxed{A} or \boxed{B}"),
    ],
)
def test_an_article_or_one_of_several_letters_is_no_choice(message: str) -> None:
    assert extract_choice(message) is None


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("The answer is Mr. Smith.", "mr. smith"),
        ("The answer is Mr. Smith. He came first.", "mr. smith"),
        ("The answer is J. R. R. Tolkien. He wrote it.", "j. r. r. tolkien"),
        ("The answer is the U.S. Army.", "the u.s. army"),
        ("The answer is St. Petersburg, Russia. Good.", "st. petersburg, russia"),
        ("The answer is Vitamin C. It helps.", "vitamin c"),
        ("The answer is no. It is not.", "no"),
        ("Answer: 3.14 km. Yes.", "3.14 km"),
    ],
)
def test_the_stop_of_a_shortened_word_ends_no_sentence(message: str, answer: str) -> None:
    assert extract_text(message) == answer


@pytest.mark.parametrize(
    ("written", "gold"),
    [
        (r"50\%", "50%"),
        (r"R\&D", "R&D"),
        (r"New\ York", "New York"),
        ("New~York", "New York"),
        (r"\textbf{Yes}", "Yes"),
        (r"\$5", "$5"),
        (r"a\_b", "a_b"),
        (r"caf\'e", "café"),
        (r"Bj\"{o}rn", "Björn"),
        ("U.S.", "U.S"),
    ],
)
def test_text_that_was_written_as_latex_is_read_as_it_looks(written: str, gold: str) -> None:
    problem = Problem("id", "q", gold, "jsonl", "test")
    assert TEXT.is_correct(TEXT.extract(f"\\boxed{{{written}}}"), problem) is True
    assert TEXT.is_correct(TEXT.extract(r"\boxed{other}"), problem) is False


_PIECES = st.sampled_from(
    [
        "A",
        "B",
        "b",
        "I ",
        " is ",
        "correct",
        "pick ",
        "or ",
        "not ",
        "(",
        ")",
        ". ",
        "—",
        "Ｂ",
        "\\",
        "~",
    ]
)


@given(st.lists(_PIECES, max_size=20).map("".join))
def test_any_mixture_of_letters_and_words_gives_a_letter_a_text_or_none(text: str) -> None:
    assert extract_choice(text, ("x", "y")) in (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", None)
    assert extract_text(text) != ""
