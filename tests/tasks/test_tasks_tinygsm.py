"""Answers of little programs: arithmetic is evaluated, everything else has no effect at all."""

from __future__ import annotations

import json
import textwrap
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import DataError
from maporl_core.tasks.programs.program import MAX_STEPS, result_of
from maporl_core.tasks.programs.values import (
    FAILS,
    NO_NUMBER,
    NOT_ALLOWED,
    NOT_PYTHON,
    TOO_LARGE,
    TOO_LONG,
    Unusable,
)
from maporl_core.tasks.registry import make_task


def program(body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f'def simple_math_problem() -> int:\n    """A question."""\n{lines}\n'


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("trays = 10\ncost = trays * 50\nresult = cost + 8 * 20\nreturn result", 660),
        ("a = 60\nreturn a // 4 + 8", 23),
        ("x = 0.1 * 3\nreturn x", Fraction(3, 10)),
        ("return 7 / 2", Fraction(7, 2)),
        ("return -2 ** 2 + 17 % 5", -2),
        ("total = 0\nfor i in range(1, 5):\n    total += i\nreturn total", 10),
        ("t = 0\nfor a, b in [(1, 2), (3, 4)]:\n    t += a * b\nreturn t", 14),
        ("n = 0\nwhile n < 10:\n    n += 3\n    if n > 6:\n        break\nreturn n", 9),
        ("n = 5\nif n > 3 and not n == 4:\n    return 1\nelse:\n    return 2", 1),
        ("a, b = 3, 4\na, b = b, a\nreturn a * 10 + b", 43),
        ("return max(3, 7) + min([4, 2]) + sum([1, 2, 3]) + len([1, 1])", 17),
        ("return round(2.567, 2) + abs(-1) + int(7.9) + float(1)", Fraction(1157, 100)),
        ("import math\nreturn math.ceil(7 / 2) + math.floor(3.7)", 7),
        ("prices = [2, 3, 5]\nreturn prices[0] + prices[-1]", 7),
        ("cost: float = 2.50\nreturn cost * 4", 10),
        ("return 5 if 2 < 3 < 4 else 6", 5),
        ("return sorted([3, 1, 2])[0] + pow(2, 5)", 33),
        ("pass\nreturn True + 1", 2),
    ],
)
def test_arithmetic_programs_give_their_exact_result(body: str, result: Fraction | int) -> None:
    assert result_of(program(body)) == result


def test_results_are_those_of_running_the_program() -> None:
    body = """
        s = 0
        for i in range(3, 40, 4):
            if i % 3:
                s += i * i // 2
            else:
                s -= i
        return s
    """
    s = 0
    for i in range(3, 40, 4):
        s = s + i * i // 2 if i % 3 else s - i
    assert result_of(program(body)) == s


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("while True:\n    pass", TOO_LONG),
        ("x = 0\nwhile True:\n    x += 1\nreturn x", TOO_LONG),
        ("for i in range(10 ** 12):\n    pass\nreturn 1", TOO_LONG),
        ("return sum(range(10 ** 30))", TOO_LONG),
        ("x = [0]\nfor i in range(99):\n    x = [x, x]\nreturn len(x)", None),
        ("return 9 ** 9 ** 9", TOO_LARGE),
        ("x = 9\nfor i in range(99):\n    x = x * x\nreturn x", TOO_LARGE),
        ("return " + "-" * 90 + "1", TOO_LARGE),
        ("return 2 ** -99999999", TOO_LARGE),
        ("return [0] * 10 ** 9", FAILS),
        ("return 'a' * 10 ** 9", NOT_ALLOWED),
        ("import os\nwhile True:\n    os.fork()", NOT_ALLOWED),
        ("import os\nos.kill(os.getppid(), 9)\nreturn 1", NOT_ALLOWED),
        ("return ().__class__.__base__.__subclasses__()[0]", NOT_ALLOWED),
        ("return [c for c in ().__class__.__mro__]", NOT_ALLOWED),
        ("print('x' * 10 ** 9)\nreturn 1", NOT_ALLOWED),
        ("return eval('1')", NOT_ALLOWED),
        ("return __import__('os').getpid()", NOT_ALLOWED),
        ("open('written', 'w')\nreturn 1", NOT_ALLOWED),
        ("return (lambda: 1)()", NOT_ALLOWED),
        ("def f():\n    return f()\nreturn f()", NOT_ALLOWED),
        ("try:\n    return 1\nfinally:\n    pass", NOT_ALLOWED),
        ("global x\nx = 1\nreturn x", NOT_ALLOWED),
        ("import math\nreturn math.__loader__", NOT_ALLOWED),
        ("import math as m\nreturn m.ceil(1)", NOT_ALLOWED),
        ("return 2 ** 0.5", NOT_ALLOWED),
        ("return f'{1}'", NOT_ALLOWED),
        ("return 1 / 0", FAILS),
        ("return missing", FAILS),
        ("return [1][5]", FAILS),
        ("a, b = [1]\nreturn a", FAILS),
        ("x = 5", NO_NUMBER),
        ("return", NO_NUMBER),
        ("return [1, 2]", NO_NUMBER),
        ("return 1 == 1", NO_NUMBER),
        ("return (", NOT_PYTHON),
    ],
)
def test_everything_else_is_refused_at_once_and_has_no_effect(
    body: str, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = time.process_time()
    if reason is None:
        assert result_of(program(body)) == 2
    else:
        with pytest.raises(Unusable, match=reason):
            result_of(program(body))
    assert time.process_time() - start < 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "source",
    [
        "",
        "return 1",
        "x = 1",
        "def f(x):\n    return x",
        "def f(*x):\n    return 1",
        "import os\ndef f():\n    return 1",
        "@f\ndef f():\n    return 1",
        "def f():\n    return 1\ndef g():\n    return 2",
        "def f():\n    return 1\nprint(f())",
        "def f():\n    return " + "-" * 15_000 + "1",
        "def f():\n    return " + "1+" * 9_000 + "1",
        "def f():\n    return " + "9" * 5_000,
        "def f():\n    return 1 #" + "x" * 30_000,
        "def f():\n    return '\0'",
        "\ud800",
    ],
    ids=lambda source: repr(source[:24]),
)
def test_anything_but_one_plain_function_is_refused(source: str) -> None:
    with pytest.raises(Unusable):
        result_of(source)


def test_steps_are_bounded_whatever_the_loops() -> None:
    start = time.process_time()
    with pytest.raises(Unusable, match=TOO_LONG):
        result_of(
            program(
                "x = 0\nfor a in range(99):\n    for b in range(99):\n        for c in range(99):\n"
                "            x += 1\nreturn x"
            )
        )
    assert MAX_STEPS <= 50_000
    assert time.process_time() - start < 2


_LINE = st.sampled_from(
    [
        *("x = 3", "x = x + 1", "y = [x, 2]", "x = y[0]", "for i in range(3):", "    x += i"),
        *(
            "if x > 2:",
            "    x = x ** 9",
            "while x:",
            "    x -= 1",
            "return x",
            "return y",
            "x = 1/0",
        ),
        *("    break", "    continue", "break", "else:", "    return max(x, 2)", "x, y = y, x"),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_LINE, max_size=12))
def test_any_program_gives_a_number_or_a_reason(lines: list[str]) -> None:
    found: object
    try:
        found = result_of(program("\n".join(lines) or "pass"))
    except Unusable as error:
        found = str(error)
    reasons = (FAILS, NO_NUMBER, NOT_ALLOWED, NOT_PYTHON, TOO_LARGE, TOO_LONG)
    assert isinstance(found, Fraction) or found in reasons


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_without_a_usable_answer_are_left_out_and_counted(tmp_path: Path) -> None:
    bodies = ["return 20 / 2"] * 40 + [
        *("while True:\n    pass", "import os\nos.abort()", "return 1 / 3", "return 9 ** 9 ** 9"),
        "return ().__class__.__subclasses__()",
    ]
    rows: list[dict[str, object]] = [
        {"question": f"Question {n}?", "code": program(body)} for n, body in enumerate(bodies)
    ]
    task = make_task(
        TaskConfig(name="tinygsm", path=str(write(tmp_path / "tiny.jsonl", rows)), holdout=0.25)
    )
    assert task.dropped() == {
        TOO_LONG: 1,
        NOT_ALLOWED: 2,
        "answer is no short decimal": 1,
        TOO_LARGE: 1,
    }
    sizes = [task.size(split) for split in task.splits()]
    assert task.splits() == ("train", "test")
    assert sum(size or 0 for size in sizes) == 40
    assert {problem.gold for problem in task.problems("train", 0, 20, 0)} == {"10"}


def test_a_file_without_code_is_told_so(tmp_path: Path) -> None:
    path = write(tmp_path / "wrong.jsonl", [{"question": "q", "answer": "#### 1"}])
    with pytest.raises(DataError, match=r"line 1: has no 'code'; it has 'question', 'answer'"):
        make_task(TaskConfig(name="tinygsm", path=str(path)))
