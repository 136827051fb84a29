"""Matrices, lists, named values and claims of sentences: what is the same and what is not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.tasks.answers.grading import MATHS, NUMBER
from maporl_core.tasks.answers.maths import same_maths
from maporl_core.types import Problem


def right(message: str, gold: str) -> bool | None:
    problem = Problem("id", "question", gold, "task", "test")
    return MATHS.is_correct(MATHS.extract(message), problem)


def box(content: str) -> str:
    return "so \\boxed{" + content + "}"


def rows(content: str) -> str:
    return r"\begin{pmatrix}" + content + r"\end{pmatrix}"


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (rows(r" 2 \\ 1 "), rows(r" 1 \\ 2 "), False),
        (rows(r"1\\2"), rows(r" 1 \\ 2 "), True),
        (rows(r"1 \\[2pt] 2"), rows(r"1 \\ 2"), True),
        (rows(r"1 & 3 \\ 2 & 4"), rows(r"1 & 2 \\ 3 & 4"), False),
        (rows(r"1 & 2"), rows(r"1 \\ 2"), False),
        (rows(r"1 & 2 & 3 & 4"), rows(r"1 & 2 \\ 3 & 4"), False),
        (r"\begin{bmatrix} 1 \\ 2 \end{bmatrix}", rows(r"1 \\ 2"), True),
        (r"\left[\begin{array}{c} 1 \\ 2 \end{array}\right]", rows(r"1 \\ 2"), True),
        (rows(r"\frac12 \\ 1"), rows(r"0.5 \\ 1"), True),
        (rows(r"0.333333333 \\ 1"), rows(r"\frac13 \\ 1"), False),
        (r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", "-2", True),
    ],
)
def test_rows_shape_and_order_of_a_matrix_count(answer: str, gold: str, verdict: bool) -> None:
    assert right(box(answer), gold) is verdict


@pytest.mark.parametrize(
    ("message", "gold"),
    [
        ("Final Answer: The largest $n$ is 34.", "34"),
        ("Final Answer: The domain of $f(x)$ is 19. <|im_start|>user", "19"),
        ("From $d=\\frac{90}{n}$, there are 12 distinct sequences. I hope it is correct.", "12"),
        ("With $\\Delta x$, it increases by 100%.", "100"),
        ("With $\\Delta x$, it increases by 100%.", r"100\%"),
        ("The answer is $x+1$. It was $y$.", "x+1"),
        ("The answer is $f(x) = 2x$ for all $x$.", "2x"),
        ("The answer is 18 because $2 \\cdot 9$ is 18.", "18"),
        ("The final answer is $5! + 3$. Good.", "123"),
        ("The solutions are $1$ and $2$.", "1, 2"),
    ],
)
def test_the_answer_is_what_the_sentence_claims(message: str, gold: str) -> None:
    assert right(message, gold) is True


def test_a_number_before_the_verb_is_not_the_claim() -> None:
    problem = Problem("id", "q", "12", "task", "test")
    assert right("The answer is clear: the answer to the 3 sums is 12.", "12") is True
    assert NUMBER.is_correct(NUMBER.extract("Final Answer: The sum of the 3 parts is 12."), problem)


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("1", "2x + z = 1", False),
        ("0", "a^2 + b = 0", False),
        ("1", "x = 1", True),
        ("x = 1", "1", True),
        ("6", "2x = 6", False),
        ("6", "xy = 6", False),
        ("5", "x^2 = 5", False),
        ("-x = 5", "5", False),
        ("x_1 = 5", "5", True),
        ("2x+1", "y = 2x+1", True),
        (r"\theta = 30", "30", True),
        ("AB = 5", "5", True),
        ("|AB| = 5", "5", True),
        ("f(x) = 5", "5", True),
        ("(p,q) = (3,2)", "(3,2)", True),
        ("y = 5", "x = 5", False),
        ("x = 2y", "y = x/2", True),
        ("x > 1", "1", False),
        (r"x \neq 1", "x = 1", False),
        ("2 + 3 = 5", "5", True),
        ("1", "x + 1 = 2", False),
        (r"F_n = \sum_{k=0}^{n-1} F_{n-k-1} F_k", r"F_n = \sum_{k=0}^{n-1} F_k F_{n-k-1}", True),
        ("11a + c", "7 = 11a + c", False),
        (r"x = \frac13 \approx 0.333", r"\frac13", True),
        (r"\frac13 ≈ 0.333", "1/3", True),
        ("0.333", r"\frac13", False),
        (r"x \approx 0.333", "0.333", True),
    ],
)
def test_only_a_lone_name_may_be_dropped(answer: str, gold: str, verdict: bool) -> None:
    assert right(box(answer), gold) is verdict


@pytest.mark.parametrize(
    ("message", "gold"),
    [
        (r"\boxed{1},\boxed{2},\boxed{3}", r"\{1,2,3\}"),
        (r"\boxed{1},\boxed{2},\boxed{3}", "{1,2,3}"),
        (r"\boxed{1}, \boxed{2}, and \boxed{3}", "3,2,1"),
        (r"\boxed{-2} and \boxed{1}", "1,-2"),
        (r"$\boxed{-2} \quad \text{and} \quad \boxed{1}$", "1,-2"),
        (r"$y_1 = \boxed{x+1}$ and $y_2 = \boxed{x}$", "x+1, x"),
        (box("x=5, x=7"), "5,7"),
        (box("7, 5"), "x=5, x=7"),
        (box("n = 1, 2, 3"), "3,2,1"),
        (box("p=5, q=2"), "p=5, q=2"),
        (box("q=2, p=5"), "p=5, q=2"),
        (box("5, 2"), "p=5, q=2"),
        (box("(5,2),(7,2)"), "p=5,q=2;p=7,q=2"),
        (box(r"x = 2 \text{ or } x = 3"), "2,3"),
        (box("(1,2),(3,4)"), "(3,4),(1,2)"),
        (box("(0; 2)"), "(0, 2)"),
        (box(r"\pm 3"), "-3, 3"),
        (box(r"1 \pm \sqrt 2"), r"1-\sqrt2, 1+\sqrt2"),
        (box("1,3"), "(1,3)"),
        (r"\boxed{3} … wait, \boxed{9}", "9"),
        (r"\boxed{3} is one part, so it is \boxed{9}", "9"),
        ("\\boxed{1}\n\n\\boxed{2}", "2"),
    ],
)
def test_boxes_and_values_side_by_side_are_one_list(message: str, gold: str) -> None:
    assert right(message, gold) is True


@pytest.mark.parametrize(
    ("message", "gold"),
    [
        (r"\boxed{1},\boxed{2},\boxed{3}", "3"),
        (box("p=2, q=5"), "p=5, q=2"),
        (box("2, 5"), "p=5, q=2"),
        (box("p=5"), "p=5, q=2"),
        (box("5"), "5,7"),
        (box("5,7"), "5"),
        (box("5,7,9"), "5,7"),
        (box("3"), r"\pm 3"),
        (box("(1,2)"), "(2,1)"),
        (box("(1,2),(3,4)"), "(1,2),(4,3)"),
        (box(r"\{1,3\}"), "(1,3)"),
        (box("3,1"), "(1,3)"),
        (box("(1,2]"), "(1,2)"),
        (box("32, 349"), "32349"),
        (box("5k"), "5"),
        (box("5.7"), "5,7"),
        (box(r"1 + 1/e"), "1 - 1/e"),
    ],
)
def test_a_list_with_other_values_names_or_order_is_wrong(message: str, gold: str) -> None:
    assert right(message, gold) is False


def test_commands_that_were_escaped_twice_are_read_and_rows_stay() -> None:
    assert right(box(r"\\frac{1}{2}"), "0.5") is True
    assert right(r"$\\left(\\frac{1}{5},\\frac{1}{6}\\right)$", r"(\frac15, \frac16)") is True
    assert right(box(r"\\begin{pmatrix}1\\\\2\\end{pmatrix}"), rows(r"1\\2")) is True


def test_long_lists_are_compared_in_bounded_time() -> None:
    start = time.monotonic()
    roots = [rf"\sqrt{{{n}}} + x" for n in range(2, 22)]
    assert same_maths(", ".join(roots), ", ".join(reversed(roots))) is True
    assert same_maths(", ".join(roots), ", ".join(root + "+1" for root in roots)) is False
    assert same_maths(",".join("x" * 190), ",".join("y" * 190)) is False
    assert time.monotonic() - start < 30


_PIECES = st.sampled_from(
    [
        *("x", "y_1", "=", "1", "2", ",", ";", " and ", r"\text{ or }", "(", ")", "{", "}", r"\{"),
        *(r"\}", r"\\", r"\ ", r"\pm", r"\in", "[", "]", r"\begin{pmatrix}", r"\end{pmatrix}", "&"),
        *(
            r"\boxed{",
            "$",
            r"\approx",
            "|",
            r"\frac",
            "is ",
            ". ",
            "The answer ",
            r"\cup",
            "≈",
            "\n",
        ),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=16).map("".join))
def test_any_mixture_of_lists_and_names_gets_a_verdict(text: str) -> None:
    found = MATHS.extract(text)
    assert found is None or isinstance(right(text, "1, 2"), bool)
    assert same_maths(text, "x = 1, y = 2") in (True, False)
