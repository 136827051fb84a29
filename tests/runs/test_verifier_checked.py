"""What a run would refuse a verifier for is said by ``config check`` and ``doctor`` already."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from maporl_core.cli.main import main
from maporl_core.judging.verifier.placing import BUILT_IN
from maporl_core.models.adapter_files import ADAPTER_FILE, CONFIG_FILE, VALUE_FILE

Damage = Callable[[Path], object]


def card(**changes: object) -> Damage:
    """Sets keys of the card; a dot goes into a table, None takes the key out."""

    def change(folder: Path) -> None:
        path = folder / "card.json"
        found = json.loads(path.read_text())
        for name, value in changes.items():
            *tables, key = name.split("__")
            table = found
            for step in tables:
                table = table[step]
            if value is None:
                del table[key]
            else:
                table[key] = value
        path.write_text(json.dumps(found))

    return change


def removed(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def replaced(name: str, make: Callable[[Path], object]) -> Damage:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def other_rank(folder: Path) -> None:
    path = folder / CONFIG_FILE
    path.write_text(path.read_text().replace('"r": 16', '"r": 8'))


def not_finite(folder: Path) -> None:
    tensors = load_file(folder / VALUE_FILE)
    save_file(
        {k: torch.full_like(w, float("nan")) for k, w in tensors.items()}, folder / VALUE_FILE
    )


def no_head(folder: Path) -> None:
    save_file({"weight": torch.zeros(2, 3)}, folder / VALUE_FILE)


def without(part: str) -> Damage:
    """Takes the weights out whose name holds ``part``."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / ADAPTER_FILE)
        assert any(part in name for name in tensors)
        kept = {name: weight for name, weight in tensors.items() if part not in name}
        save_file(kept, folder / ADAPTER_FILE)

    return change


DAMAGES: list[tuple[Damage, int, str]] = [
    (removed("card.json"), 3, "card.json: no such file"),
    (replaced("card.json", Path.mkdir), 3, "card.json: is a folder, not a file"),
    (replaced("card.json", os.mkfifo), 3, "card.json: is a pipe or device, not a file"),
    (card(base__model=5), 3, "(base.model should be a valid string)"),
    (card(base__shell="rm"), 3, "(base.shell is no key of it)"),
    (card(policy__rank=0), 3, "(policy.rank should be greater than or equal to 1)"),
    (card(policy=[1]), 3, "(policy is no table)"),
    (card(base_hash=None), 3, "(it has no base_hash)"),
    (card(temperature="1"), 3, "(temperature is no number)"),
    (card(temperature=10**400), 3, "(temperature is no number that can be used)"),
    (card(temperature=-1.0), 3, "its temperature is impossible"),
    (card(max_length=3), 3, "its max_length is impossible; fit the verifier again with at least 8"),
    (removed(ADAPTER_FILE), 3, f"no {ADAPTER_FILE}; fit the verifier again"),
    (removed(VALUE_FILE), 3, f"no {VALUE_FILE}; fit the verifier again"),
    (other_rank, 4, "its adapter is of rank 8, and its card says 16"),
    (card(policy__rank=4), 4, "its adapter is of rank 16, and its card says 4"),
    (not_finite, 4, "NaN"),
    (no_head, 4, "is no score head"),
    (lambda folder: (folder / ADAPTER_FILE).write_bytes(b"x"), 4, "cannot be read"),
    (without("layers.0.self_attn.q_proj.lora_B"), 4, "lora_A and lora_B of the same layers"),
    (card(policy__target_modules=5), 3, "(policy.target_modules is none of what it may be)"),
]


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("damage", "code", "said"), DAMAGES)
def test_what_a_run_refuses_is_found_by_the_check_in_the_same_words(
    damage: Damage, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], folder)
    damage(folder)
    words = ["pocket-verifier", "--set", f"verifier.path={folder}"]
    assert main(["config", "check", *words]) == code
    line = last_line(capsys)
    assert said in line
    assert str(folder) in line
    assert "policies.(verifier)" not in line
    root = tmp_path / "runs"
    assert main(["run", *words, "--root", str(root)]) == code
    assert last_line(capsys) == line
    assert not root.exists() or list(root.iterdir()) == []


def test_what_only_the_model_shows_is_said_of_the_place_that_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], folder)
    without("layers.1.mlp.up_proj")(folder)
    words = ["pocket-verifier", "--set", f"verifier.path={folder}"]
    assert main(["run", *words, "--root", str(tmp_path / "runs")]) == 4
    line = last_line(capsys)
    assert line.startswith(f"maporl: {folder}: the file lacks ")
    shutil.rmtree(folder)
    shutil.copytree(BUILT_IN["pocket"], folder)
    card(base_hash="0" * 64)(folder)
    assert main(["run", *words, "--root", str(tmp_path / "runs")]) == 4
    assert f"{folder}: was fitted on pocket with other weights" in last_line(capsys)
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_doctor_says_it_too_and_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], folder)
    words = ["doctor", "pocket-verifier", "--root", str(tmp_path), "--json", "--set"]
    words.append(f"verifier.path={folder}")
    assert main(words) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["verifier"] == f"{folder}, rank 16, on base main of the agents"
    other_rank(folder)
    assert main(words) == 4
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    (error,) = [f["text"] for f in found["findings"] if f["level"] == "error"]
    assert "its adapter is of rank 8" in error


def test_a_base_of_another_width_and_a_model_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ["config", "check", "pocket-verifier", "--set"]
    other = [*check, "bases.main.model=pocket-b"]
    assert main([*other, "--json"]) == 0
    assert "on a model of its own, pocket" in json.loads(capsys.readouterr().out)["verifier"]
    assert main([*other, "--set", "verifier.base=main"]) == 4
    assert "was fitted on pocket, 64 wide, and pocket-b is 80 wide" in last_line(capsys)
    folder = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], folder)
    card(base__model="no/such-model")(folder)
    assert main([*check, f"verifier.path={folder}"]) == 0
    assert "warning: the verifier's model: no/such-model is neither" in capsys.readouterr().out
    words = ["pocket-verifier", "--set", f"verifier.path={folder}", "--root", str(tmp_path / "r")]
    assert main(["run", *words]) == 4
    assert "the verifier's model: no/such-model" in last_line(capsys)


def test_a_verifier_that_changes_while_the_run_starts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = import_module("maporl_core.train")
    from maporl_core.assembly import assemble

    folder = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], folder)

    def changed(*words: object) -> object:
        card(temperature=2.0)(folder)
        return assemble(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(train, "assemble", changed)
    words = ["pocket-verifier", "--set", f"verifier.path={folder}", "--root", str(tmp_path / "r")]
    assert main(["run", *words]) == 5
    assert f"{folder} changed while the run started" in last_line(capsys)
