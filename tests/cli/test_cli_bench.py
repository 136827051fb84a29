"""``maporl bench``: own benches and those of plug-ins, by the same registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from maporl_core.cli.main import main
from maporl_core.kit import registry as page

CODE = """
from maporl_core.config.kinds import Section
from maporl_core.experiments.bench.base import Found

class Options(Section):
    size: int = 3

class Counting:
    says = "how far it counts"
    needs = ()
    Options = Options

    def __init__(self, options):
        self.options = options

    def measure(self, progress):
        progress.stage("counting")
        size = float(self.options.size)
        figures = {"counted": size, "free": 1.0, "quick": size}
        return Found(figures, {"counted": 5.0}, goals={"quick": 9.0})

class Wanting(Counting):
    needs = ("no_such_module_here",)
"""


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution that gives two benches."""
    (tmp_path / "plug_benches.py").write_text(CODE, encoding="utf-8")
    info = tmp_path / "plug_benches-1.0.dist-info"
    info.mkdir()
    facts = "Metadata-Version: 2.1\nName: plug-benches\nVersion: 1.0\n"
    (info / "METADATA").write_text(facts, encoding="utf-8")
    lines = "counting = plug_benches:Counting\nwanting = plug_benches:Wanting\n"
    (info / "entry_points.txt").write_text(f"[maporl.benches]\n{lines}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    page.points.cache_clear()
    yield
    page.points.cache_clear()
    sys.modules.pop("plug_benches", None)


def test_the_store_is_measured_and_kept_with_its_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "store", "--messages", "600", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "store.json").read_text("utf-8"))
    assert found["details"]["messages"] == 600
    assert set(found["figures"]) == set(found["limits"])
    assert found["goals"] == {}
    assert found["versions"]["torch"] == version("torch")


def test_a_plug_ins_bench_is_a_command_with_options_of_its_own(
    plugged: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    assert main(["bench", "counting", "--set", "size=7", *out]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["counted", "7.0000", "of", "5", "over", "the", "limit"]
    assert said[1].split() == ["free", "1.0000"]
    assert " ".join(said[2].split()) == "quick 7.0000 of at least 9 short of the goal"
    assert json.loads((tmp_path / "counting.json").read_text("utf-8"))["bench"] == "counting"


def test_plug_ins_benches_are_listed(plugged: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "how far it counts" in capsys.readouterr().out
    assert main(["kinds", "bench"]) == 0
    assert "(plug-benches 1.0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["counting", "--set", "size=many"], "bench counting: size:"),
        (["counting", "--set", "sise=4"], "bench counting: sise:"),
        (["counting", "--set", "size"], "write it as KEY=VALUE"),
        (["wanting"], "needs no_such_module_here"),
    ],
)
def test_what_a_bench_cannot_do_is_one_line(
    plugged: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    line: str,
) -> None:
    assert main(["bench", *words, "--out", str(tmp_path)]) in (2, 4)
    assert line in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.glob("*.json"))
