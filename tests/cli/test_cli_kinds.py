"""``maporl kinds`` lists every kind of every registry, broken ones with their line."""

from __future__ import annotations

import json

import pytest

from maporl_core import __version__
from maporl_core.cli.main import main
from maporl_core.config.doors import DOORS
from maporl_core.kit import registry as page


def test_every_kind_is_listed_with_where_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kinds", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    own = [fact for fact in found if fact["distribution"] == "maporl"]
    assert [(fact["section"], fact["kind"]) for fact in own] == [
        (section, name) for section, registry in DOORS.items() for name in registry.own
    ]
    assert {fact["version"] for fact in own} == {__version__}
    assert all(fact["says"] and fact["fault"] is None for fact in own)
    (mappo,) = [fact for fact in own if fact["kind"] == "mappo"]
    assert mappo["options"][1] == {
        "key": "method.gae_lambda",
        "takes": "number >= 0, <= 1",
        "default": "0.95",
        "meaning": "GAE λ over the tokens of a message",
    }


def test_one_section_is_listed_with_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kinds", "verifier"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("verifier.kind\n  rule ")
    assert "verifier.auroc = 0.95" in said
    assert "method" not in said


def test_a_wrong_section_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kinds", "verifer"]) == 2
    assert "did you mean verifier?" in capsys.readouterr().err


def test_a_broken_kind_is_listed_with_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("odd", "no_such_module:Odd", "maporl.rewards")
    monkeypatch.setattr(page, "points", lambda group: (point,) if "reward" in group else ())
    assert main(["kinds", "reward"]) == 0
    said = capsys.readouterr().out
    assert "odd" in said
    assert "broken: an unknown distribution cannot be imported: ModuleNotFoundError" in said
