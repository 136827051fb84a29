"""Programs that would harm whoever ran them are refused unrun; arithmetic agrees with Python."""

from __future__ import annotations

import ast
import builtins
import os
import random
import resource
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.tasks.programs.program import result_of
from maporl_core.tasks.programs.values import Unusable


def program(body: str) -> str:
    return "def simple_math_problem() -> int:\n" + "".join(
        f"    {line}\n" for line in body.split("\n")
    )


def outcome(source: str) -> Fraction | str:
    """The number, or the reason against it; anything else that is raised fails."""
    try:
        return result_of(source)
    except Unusable as error:
        return str(error)


HARMFUL = (
    "while True: pass",
    "import os\nwhile True: os.fork()",
    "return [c for c in ().__class__.__base__.__subclasses__()]",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "while True: print('x' * 10 ** 9)",
    "return 10 ** 10 ** 10",
    "return 1 << 10 ** 9",
    "return int('9' * 10 ** 9)",
    "return simple_math_problem()",
    "f = lambda: f()\nreturn f()",
    "return (lambda x: x(x))(lambda x: x(x))",
    "return '{0.__class__.__init__.__globals__}'.format(1)",
    "return f'{open(\"/etc/passwd\").read()}'",
    "return '%s' % open('/etc/passwd').read()",
    "return (x := 5) + (y := __import__('os').getpid())",
    "return sum(x for x in range(10 ** 9))",
    "return len([0 for a in range(9999) for b in range(9999)])",
    "return len({a: b for a in range(99) for b in range(99)})",
    "match 5:\n    case int(): return 1",
    "async def f(): pass\nreturn 1",
    "return await f()",
    "yield 1",
    "return (yield)",
    "def g(): return g()\nreturn g()",
    "class A: pass\nreturn 1",
    "try:\n    return 1 / 0\nfinally:\n    import os",
    "with open('x', 'w') as f: return 1",
    "global x\nx = 1\nreturn x",
    "del math\nreturn 1",
    "assert False, exit()\nreturn 1",
    "raise SystemExit(3)",
    "import math as m\nreturn m.factorial(10 ** 9)",
    "from os import system\nreturn system('true')",
    "from math import *\nreturn ceil(1.5)",
    "import math\nreturn math.factorial(10 ** 6)",
    "import math\nreturn math.__loader__",
    "import math\nmath.ceil = print\nreturn 1",
    "return __builtins__['exit']()",
    "return getattr(1, 'real')",
    "return eval('1')",
    "return exec('x = 1')",
    "return compile('1', '', 'eval')",
    "return open(0).read()",
    "return input()",
    "return breakpoint()",
    "return globals()",
    "return type(1)",
    "return vars()",
    "return (1).real",
    "return 'abc'.upper()",
    "return b'1'",
    "return {1: 2}[1]",
    "return {1, 2}",
    "return [1, 2, 3][0:2]",
    "return [*range(10 ** 9)]",
    "return max(*[1, 2])",
    "return round(number=1.5)",
    "return print(5)",
    "return 1j",
    "return ...",
    "return 1e400",
    "return 1 @ 2",
    "return ~5",
    "return 5 in [5]",
    "return 5 is 5",
    "x = [1]\nx[0] = 2\nreturn x[0]",
    "x.y = 1\nreturn 1",
    "range = 5\nreturn range(3)[0]",
    "x = []\nx.append(x)\nreturn 1",
)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of everything that must not be called while a program is evaluated."""
    called: list[str] = []
    forbidden = [(os, n) for n in ("fork", "kill", "system", "getpid", "execv", "abort", "_exit")]
    forbidden += [(builtins, n) for n in ("eval", "exec", "open", "input", "print", "breakpoint")]
    for module, name in forbidden:
        monkeypatch.setattr(module, name, lambda *_args, n=name, **_options: called.append(n))
    return called


def test_harmful_programs_are_refused_without_being_run(watched: list[str]) -> None:
    found = {}
    for body in HARMFUL:
        start = time.process_time()
        found[body] = outcome(program(body))
        assert time.process_time() - start < 3, body
    assert watched == []
    assert [body for body, result in found.items() if not isinstance(result, str)] == []


@pytest.mark.parametrize(
    "source",
    [
        "@exit\ndef f():\n    return 1",
        "def f(x=exit()):\n    return 1",
        "def f() -> exit():\n    return 1",
        "import math\nprint(1)\ndef f():\n    return 1",
        "if True:\n    def f(): return 1",
        "async def f():\n    return 1",
        "def f():\n    return 1\nf()",
        "def f():\n    return " + "(" * 150 + "1" + ")" * 150,
        "def f():\n    return " + "[" * 5000 + "]" * 5000,
        "def f():\n    return " + "not " * 4000 + "1",
        "def f():\n" + "    if 1:\n".replace("    ", "     ") * 90,
        "def f():\n    return 1\x00",
        "\ufeffdef f():\n    return '\ud800'",
        "def f():\n\treturn 1\n        return 2",
    ],
    ids=lambda source: repr(source[:30]),
)
def test_sources_of_other_shapes_give_a_reason_or_a_number(source: str, watched: list[str]) -> None:
    assert outcome(source) in (
        Fraction(1),
        *("code does not parse", "code does more than arithmetic", "numbers grow too large"),
    )
    assert watched == []


def test_return_annotations_are_never_evaluated() -> None:
    assert result_of("def f() -> exit():\n    return 4") == 4


def test_memory_stays_bounded_whatever_a_program_builds() -> None:
    code = (
        "import resource\n"
        "from maporl_core.tasks.programs.program import result_of\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for body in ('x = [0]\\n    while True:\\n        x = [x, x, x]',\n"
        "             'x = 7\\n    while True:\\n        x = x * x',\n"
        "             'x = [0]\\n    for i in range(9000):\\n        x = [x]\\n    return 1',\n"
        "             'return sum([' + '9,' * 9000 + '])'):\n"
        "    try: result_of('def f():\\n    ' + body)\n"
        "    except ValueError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    unit = 1024 if resource.getpagesize() and sys.platform != "darwin" else 1
    assert int(done.stdout) * unit < 100 * 2**20


def test_odd_spellings_in_a_text_are_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result_of(program("'''It costs \\$5.'''\nreturn 5")) == 5


# Arithmetic, against Python itself ----------------------------------------------------------------


def expression(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return rng.choice([str(rng.randint(0, 30)), *"xyz"])
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    if kind < 0.65:
        return f"({left} {rng.choice(['+', '-', '*', '//', '%', '/'])} {right})"
    if kind < 0.75:
        return f"({left} if {left} {rng.choice(['<', '>=', '==', '!='])} {right} else {right})"
    if kind < 0.85:
        return f"{rng.choice(['max', 'min'])}({left}, {right})"
    if kind < 0.92:
        return f"{rng.choice(['abs', 'int', 'round', 'math.ceil', 'math.floor'])}({left})"
    return f"{rng.choice(['-', '+'])}{left}"


def random_program(rng: random.Random) -> str:
    lines = ["import math", "x, y, z = 3, 7, 2"]
    for _ in range(rng.randint(1, 6)):
        name, value = rng.choice("xyz"), expression(rng, rng.randint(0, 3))
        shape = rng.random()
        if shape < 0.5:
            lines.append(f"{name} = {value}")
        elif shape < 0.65:
            lines.append(f"{name} {rng.choice(['+=', '-=', '*='])} {value}")
        elif shape < 0.8:
            lines += [f"for i in range({rng.randint(0, 4)}):", f"    {name} = {name} + i * {value}"]
        else:
            lines += [f"if {value} > {rng.randint(0, 9)}:", f"    {name} = {value}", "else:"]
            lines += [f"    {name} = {rng.randint(0, 9)}"]
    return program("\n".join([*lines, "return " + expression(rng, 2)]))


def as_fraction(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("Fraction", ast.Load()), [node], [])


class Exact(ast.NodeTransformer):
    """Every number as a Fraction, so that Python divides exactly too."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return as_fraction(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return as_fraction(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            return node
        self.generic_visit(node)
        return as_fraction(node)


def by_python(source: str) -> Fraction | None:
    """What Python makes of a program that ``random_program`` wrote; None where it fails."""
    tree = ast.fix_missing_locations(Exact().visit(ast.parse(source)))
    space = {"Fraction": Fraction}
    exec(compile(tree, "generated", "exec"), space)  # noqa: S102 - written just above
    try:
        return Fraction(space["simple_math_problem"]())  # type: ignore[operator]
    except (ArithmeticError, ValueError):
        return None


def test_generated_programs_give_what_python_gives() -> None:
    rng = random.Random(11)
    agreed = 0
    for _ in range(400):
        source = random_program(rng)
        expected, found = by_python(source), outcome(source)
        if expected is None:
            assert isinstance(found, str), source
        elif isinstance(found, Fraction):
            assert found == expected, source
            agreed += 1
        else:
            assert found == "numbers grow too large", source
    assert agreed > 250


def test_threads_agree_on_every_program() -> None:
    rng = random.Random(12)
    sources = [random_program(rng) for _ in range(100)] + [program(body) for body in HARMFUL]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(outcome, sources)) == [outcome(source) for source in sources]


_TOKENS = (
    *("x", "y", "1", "2.5", "0", "+", "-", "*", "/", "//", "%", "**", "(", ")", "[", "]", ",", ":"),
    *("=", "+=", ":=", "if", "else", "for", "in", "while", "return", "lambda", "not", "and", "or"),
    *("range", "max", "sum", "import", "os", "math", ".", "'", '"', "f'", "{", "}", "@", "async"),
    *("await", "yield", "def", "class", "try", "del", "__class__", "\\", "#", "\n    ", "\n", ";"),
)


@given(st.lists(st.sampled_from(_TOKENS), max_size=25).map(" ".join) | st.text(max_size=50))
def test_any_text_gives_a_number_or_a_reason(text: str) -> None:
    for source in (text, program(text)):
        assert isinstance(outcome(source), Fraction | str)
