"""Sources of a run description: presets, files, what they extend, and what is wrong with them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.config.load import (
    build_config,
    config_warnings,
    dump_toml,
    load_config,
    override_config,
    parse_toml,
    plain,
    preset_names,
    preset_summary,
)
from maporl_core.config.resumable import HARMLESS_KEYS, check_resumable, config_diff
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def fault(source: str | Path | None = None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)
    return str(caught.value)


def outcome(work: Callable[[], object]) -> object:
    """What ``work`` returns, or the message of its ConfigError; anything else it raises fails."""
    try:
        return work()
    except ConfigError as error:
        return str(error)


# Presets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_is_named_after_itself_and_has_nothing_idle(name: str) -> None:
    config = load_config(name)
    assert config.name == name
    assert config_warnings(config) == []
    assert preset_summary(name)


def test_the_named_presets_are_there_and_pocket_is_the_default() -> None:
    wanted = {"pocket", "pocket-long", "pocket-verifier", "pocket-hetero"}
    wanted |= {"smollm2", "gsm8k", "anli", "qwen-0.5b"}
    assert set(preset_names()) == wanted
    assert preset_names()[0] == "pocket"
    assert load_config(None) == load_config("pocket")


def test_pocket_presets_need_nothing_from_a_network() -> None:
    for name in ("pocket", "pocket-long", "pocket-verifier", "pocket-hetero"):
        config = load_config(name)
        assert config.task.name == "pocket"
        assert {base.model for base in config.bases.values()} <= {"pocket", "pocket-b"}


def test_the_published_presets_have_the_published_settings() -> None:
    for name in ("gsm8k", "anli"):
        config = load_config(name)
        base = config.bases["main"]
        assert (base.model, base.quantize) == ("microsoft/Phi-3-mini-128k-instruct", "4bit")
        for policy in config.resolved_policies().values():
            assert (policy.rank, policy.alpha, policy.dropout) == (8, 16.0, 0.05)
        assert (config.update.lr, config.method.kl_coef, config.method.value_coef) == (
            1e-5,
            0.002,
            0.1,
        )
        assert (config.update.epochs, config.train.steps) == (4, 100)
        assert config.train.steps * config.train.problems_per_step == 12_800
    assert load_config("anli").task.rounds == (3,)


def test_agents_of_the_hetero_preset_stand_on_two_bases() -> None:
    policies = load_config("pocket-hetero").resolved_policies()
    assert {policy.base for policy in policies.values()} == {"main", "other"}


def test_a_preset_word_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    assert load_config("pocket").name == "pocket"


def test_an_unknown_preset_names_the_nearest_one() -> None:
    assert "did you mean 'gsm8k'?" in fault("gsm8")


def test_a_word_that_is_no_preset_but_a_file_or_folder_here_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("seed = 1")
    (tmp_path / "stuff").mkdir()
    assert "write ./mine" in fault("mine")
    assert "stuff is a folder here" in fault("stuff")
    assert load_config("./mine").seed == 1


# Files ------------------------------------------------------------------------------------------


def test_a_file_is_named_after_itself_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert load_config(write(tmp_path / "first try.toml", "seed = 1")).name == "first-try"
    assert load_config(write(tmp_path / "b.toml", 'name = "other"')).name == "other"
    assert load_config(tmp_path / "b.toml", name="chosen").name == "chosen"


def test_a_file_may_extend_a_preset_and_gives_only_what_differs(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", 'extends = "pocket"\n[train]\nsteps = 7\n')
    assert config_diff(load_config("pocket"), load_config(path)) == ["name", "train.steps"]


def test_a_file_may_extend_a_file_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "base.toml", "seed = 5\n[update]\nlr = 0.5\n")
    child = write(tmp_path / "child.toml", 'extends = "base.toml"\n[update]\nepochs = 9\n')
    config = load_config(child)
    assert (config.seed, config.update.lr, config.update.epochs) == (5, 0.5, 9)


def test_lists_of_an_extended_file_are_replaced_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "two.toml", 'extends = "pocket"\n[[agents]]\nname = "Max"\n')
    assert [agent.name for agent in load_config(path).agents] == ["Max"]


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", 'extends = "b.toml"')
    write(tmp_path / "b.toml", 'extends = "a.toml"')
    assert "circle" in fault(tmp_path / "a.toml")


def test_a_syntax_error_shows_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.toml", "seed = 1\n[train\nsteps = 3\n")
    message = fault(path)
    assert f"{path} line 2: " in message
    assert message.endswith(": [train")
    assert "\n" not in message


def test_a_file_that_breaks_off_shows_its_last_line(tmp_path: Path) -> None:
    assert "line 1" in fault(write(tmp_path / "cut.toml", 'name = "abc'))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name = \"a\"\nx = '\xff'", "line 2: not UTF-8"),
        (b"seed = " + b"9" * 5000, "integer string conversion"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * ((1 << 20) + 1), "over 1 MiB"),
        (b"extends = 3", "extends must be"),
    ],
)
def test_hostile_files_are_one_clear_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(content)
    message = fault(path)
    assert words in message
    assert len(message) < 600
    assert "\n" not in message


def test_a_missing_file_and_a_run_folder_are_explained(tmp_path: Path) -> None:
    assert "no file" in fault(tmp_path / "none.toml")
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "config.toml", "")
    assert f"its config is {tmp_path / 'run' / 'config.toml'}" in fault(str(tmp_path / "run"))


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path / "empty.toml", "")) == RunConfig(name="empty")


# What is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[train]\nstpes = 3", "train.stpes: unknown key; did you mean train.steps?"),
        ("lr = 3", "lr: unknown key; did you mean update.lr?"),
        (
            "[bases.main]\nmodle = 'x'",
            "bases.main.modle: unknown key; did you mean bases.main.model?",
        ),
        (
            "[[agents]]\nname='A'\nroel=''",
            "agents.0.roel: unknown key; did you mean agents.0.role?",
        ),
        ("[policies.A]\nrnk=1", "policies.A.rnk: unknown key; did you mean policies.A.rank?"),
        ("[train]\nsteps = -1", "train.steps: must be at least 0 (got -1)"),
        ("[train]\nsteps = '3'", "train.steps: must be a whole number (got '3')"),
        ("[train]\nsteps = 0.5", "train.steps: must be a whole number (got 0.5)"),
        ("[train]\nsteps = true", "train.steps: must be a whole number (got True)"),
        ("[update]\nlr = 0", "update.lr: must be above 0 (got 0)"),
        ("[update]\nlr = nan", "update.lr: must be a finite number (got nan)"),
        ("[update]\nlr = '1e-4'", "update.lr: must be a number (got '1e-4')"),
        ("[reward]\ngamma = 1.5", "reward.gamma: must be at most 1 (got 1.5)"),
        ("train = 3", "train: must be a table (got 3)"),
        ("agents = 'Ada'", "agents: must be a list (got 'Ada')"),
        ("agents = []", "agents: at least one agent is needed"),
        ("agents = [{role = 'x'}]", "agents.0.name: missing; every entry needs one"),
        ("agents = [{name='A'},{name='A'}]", "agents: name used twice: A"),
        ("name = '../x'", "name: must be a name"),
        (
            "[update]\nschedule = 'cosin'",
            "update.schedule: must be 'constant', 'linear' or 'cosine' "
            "(got 'cosin'; did you mean 'cosine'?)",
        ),
        (
            "[policies.Ada]\ntarget_modules = 3",
            "policies.Ada.target_modules: must be 'all-linear' or a list (got 3)",
        ),
    ],
)
def test_each_mistake_is_one_line_with_its_key(tmp_path: Path, text: str, line: str) -> None:
    message = fault(write(tmp_path / "bad.toml", text))
    assert message.startswith(line)
    assert "\n" not in message


def test_several_mistakes_are_one_line_each_and_the_rest_is_counted(tmp_path: Path) -> None:
    keys = "".join(f"k{i} = 1\n" for i in range(9))
    lines = fault(write(tmp_path / "bad.toml", keys)).splitlines()
    assert len(lines) == 6
    assert lines[-1] == "… and 4 more"


def test_control_codes_of_a_file_do_not_reach_the_message(tmp_path: Path) -> None:
    message = fault(write(tmp_path / "x.toml", '"\\u001b[31mred" = 1\n'))
    assert "\x1b" not in message
    assert message.startswith("red: unknown key")


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*RunConfig.model_fields, "", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*RunConfig.model_fields, "x"]), json_like, max_size=4))
def test_no_tables_whatever_raise_anything_but_config_errors(data: dict[str, object]) -> None:
    assert outcome(lambda: build_config(data))


@given(st.text(max_size=60))
def test_no_text_whatever_raises_anything_but_config_errors(text: str) -> None:
    assert outcome(lambda: parse_toml(text, "text")) is not None


# Writing, comparing -----------------------------------------------------------------------------

roles = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    role=roles,
    lr=st.floats(min_value=1e-300, max_value=1.0),
    seed=st.integers(0, 2**63 - 1),
    option=st.dictionaries(roles, st.integers() | roles | st.lists(st.booleans(), max_size=2)),
    trained=st.none() | st.just([]) | st.just(["Ada"]),
)
def test_written_configs_load_back_exactly(
    role: str, lr: float, seed: int, option: dict[str, object], trained: list[str] | None
) -> None:
    config = build_config(
        {
            "seed": seed,
            "agents": [{"name": "Ada", "role": role}],
            "update": {"lr": lr},
            "task": {"options": option},
            "train": {"train_agents": trained},
        }
    )
    assert build_config(tomllib.loads(dump_toml(config))) == config


@pytest.mark.parametrize("name", preset_names())
def test_presets_load_back_exactly(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    assert load_config(write(tmp_path / "copy.toml", dump_toml(config))) == config


def test_differing_keys_are_dotted_and_sorted() -> None:
    config = load_config("pocket")
    other = override_config(
        config, ["update.lr=0.5", "agents.Bo.role=kind", "policies.Ada.rank=2", "train.steps=1"]
    )
    assert config_diff(config, config) == []
    changed = config_diff(config, other)
    assert changed == sorted(changed)
    assert {"agents.1.role", "policies.Ada.rank", "update.lr", "train.steps"} <= set(changed)
    assert "update.epochs" not in changed


def test_a_resumed_run_may_change_harmless_keys_only() -> None:
    config = load_config("pocket")
    check_resumable(config, override_config(config, ["train.steps=7", "eval.every=2", "name=x"]))
    check_resumable(config, override_config(config, ["verifier.gap_warn=0.5"]))
    with pytest.raises(ConfigError, match=r"other values of seed, update\.lr;"):
        check_resumable(config, override_config(config, ["update.lr=1", "seed=3", "train.steps=7"]))


def test_a_resumed_run_may_change_the_batch_of_a_base_s_own_engine_and_no_more() -> None:
    config = load_config("pocket")
    check_resumable(config, override_config(config, ["bases.main.engine.max_batch=64"]))
    other = build_config(plain(config) | {"bases": {"main": {"engine": {"kind": "in_process"}}}})
    with pytest.raises(ConfigError, match=r"other values of bases\.main\.engine\.kind;"):
        check_resumable(config, other)


def test_harmless_keys_exist() -> None:
    flat = load_config("pocket").model_dump()
    for key in HARMLESS_KEYS:
        section, _, leaf = key.rpartition(".")
        assert leaf in (flat[section] if section else flat)


def test_idle_policies_and_bases_and_untrainable_turns_are_pointed_out() -> None:
    config = load_config("pocket", ["policies.Adda.rank=4", "bases.mian.model=x"])
    first, second = config_warnings(config)
    assert first.startswith("policies.Adda: no agent speaks with it")
    assert second.startswith("bases.mian: no policy stands on it")
    own = ["bases.judge.model=pocket", "verifier.base=judge"]
    assert config_warnings(load_config("pocket-verifier", own)) == []
    assert (
        "nothing would be learned"
        in config_warnings(load_config("pocket", ["discussion.turns=1"]))[0]
    )
