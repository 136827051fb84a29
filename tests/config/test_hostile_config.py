"""Run descriptions of every wrong kind: a valid run or one plain line per key, no traceback."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.cli.main import main
from maporl_core.config.keys import key_facts
from maporl_core.config.load import build_config, load_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError

NUMBERS = [
    fact.key.replace("<name>", "main" if fact.key.startswith("bases") else "Ada").replace(
        "<n>", "0"
    )
    for fact in key_facts()
    if "number" in fact.takes and "list" not in fact.takes
]


def fault(source: str | Path | None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)
    text = str(caught.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 1000
    return text


# Numbers ------------------------------------------------------------------------------------------


def test_number_keys_are_found() -> None:
    assert len(NUMBERS) > 40
    assert {"method.clip_low", "train.steps", "discussion.temperature"} <= set(NUMBERS)


@pytest.mark.parametrize("key", NUMBERS)
def test_every_number_has_both_bounds_and_takes_no_other_kind(key: str) -> None:
    for value in ("-9223372036854775809", "-1e308", "1e308", "10" * 200, "nan", "inf", "-inf"):
        fault("pocket", f"{key}={value}")
    for value in ("true", "[1]", "{a = 1}", "'1'", "2024-01-01", "one"):
        fault("pocket", f"{key}={value}")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("method.clip_low=1", "method.clip_low: must be below 1 (got 1)"),
        ("method.clip_low=0", "method.clip_low: must be above 0 (got 0)"),
        ("update.lr=2", "update.lr: must be at most 1 (got 2)"),
        ("update.epochs=0", "update.epochs: must be at least 1 (got 0)"),
        ("train.steps=10000000000", "train.steps: must be at most 1,000,000,000 (got"),
        ("discussion.turns=1000", "discussion.turns: must be at most 100 (got 1000)"),
        ("discussion.temperature=1e-300", "discussion.temperature: must be at least 0.01"),
        ("eval.temperature=0.001", "eval.temperature: must be 0 (greedy) or at least 0.01"),
        ("discussion.max_context=3", "discussion.max_context: must be at least 16"),
        ("policies.Ada.rank=0", "policies.Ada.rank: must be at least 1"),
        ("policies.Ada.dropout=1", "policies.Ada.dropout: must be below 1"),
        ("reward.gamma=-0.1", "reward.gamma: must be at least 0"),
        ("reward.format=-10", "reward.format: must be at least -1"),
        ("seed=-1", "seed: must be at least 0"),
        ("bases.main.model=''", "bases.main.model: must not be empty"),
        ("task.path=''", "task.path: must not be empty"),
        ("agents.0.role=" + "x" * 100_001, "agents.0.role: must be at most 100,000 characters"),
    ],
)
def test_bounds_are_told_in_words(override: str, words: str) -> None:
    assert words in fault("pocket", override)


def test_greedy_evaluation_stays_allowed() -> None:
    assert load_config("pocket", ["eval.temperature=0"]).eval.temperature == 0.0


# Names --------------------------------------------------------------------------------------------

BAD_NAMES = (
    *(
        "",
        " ",
        ".",
        "..",
        "a/b",
        "/a",
        "a\\b",
        "-x",
        "_x",
        ".x",
        "a b",
        "a\0b",
        "a\nb",
        "a\n",
        "\x1b[31m",
    ),
    *(
        "😀",
        "ü",
        "Ada\u200b",
        "\u202eAda",
        "\ud800",
        "x" * 65,
        "x" * 300,
        "a:b",
        "a*",
        "~",
        "$HOME",
    ),
)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_are_no_plain_words_are_refused_everywhere(name: str) -> None:
    for data in (
        {"name": name},
        {"agents": [{"name": name}]},
        {"agents": [{"name": "Ada", "policy": name}]},
        {"policies": {name: {}}},
        {"bases": {name: {}}},
    ):
        with pytest.raises(ConfigError) as caught:
            build_config(data)
        assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"agents": []}, "at least one agent is needed"),
        ({"agents": [{"name": "Ada"}, {"name": "Ada"}]}, "agents: name used twice: Ada"),
        ({"agents": [{"name": "Ada"}, {"name": "ADA"}]}, "differ only in capitals: Ada, ADA"),
        (
            {"agents": [{"name": "Ada"}], "policies": {"x": {}, "X": {}}},
            "policies: name differ only in capitals: x, X",
        ),
        ({"agents": [{"name": f"a{n}"} for n in range(4097)]}, "4097 of them; at most 4096"),
        ({"bases": {}}, "at least one base"),
        ({"train": {"train_agents": ["Max"]}}, "'Max' is not one of Ada, Bo, Cy"),
        ({"agents": [{"name": "Ada", "policy": "no"}]}, "names policy 'no'"),
        ({"policies": {"p": {"base": "no"}}}, "'no' is not one of main"),
    ],
)
def test_agents_policies_and_bases_that_cannot_be_are_refused(
    data: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["..", "a/b", "-x", "x" * 300, "", "a b", "\x1b[31m", "😀", "a\nb"]
)
def test_run_names_that_are_no_plain_words_leave_no_folder(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "runs"
    assert main(["run", "pocket", f"--name={name}", "--steps", "0", f"--root={root}"]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    assert "\x1b" not in shown.err
    assert list(tmp_path.rglob("*")) == []


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("seed = 1".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)), "not UTF-8 text"),
        (b"\x1f\x8b\x08\x00\x00", "line 1: not UTF-8 text"),
        (b'{"seed": 1}', "line 1: "),
        (b"seed = 1\nseed = 2", "line 2: "),
        (b"a.b = 1\na = 2", "line 2: "),
        (b"seed = 01", "line 1: "),
        (b"x = '''", "line 1: "),
        (b"\r\rseed", "line 1: "),
        (b"extends = 'no such preset'", "no preset 'no such preset'"),
        (b"extends = 'x/../../nowhere.toml'", "no file"),
        (b"extends = '~nobody-here/x.toml'", "no file"),
        (b"extends = ''", "extends must be"),
        (b"extends = [1]", "extends must be"),
    ],
)
def test_files_of_other_kinds_are_one_line_with_its_number(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    assert words in fault(path)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xef\xbb\xbfseed = 7\n")
    assert load_config(path).seed == 7


def test_folders_devices_and_links_in_circles_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "circle.toml").symlink_to(tmp_path / "circle.toml")
    assert "is a folder, not a TOML file" in fault(tmp_path / "folder.toml")
    assert "cannot read" in fault(tmp_path / "circle.toml")
    assert "over 1 MiB" in fault("/dev/zero")


@pytest.mark.parametrize(
    "source",
    ["", "~nobody-here/x.toml", "x" * 5000, "x" * 5000 + ".toml", "a\0b", "a\0b.toml", "\x1b"],
)
def test_sources_that_lead_nowhere_are_one_line(source: str) -> None:
    fault(source)


# Anything -----------------------------------------------------------------------------------------

odd = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from(["", "auto", "Ada", "a/b", "\x1b[31m", "x" * 5000, -1, 0, 1e-300, 10**400])
    | st.lists(st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


def outcome(work: Callable[[], RunConfig]) -> RunConfig | str:
    try:
        return work()
    except ConfigError as error:
        return str(error)


@given(st.dictionaries(st.sampled_from([fact.key for fact in key_facts()]), odd, max_size=5))
def test_any_value_at_any_key_is_a_run_or_a_line_per_key(values: dict[str, Any]) -> None:
    data: dict[str, Any] = {"agents": [{"name": "Ada"}]}
    for key, value in values.items():
        target: Any = data
        *path, leaf = key.replace("<name>", "Ada").replace("<n>", "0").split(".")
        for part in path:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        target[leaf] = value
    found = outcome(lambda: build_config(data))
    if isinstance(found, str):
        assert found
        assert "\x1b" not in found
        assert len(found.splitlines()) <= len(values) + 1
        return
    assert found.method.clip_low < 1
    for section in (found.update, found.method, found.reward, found.discussion):
        numbers = [v for v in section.model_dump().values() if isinstance(v, float)]
        assert all(math.isfinite(number) for number in numbers)


MALFORMED = (
    *(
        "",
        "=",
        "==",
        "a",
        ".",
        "a.",
        ".a=1",
        "a..b=1",
        "a=",
        "[a]=1",
        "train.steps",
        "train.steps:5",
    ),
    *("train.steps==5", "train.steps=5=6", "train=5", "agents=5", "agents.=5", "agents.-1.role=x"),
    *("agents.99999999999999999999.role=x", "agents.0=5", "agents.0.name=", "'=1", '"=1', '"a"b=1'),
    *("train.steps=[", "train.steps={", "train.steps='", 'train.steps="', "train.steps=#", "\0=1"),
    *("task.options=5", "task.options={a=}", "task.options.a.b.c=", "bases=[]", "bases.main=5"),
    *(
        "train.steps=0x",
        "train.steps=1_",
        "update.lr=1e",
        "update.lr=.",
        "\x1b[31m=1",
        "name=\x1b[31m",
    ),
)


@pytest.mark.parametrize("override", MALFORMED, ids=ascii)
def test_malformed_overrides_are_one_line_or_harmless(override: str) -> None:
    found = outcome(lambda: load_config("pocket", [override]))
    if isinstance(found, str):
        assert "\n" not in found
        assert "\x1b" not in found


def test_mangled_overrides_never_raise_anything_else() -> None:
    rng = random.Random(4)
    pieces = [*(fact.key for fact in key_facts()), *"=.[]{}'\"\\,# \n\0", "1", "-1", "true", "é"]
    for _ in range(1500):
        override = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 6)))
        assert outcome(lambda text=override: load_config("pocket", [text]))  # type: ignore[misc]


def test_more_agents_than_memory_is_forecast_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    agents = ", ".join(f"{{name = 'a{n}'}}" for n in range(300))
    changes = [
        f"--set=agents=[{agents}]",
        "--set=policies=",
        "--set=update.micro_tokens=1000000000",
    ]
    assert main(["doctor", "pocket", *changes]) == 4
    shown = capsys.readouterr()
    said = " ".join((shown.out + shown.err).split())
    assert "the forecast exceeds the free memory; lower update.micro_tokens" in said
    assert "Traceback" not in said
