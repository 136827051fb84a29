"""Keys of a section belong to the kind that is chosen in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import Field

from maporl_core.config import doors
from maporl_core.config.keys import key_facts
from maporl_core.config.kinded import json_schema
from maporl_core.config.kinds import Section, Weight
from maporl_core.config.load import build_config, dump_toml, load_config, override_config
from maporl_core.config.provenance import changed_since, missing
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.kit import registry as page
from maporl_core.learning.methods.mappo import MappoOptions


class OtherOptions(Section):
    strength: Weight = Field(2.0, description="how strong it is")


class Other:
    says = "another method"
    Options = OtherOptions

    def plan(self) -> None: ...
    def group(self) -> None: ...


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A method "other" of a distribution that is not known."""
    point = EntryPoint("other", f"{__name__}:Other", "maporl.methods")

    def points(group: str) -> tuple[EntryPoint, ...]:
        return (point,) if group == "maporl.methods" else ()

    monkeypatch.setattr(page, "points", points)
    monkeypatch.setattr(EntryPoint, "load", lambda _self: Other)
    monkeypatch.setattr(page, "_distribution", lambda _point: ("plug", "1.5"))
    found = dict(doors.METHODS._found)
    yield
    doors.METHODS._found.clear()
    doors.METHODS._found.update(found)


def test_the_default_section_is_of_its_default_kind() -> None:
    method = RunConfig().method
    assert isinstance(method, MappoOptions)
    assert method.kind == "mappo"
    assert RunConfig() == build_config({"method": {"kind": "mappo", "gae_lambda": 0.95}})


def test_options_made_in_code_are_taken_as_the_keys_of_the_default_kind() -> None:
    made = RunConfig.model_validate({"method": MappoOptions(kl_coef=0.5)}).method
    assert (made.kind, made.model_dump()["kl_coef"]) == ("mappo", 0.5)


@pytest.mark.usefixtures("other")
def test_a_chosen_kind_brings_its_own_keys_and_takes_the_others_away() -> None:
    config = load_config("pocket", ["method.strength=3", "method.kind=other"])
    assert config.method.model_dump() == {"kind": "other", "strength": 3.0}
    back = override_config(config, ["method.kind=mappo", "method.kl_coef=0.5"])
    assert isinstance(back.method, MappoOptions)
    assert back.method.kl_coef == 0.5


@pytest.mark.usefixtures("other")
def test_a_key_of_another_kind_is_refused_with_the_kind_that_has_it() -> None:
    with pytest.raises(ConfigError) as caught:
        build_config({"method": {"kind": "other", "gae_lambda": 0.5}})
    assert str(caught.value) == "method.gae_lambda: only method.kind = 'mappo' has this key"


@pytest.mark.usefixtures("other")
def test_keys_and_schema_know_what_was_chosen() -> None:
    build_config({"method": {"kind": "other"}})
    facts = {fact.key: fact for fact in key_facts()}
    assert facts["method.strength"].kinds == ("other",)
    assert facts["method.strength"].meaning == "how strong it is"
    assert facts["method.gae_lambda"].kinds == ("mappo",)
    assert facts["method.kind"].takes == "mappo, other"
    kinds: list[dict[str, Any]] = json_schema(RunConfig)["properties"]["method"]["anyOf"]
    assert ["strength" in kind["properties"] for kind in kinds] == [False, True]


def test_a_base_has_the_run_s_engine_unless_it_names_its_own() -> None:
    config = load_config(
        "pocket-hetero", ["engine.max_batch=60", "bases.other.engine.max_batch=10"]
    )
    first, second = config.bases
    assert config.engine_of(first) is config.engine
    assert (config.engine_of(second).kind, config.engine_of(second).max_batch) == ("auto", 10)
    assert build_config(tomllib.loads(dump_toml(config))) == config


def test_discussions_at_once_fit_every_engine() -> None:
    agents = {"agents": [{"name": name, "policy": name} for name in ("Ada", "Bo", "Cy", "Di")]}
    on = {"Ada": "left", "Bo": "left", "Cy": "left", "Di": "right"}
    policies = {"policies": {name: {"base": base} for name, base in on.items()}}

    def at_once(run: int, **own: int) -> int:
        bases = {
            base: {"engine": {"max_batch": own[base]}} if base in own else {}
            for base in ("left", "right")
        }
        return build_config(
            {**agents, **policies, "bases": bases, "engine": {"max_batch": run}}
        ).discussions_at_once()

    assert at_once(21) == 5  # 4 agents share 21 rows
    assert at_once(21, right=2) == 2  # 3 share 21 rows, the fourth has 2 of its own
    assert at_once(1, left=30, right=12) == 10
    assert at_once(3, right=1) == 1
    assert at_once(1) == 1


@pytest.fixture
def odd() -> Iterator[None]:
    """An engine "odd" with a key of its own, which this process alone has."""
    made = type("Odd", (), {"says": "odd", "Options": OtherOptions, "offers": frozenset()})
    doors.ENGINES.add("odd", made)
    yield
    del doors.ENGINES._found["odd"]


@pytest.mark.usefixtures("odd")
def test_a_base_s_own_engine_has_the_keys_of_its_kind() -> None:
    config = load_config("pocket", ["bases.main.engine.strength=3", "bases.main.engine.kind=odd"])
    assert config.engine_of("main").model_dump() == {
        "kind": "odd",
        "max_batch": 512,
        "strength": 3.0,
    }
    back = override_config(config, ["bases.main.engine.kind=in_process"])
    assert back.engine_of("main").model_dump() == {"kind": "in_process", "max_batch": 512}
    facts = {fact.key: fact for fact in key_facts()}
    assert facts["bases.<name>.engine.strength"].kinds == ("odd",)
    assert facts["bases.<name>.engine.kind"].meaning.endswith("default: as [engine] says")
    of_bases = json_schema(RunConfig)["$defs"]["EngineConfig"]["anyOf"]
    assert ["strength" in kind["properties"] for kind in of_bases] == [False, True]


@pytest.mark.usefixtures("odd")
def test_a_wrong_key_of_a_base_s_own_engine_is_named_with_its_base() -> None:
    build_config({"engine": {"kind": "odd"}})
    with pytest.raises(ConfigError) as caught:
        build_config({"bases": {"far": {"engine": {"kind": "auto", "strength": 1.0}}}})
    assert str(caught.value) == (
        "bases.far.engine.strength: only bases.far.engine.kind = 'odd' has this key"
    )
    for given, said in (
        ({"kind": "autp"}, "bases.far.engine.kind: must be 'auto', 'in_process'"),
        (
            {"max_bach": 3},
            "bases.far.engine.max_bach: unknown key; did you mean bases.far.engine.max_batch?",
        ),
        (3, "bases.far.engine: must be a table (got 3)"),
    ):
        with pytest.raises(ConfigError, match="^" + re.escape(said)):
            build_config({"bases": {"far": {"engine": given}}})


@pytest.mark.usefixtures("other")
def test_a_stored_description_says_which_version_of_what_it_needs() -> None:
    text = dump_toml(build_config({"method": {"kind": "other"}}))
    assert text.endswith("\n# method.kind = other comes from plug 1.5\n")
    assert changed_since(text) == []
    assert changed_since(text.replace("plug 1.5", "plug 1.4")) == [
        "method.kind = 'other' came from plug 1.4 and comes from plug 1.5 now: the run may go on "
        "differently"
    ]


def test_a_stored_description_whose_package_is_gone_names_it() -> None:
    text = "# method.kind = other comes from plug 1.5\n"
    assert missing(text) == [
        "method.kind = 'other' came from plug 1.5, which is not installed: install it to open "
        "this run"
    ]
    assert missing(dump_toml(RunConfig())) == []
    assert "#" not in dump_toml(RunConfig())


@pytest.mark.parametrize("section", ["topology", "verifier", "reward", "method", "engine"])
@pytest.mark.parametrize("given", ["3", "true", "[]", "{a = 1}"])
def test_a_kind_that_is_not_text_is_refused_in_a_line(section: str, given: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?m)^{section}\.kind: must be text \(got "):
        load_config("pocket", [f"{section}.kind={given}"])
