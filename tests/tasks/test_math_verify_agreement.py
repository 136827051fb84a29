"""The script that counts agreement with published cases reads them as data and judges each."""

from __future__ import annotations

import importlib.util
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import math
import pytest
raise SystemExit("tests are data: nothing of them runs")

@pytest.mark.parametrize("gold, pred, expected", [("$x$", "so $x$", 1),
    (f"{math.sqrt(4):.1f}", "2", 1)])
def test_plain(gold, pred, expected): ...

@pytest.mark.parametrize("gold,pred,result,precision", [("1/3", "0.33", 1, 2)])
def test_with_an_option(gold, pred, result, precision): ...

@pytest.mark.parametrize("pred,expected,config", [("A", ["A"], Config())])
def test_without_gold(pred, expected, config): ...
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "benchmarks" / "math_verify_agreement.py"
    spec = importlib.util.spec_from_file_location("math_verify_agreement", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_cases_of_an_archive_and_of_a_folder_are_the_same(
    script: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "package-1.0" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text(TESTS, encoding="utf-8")
    with tarfile.open(tmp_path / "package.tar.gz", "w:gz") as archive:
        archive.add(folder.parent, arcname="package-1.0")
    found = list(script.cases(folder))
    assert found == list(script.cases(tmp_path / "package.tar.gz"))
    assert [(case.gold, case.answer, case.plain) for case in found] == [
        ("$x$", "so $x$", True),
        ("2.0", "2", True),
        ("1/3", "0.33", False),
    ]
    assert [script.verdict(case) for case in found] == [True, True, False]
    assert found[0].where == "test_one.py::test_plain[0]"
