"""Maths expressions: exact numbers first, then symbols, in bounded time and memory, anywhere."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.tasks.answers import maths
from maporl_core.tasks.answers.grading import MATHS
from maporl_core.tasks.answers.maths import extract_maths, same_maths
from maporl_core.tasks.sandbox.bounded import Patience
from maporl_core.types import Problem


def right(message: str, gold: str) -> bool | None:
    problem = Problem("id", "question", gold, "task", "test")
    return MATHS.is_correct(MATHS.extract(message), problem)


def box(content: str) -> str:
    return "so \\boxed{" + content + "}"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("x+y", "y+x"),
        (r"(x-1)(x+1)", "x^2-1"),
        (r"2\sqrt{2}", r"\sqrt 8"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        (r"\left( 1, 2 \right)", "(1,2)"),
        (r"\{2, 1\}", r"\{1,2\}"),
        (r"\begin{bmatrix}1\\2\end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("x = 5", "5"),
        ("5", "x=5"),
        (r"\dfrac{1}{2}x", "x/2"),
        (r"\log_2 8", "3"),
        (r"\binom{5}{2}", "10"),
        ("5!", "120"),
        (r"e^{i\pi}", "-1"),
        (r"\text{even}", "even"),
        (r"50\%", "0.5"),
        (r"50\%", "50"),
        (r"90^\circ", "90"),
        (r"\frac{1}{2}", "0.5"),
        ("0.25", r"\frac14"),
        (r"9^{9^{9^9}}", r"9^{9^{9^9}}"),
    ],
)
def test_the_same_object_in_other_words_is_right(answer: str, gold: str) -> None:
    assert right(box(answer), gold) is True


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("x+y", "x-y"),
        ("(2,1)", "(1,2)"),
        (r"\sqrt{2}", "1.41421356"),
        (r"3.14159", r"\pi"),
        (r"2\pi \cdot 10^{-20}", r"\pi \cdot 10^{-20}"),
        ("0.0000003", r"\sqrt{2}\cdot 10^{-7}"),
        ("2e-7", "1e-7"),
        (str(10**22 + 4), str(10**22 + 3)),
        ("10^{22}+4", "10^{22}+3"),
        ("0.333333", r"\frac{1}{3}"),
        ("101", "101_2"),
        ("y=5", "x=5"),
        (r"9^{9^{9^9}}", "5"),
        ("", "5"),
        ("{5", "x"),
    ],
)
def test_what_only_comes_close_is_wrong(answer: str, gold: str) -> None:
    assert same_maths(answer, gold) is False


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (r"\boxed{x+1} or \boxed{ \frac{x}{2} }", r"\frac{x}{2}"),
        (r"\boxed{x+1}\boxed{}", "x+1"),
        (r"\boxed{x+1", None),
        (r"<think>\boxed{x}", None),
        ("The answer is $x+1$. It was $y$.", "x+1"),
        ("Thus the answer is x+1.", "x+1"),
        ("The answer is 18 dollars.", "18"),
        (r"So $a = b = \frac{1}{2}$", "0.5"),
        (r"so \[\sqrt 2\] it is", r"\sqrt 2"),
        ("the answer is (1,2).", "(1,2)"),
        ("it is 7", "7"),
        ("hello", None),
        (r"\boxed{18.0}", "18"),
    ],
)
def test_the_answer_of_a_message_is_found(message: str, answer: str | None) -> None:
    assert extract_maths(message) == answer


def test_sixty_four_towers_of_powers_are_graded_wrong_within_ten_seconds() -> None:
    start = time.monotonic()
    assert not any(right(r"\boxed{9^{9^{9^9}}}", "5") for _ in range(64))
    assert time.monotonic() - start < 1


def test_a_storm_of_different_answers_built_to_hang_ends_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    normal = maths._PATIENCE
    monkeypatch.setattr(
        maths, "_PATIENCE", Patience(normal.most, normal.least, normal.budget, normal.refill)
    )
    maths.start_engine()
    start = time.monotonic()
    hostile = [
        rf"({n}^{{9999}})! + x^{{9999}} + \sqrt[7]{{{n}^{{9999}} + x}}" for n in range(9, 29)
    ]
    assert not any(same_maths(answer, "x+5") for answer in hostile)
    assert time.monotonic() - start < 60  # 4 on an idle machine; without limits it is endless
    monkeypatch.undo()
    assert same_maths("x^2+2x+1", "(x+1)^2")  # the engine lives on


def test_worker_threads_get_the_verdicts_of_the_main_thread() -> None:
    pairs = [(f"x^2+{2 * n}x+{n * n}", f"(x+{n})^2") for n in range(2, 6)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda pair: same_maths(*pair), pairs)) == [True] * len(pairs)
    assert [same_maths(*pair) for pair in pairs] == [True] * len(pairs)


def test_plain_numbers_never_wait_for_the_engine() -> None:
    start = time.process_time()
    for n in range(500):
        assert same_maths(rf"\frac{{{n}}}{{7}}", f"{2 * n}/14")
    assert time.process_time() - start < 1


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="x1290.,+-*/^(){}\\ $%=_\ud800\0abc", max_size=20))
def test_any_answer_gets_a_verdict(text: str) -> None:
    assert same_maths(text, "17") in (True, False)
    found = extract_maths("\\boxed{" + text + "}")
    assert found is None or same_maths(found, found) or found.count("{") != found.count("}")
