"""Keys of earlier versions go on working, and say what they are called now."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from maporl_core.config.load import build_config, load_config, load_stored
from maporl_core.config.renamed import KEYS, renamed
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError

SCHEMA_2 = Path(__file__).parents[1] / "data" / "schema2" / "old" / "config.toml"


def test_an_old_file_loads_with_one_line_for_each_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "old.toml"
    path.write_text('[ppo]\nlr = 0.5\nclip_low = 0.1\nadvantage = "gae"\n[engine]\nkind = "hf"\n')
    config = load_config(path)
    assert (config.update.lr, config.method.clip_low, config.engine.kind) == (
        0.5,
        0.1,
        "in_process",
    )
    assert caplog.messages == [
        f"{path}: ppo.lr: now called update.lr",
        f"{path}: ppo.clip_low: now called method.clip_low",
        f"{path}: ppo.advantage: method.kind decides it now; leave it out",
        f"{path}: engine.kind: 'hf' is now called 'in_process'",
    ]


def test_old_keys_on_the_command_line_say_their_new_name(caplog: pytest.LogCaptureFixture) -> None:
    changes = ["ppo.kl_coef=0.5", "ppo.epochs=7", "ppo.advantage=gae", "engine.kind=hf"]
    config = load_config("pocket", changes)
    assert (config.method.kl_coef, config.update.epochs) == (0.5, 7)
    assert config.engine.kind == "in_process"
    assert caplog.messages == [
        "--set ppo.kl_coef: now called method.kl_coef",
        "--set ppo.epochs: now called update.epochs",
        "--set ppo.advantage=gae: method.kind decides it now; leave it out",
        "--set engine.kind=hf: now called in_process",
    ]


def test_the_last_of_an_old_and_a_new_name_on_the_command_line_wins() -> None:
    assert load_config("pocket", ["ppo.lr=0.5", "update.lr=0.25"]).update.lr == 0.25
    assert load_config("pocket", ["update.lr=0.25", "ppo.lr=0.5"]).update.lr == 0.5


def test_a_stored_description_with_old_names_loads_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = load_stored(SCHEMA_2)
    assert "[ppo]" in SCHEMA_2.read_text("utf-8")
    assert config.method.kind == "mappo"
    assert caplog.record_tuples == []


def test_an_old_file_over_a_new_one_changes_the_renamed_key(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text("[update]\nlr = 0.5\nepochs = 2\n")
    child = tmp_path / "old.toml"
    child.write_text('extends = "new.toml"\n[ppo]\nlr = 0.25\n')
    found = load_config(child).update
    assert (found.lr, found.epochs) == (0.25, 2)


def test_a_file_with_both_names_of_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "both.toml"
    path.write_text("[ppo]\nlr = 0.5\n[update]\nlr = 0.25\n")
    with pytest.raises(ConfigError, match=r"^ppo\.lr: unknown key; did you mean update\.lr\?$"):
        load_config(path)


def test_every_new_name_is_a_key_with_the_same_default() -> None:
    plain = RunConfig().model_dump()
    for old, new in KEYS.items():
        section, key = new.split(".")
        assert build_config({"ppo": {old.split(".")[1]: plain[section][key]}}) == RunConfig()


def test_renaming_leaves_the_given_tables_alone() -> None:
    given = {"ppo": {"lr": 0.5}, "seed": 3}
    assert renamed(given)[0] == {"update": {"lr": 0.5}, "seed": 3}
    assert given == {"ppo": {"lr": 0.5}, "seed": 3}


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        ("ppo.learning_rate=1e-4", "update.lr"),
        ("learning_rate=1e-4", "update.lr"),
        ("train.learning_rate=1e-4", "update.lr"),
        ("train.lr=1e-4", "update.lr"),
        ("upate.lr=1e-4", "update.lr"),
        ("update.kl_coef=1", "method.kl_coef"),
        ("method.lora_rank=4", "policies.<name>.rank"),
        ("train.discount=0.5", "reward.gamma"),
        ("ppo.entropy=0.1", "method.entropy_coef"),
    ],
)
def test_an_unknown_key_is_looked_for_in_all_sections_by_its_last_word(
    change: str, meant: str
) -> None:
    key = change.split("=")[0]
    with pytest.raises(ConfigError) as caught:
        load_config("pocket", [change])
    assert str(caught.value) == f"{key}: unknown key; did you mean {meant}?"


def test_a_file_with_unknown_keys_in_an_unknown_section_says_one_line_for_each() -> None:
    with pytest.raises(ConfigError) as caught:
        build_config({"ppo": {"learning_rate": 1.0, "gae_lamda": 0.5, "lr": 0.5}})
    assert str(caught.value).splitlines() == [
        "ppo.learning_rate: unknown key; did you mean update.lr?",
        "ppo.gae_lamda: unknown key; did you mean method.gae_lambda?",
    ]


def test_lines_go_to_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from maporl_core.cli.main import main

    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process of its own
    assert main(["config", "show", "pocket", "--set", "ppo.lr=0.5"]) == 0
    said = capsys.readouterr()
    assert said.err == "--set ppo.lr: now called update.lr\n"
    assert "lr = 0.5" in said.out
