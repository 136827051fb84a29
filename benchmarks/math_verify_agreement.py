"""How often the grading of maths agrees with the test cases that math-verify publishes.

    pip download --no-deps --no-binary :all: math-verify==0.9.0 -d FOLDER
    python benchmarks/math_verify_agreement.py FOLDER/math_verify-0.9.0.tar.gz
    python benchmarks/math_verify_agreement.py CHECKOUT/tests --all --write

In: the package's source archive, or the folder of its tests.  The cases are read as data from the
``parametrize`` lists; nothing of them is run or kept.  Counted are the lists of (gold, answer,
expected) alone; ``--all`` adds those with options of that library (its rounding, its strictness).
Out: how many agree, and each disagreement with its place.  ``--write`` keeps the figures in
results/math_verify.json.  docs/tasks.md says why each of them disagrees.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import platform
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from maporl_core.tasks.answers import maths
from maporl_core.tasks.sandbox.bounded import Patience

RESULTS = Path(__file__).parent / "results" / "math_verify.json"
VERDICTS = ("expected", "result")  # names of the third column


@dataclass(frozen=True, slots=True)
class Case:
    """One published case: where it stands, and what that library should say."""

    where: str  # file::test[number]
    gold: str
    answer: str
    expected: bool
    plain: bool  # has no column besides the three


def sources(path: Path) -> Iterator[tuple[str, str]]:
    """(file name, text) of every test file in an archive or a folder."""
    if path.is_dir():
        for file in sorted(path.rglob("test_*.py")):
            yield file.name, file.read_text(encoding="utf-8")
        return
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda found: found.name):
            name = Path(member.name).name
            if "/tests/" in member.name and name.startswith("test_") and name.endswith(".py"):
                content = archive.extractfile(member)
                assert content is not None
                yield name, content.read().decode("utf-8")


def cases(path: Path) -> Iterator[Case]:
    """Every row of the ``parametrize`` lists that have a gold and a predicted text."""
    for file, text in sources(path):
        for test in ast.walk(ast.parse(text)):
            if not isinstance(test, ast.FunctionDef):
                continue
            for decorator in test.decorator_list:
                yield from _rows(f"{file}::{test.name}", decorator)


def _rows(where: str, decorator: ast.expr) -> Iterator[Case]:
    if not isinstance(decorator, ast.Call) or len(decorator.args) < 2:
        return
    names = [name.strip() for name in str(_literal(decorator.args[0])).split(",")]
    rows = decorator.args[1]
    verdict = next((name for name in VERDICTS if name in names), None)
    if not {"gold", "pred"} <= set(names) or verdict is None or not isinstance(rows, ast.List):
        return
    for number, row in enumerate(rows.elts):
        assert isinstance(row, ast.Tuple)
        values = dict(zip(names, map(_literal, row.elts), strict=True))
        found = f"{where}[{number}]", values["gold"], values["pred"], bool(values[verdict])
        yield Case(*found, plain=len(names) == 3)


def _literal(node: ast.expr) -> Any:
    """The value of a literal; of an f-string, only square roots and formats are known."""
    if not isinstance(node, ast.JoinedStr):
        return ast.literal_eval(node)
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        call, form = part.value, part.format_spec
        assert isinstance(call, ast.Call)
        assert ast.unparse(call.func) == "math.sqrt"
        shown = str(_literal(form)) if form is not None else ""
        parts.append(format(math.sqrt(ast.literal_eval(call.args[0])), shown))
    return "".join(parts)


def verdict(case: Case) -> bool:
    """Ours: gold and answer are both read as messages, as that library reads them."""
    gold, answer = maths.extract_maths(case.gold), maths.extract_maths(case.answer)
    return gold is not None and answer is not None and maths.same_maths(answer, gold)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="source archive or folder with the tests")
    parser.add_argument("--all", action="store_true", help="cases with options as well")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULTS.name}")
    asked = parser.parse_args()
    found = [case for case in cases(asked.path) if case.plain or asked.all]
    maths.start_engine()
    # Every case gets the full second: these are no storm of answers.
    maths._PATIENCE = Patience(most=5.0, least=5.0, budget=1e9, refill=1e9)
    other = [case for case in found if verdict(case) != case.expected]
    for case in other:
        print(f"{case.where}: theirs {case.expected}, ours {not case.expected}")
        print(f"    gold {case.gold[-70:]!r}\n    answer {case.answer[-70:]!r}")
    accepted = [case.where for case in other if not case.expected]
    print(f"{len(found) - len(other)} of {len(found)} agree; ours alone accepts {len(accepted)}")
    if asked.write:
        figures = {
            "cases": len(found),
            "agree": len(found) - len(other),
            "accepted by ours alone": accepted,
            "refused by ours alone": [case.where for case in other if case.expected],
        }
        RESULTS.write_text(json.dumps(_report(figures), indent=2) + "\n", encoding="utf-8")
    return 0


def _report(figures: dict[str, Any]) -> dict[str, Any]:
    libraries = ("maporl", "math-verify", "latex2sympy2_extended", "sympy")
    return {
        "bench": "math_verify",
        "versions": {name: version(name) for name in libraries},
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "figures": figures,
    }


if __name__ == "__main__":
    sys.exit(main())
