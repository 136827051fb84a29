"""``--set a.b=c``: what it may say, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.config.load import load_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError


def value(config: RunConfig, key: str) -> Any:
    """The value at a dotted key, as the config gives it."""

    def enter(node: Any, part: str) -> Any:
        if isinstance(node, tuple):
            return node[int(part)]
        return node[part] if isinstance(node, dict) else getattr(node, part)

    return reduce(enter, key.split("."), config)


def outcome(work: Callable[[], object]) -> object:
    """What ``work`` returns, or the message of its ConfigError; anything else it raises fails."""
    try:
        return work()
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    ("override", "key", "expected"),
    [
        ("train.steps=20", "train.steps", 20),
        (" train . steps = 20 ", "train.steps", 20),
        ("update.lr=1e-4", "update.lr", 1e-4),
        ("update.lr=1", "update.lr", 1.0),
        ("discussion.feedback=false", "discussion.feedback", False),
        ("update.schedule=cosine", "update.schedule", "cosine"),
        ('update.schedule="cosine"', "update.schedule", "cosine"),
        ("bases.main.model=org/name-1.5", "bases.main.model", "org/name-1.5"),
        ("bases.main.model=a=b", "bases.main.model", "a=b"),
        ("task.path=2024-01-01", "task.path", "2024-01-01"),
        ("name=2024", "name", "2024"),
        ("agents.0.role=Be brief, please [ok]", "agents.0.role", "Be brief, please [ok]"),
        ("agents.Bo.role=x", "agents.1.role", "x"),
        ('agents.Bo.role="two\\nlines"', "agents.1.role", "two\nlines"),
        ("agents.Bo.role=''", "agents.1.role", ""),
        ("train.train_agents=[Ada, Bo]", "train.train_agents", ("Ada", "Bo")),
        ('train.train_agents=["Ada"]', "train.train_agents", ("Ada",)),
        ("task.rounds=[1,3]", "task.rounds", (1, 3)),
        (
            "policies.Ada.target_modules=[q_proj, v_proj]",
            "policies.Ada.target_modules",
            ("q_proj", "v_proj"),
        ),
        ("policies.Ada.target_modules=all-linear", "policies.Ada.target_modules", "all-linear"),
        ("task.options={a = 1, b = [x, y z]}", "task.options", {"a": 1, "b": ["x", "y z"]}),
        ("task.options.deep.er=3", "task.options", {"deep": {"er": 3}}),
        ('task.options."a.b"=3', "task.options", {"a.b": 3}),
        ("bases.other.model=pocket-b", "bases.other.model", "pocket-b"),
    ],
)
def test_values_are_toml_and_words_need_no_quotes(override: str, key: str, expected: Any) -> None:
    found = value(load_config("pocket", [override]), key)
    assert found == expected
    assert type(found) is type(expected)


def test_later_overrides_win_and_earlier_ones_stay() -> None:
    config = load_config("pocket", ["train.steps=1", "seed=4", "train.steps=2"])
    assert (config.train.steps, config.seed) == (2, 4)


def test_nothing_after_the_equals_sign_puts_the_default_back() -> None:
    assert load_config("pocket", ["update.lr="]).update.lr == RunConfig().update.lr
    assert load_config("pocket", ["task.limit=5", "task.limit="]).task.limit is None


def test_an_agent_can_be_added_to_the_defaults_or_taken_out() -> None:
    names = [agent.name for agent in load_config("pocket", ["agents.Bo="]).agents]
    assert names == ["Ada", "Cy"]


def test_a_part_of_a_default_section_can_be_changed(tmp_path: Any) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    config = load_config(empty, ["agents.2.role=r", "bases.main.dtype=float32"])
    assert [agent.name for agent in config.agents] == ["Ada", "Bo", "Cy"]
    assert config.agents[2].role == "r"
    assert (config.bases["main"].model, config.bases["main"].dtype) == ("pocket", "float32")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("foo", "write it as key=value"),
        ("=3", "write it as key=value"),
        ("a..b=3", "write it as key=value"),
        ("stpes=3", "did you mean train.steps?"),
        ("train.stpes=3", "did you mean train.steps?"),
        ("train.steps.more=3", "train.steps is a single value"),
        ("agents.Max.role=x", "agents: no entry 'Max'; there are: 0 (Ada), 1 (Bo), 2 (Cy)"),
        ("agents.9.role=x", "no entry '9'"),
        ("train.train_agents=[Ada", "not a TOML value"),
        ('agents.0.role="open', "not a TOML value"),
        ("train.steps=1\nseed=2", "train.steps: must be a whole number"),
        ("train.steps=" + "9" * 5000, "train.steps: must be a whole number"),
        ("task.rounds=[4]", "task.rounds.0: must be 1, 2 or 3 (got 4)"),
        ("policies.a b.rank=3", "policies.a b: must be a name"),
    ],
)
def test_mistakes_are_one_line(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("pocket", [override])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


keys = st.sampled_from(
    ["train.steps", "agents.0", "agents", "bases", "task.options", "update.lr", "x"]
)


@given(keys, st.text(max_size=12) | st.text("[]{},='\"\\ a1.", max_size=12))
def test_no_override_whatever_raises_anything_but_config_errors(key: str, text: str) -> None:
    assert outcome(lambda: load_config("pocket", [f"{key}={text}"]))


@given(st.text(max_size=20))
def test_no_text_whatever_as_an_override_raises_anything_but_config_errors(text: str) -> None:
    assert outcome(lambda: load_config("pocket", [text]))
