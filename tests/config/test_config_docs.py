"""docs/config.md tells the truth about every key, and its examples work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from maporl_core.cli.main import main
from maporl_core.config.keys import key_facts
from maporl_core.config.load import config_warnings, load_config, preset_names

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text(encoding="utf-8")


def test_the_page_lists_every_key_with_its_default_and_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "keys", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == len(key_facts()) + 2
    assert PAGE.endswith(printed), (
        "the table at the end is what maporl config keys --markdown prints"
    )


def test_the_page_lists_every_preset() -> None:
    assert set(re.findall(r"^\| `([a-z0-9.-]+)` \| (?:pocket|gsm8k|anli)", PAGE, re.M)) == set(
        preset_names()
    )


SETS = [word for line in re.findall(r"`(--set [^`]+)`", PAGE) for word in shlex.split(line)[1::2]]


@pytest.mark.parametrize("override", SETS)
def test_every_override_on_the_page_works(override: str) -> None:
    load_config("pocket", [override])


def test_overrides_are_found_on_the_page() -> None:
    assert len(SETS) == 9


def test_the_extending_file_on_the_page_works(tmp_path: Path) -> None:
    block = PAGE[PAGE.index('    extends = "gsm8k"') : PAGE.index("Every agent speaks")]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(line.removeprefix("    ") for line in block.splitlines()))
    config = load_config(path)
    assert [agent.role.split()[1] for agent in config.agents] == ["solve", "look"]
    assert config_warnings(config) == []
    assert (config.update.lr, config.method.kl_coef) == (1e-4, 0.002)
