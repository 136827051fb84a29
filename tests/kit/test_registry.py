"""Kinds are found by name, others' lazily; a broken one is one line that names its distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from maporl_core.errors import ConfigError
from maporl_core.kit import registry as page
from maporl_core.kit.registry import Kind, Registry

GOOD = """
from pydantic import BaseModel
class Good:
    says = "a good one"
    Options = BaseModel
    def work(self): ...
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose distributions are found, as in site-packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    page.points.cache_clear()
    yield tmp_path
    page.points.cache_clear()
    for name in [name for name in sys.modules if name.startswith("plug_")]:
        del sys.modules[name]


def install(site: Path, distribution: str, version: str, code: str, **kinds: str) -> None:
    """A distribution with one module and entry points in the group "test.workers"."""
    module = "plug_" + distribution.replace("-", "_")
    (site / f"{module}.py").write_text(code, encoding="utf-8")
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    facts = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(facts, encoding="utf-8")
    lines = [f"{name} = {module}:{what}" for name, what in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join(["[test.workers]", *lines]), encoding="utf-8")
    page.points.cache_clear()


def workers() -> Registry:
    own = {"mappo": "maporl_core.learning.methods.mappo:Mappo"}
    return Registry("work.kind", "test.workers", own, has=("work",))


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        workers().find(name)
    return str(caught.value)


def test_an_own_kind_is_found_with_the_version_of_this_package(site: Path) -> None:
    kind = workers().find("mappo")
    assert (kind.registry, kind.name, kind.distribution) == ("work", "mappo", "maporl")
    assert kind.says == "multi-agent PPO with a critic (MAPoRL)"


def test_a_kind_of_another_distribution_is_imported_only_when_it_is_chosen(site: Path) -> None:
    install(site, "plug-a", "1.2", GOOD, good="Good")
    registry = workers()
    assert registry.names() == ("mappo", "good")
    assert "plug_plug_a" not in sys.modules
    assert registry.loaded() == ("mappo",)
    kind = registry.find("good")
    assert (kind.distribution, kind.version, kind.says) == ("plug-a", "1.2", "a good one")
    assert registry.loaded() == ("mappo", "good")


def test_what_follows_a_colon_is_the_kinds_own_affair(site: Path) -> None:
    install(site, "plug-a", "1.2", GOOD, good="Good")
    assert workers().find("good:chain_sum").name == "good"


def test_an_unknown_kind_names_the_nearest(site: Path) -> None:
    install(site, "plug-a", "1", GOOD, good="Good")
    assert refusal("godo") == (
        "work.kind: must be 'mappo' or 'good' (got 'godo'; did you mean 'good'?)"
    )


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import no_such_thing", "cannot be imported: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("Other = 1", "cannot be imported: AttributeError"),
        ("Good = 3", "is neither a class nor a function"),
        ("class Good: ...", "lacks says, one line about it"),
        ("class Good: says = 'x'", "lacks Options, a pydantic model of its keys"),
        (GOOD.replace("work", "play"), "lacks work"),
    ],
)
def test_a_broken_kind_is_one_line_with_its_distribution(site: Path, code: str, what: str) -> None:
    install(site, "plug-b", "0.3", code, good="Good")
    said = refusal("good")
    assert said.startswith("work.kind = 'good': plug-b 0.3")
    assert what in said
    assert "\n" not in said


def test_a_broken_kind_stops_no_other(site: Path) -> None:
    install(site, "plug-a", "1", GOOD, fine="Good")
    install(site, "plug-b", "1", "1 / 0", bad="Good")
    found: dict[str, Kind] = {kind.name: kind for kind in workers().everything()}
    assert [name for name, kind in found.items() if kind.fault] == ["bad"]
    assert workers().find("fine").says == "a good one"


def test_a_name_that_two_distributions_give_cannot_be_chosen(site: Path) -> None:
    install(site, "plug-a", "1", GOOD, good="Good")
    install(site, "plug-b", "2", GOOD, good="Good", fine="Good")
    assert refusal("good") == (
        "work.kind = 'good': plug-a 1 and plug-b 2 both give it; uninstall one of them"
    )
    assert workers().find("fine").distribution == "plug-b"


def test_an_own_name_stays_own_and_the_other_is_told(site: Path) -> None:
    install(site, "plug-a", "1", GOOD, mappo="Good")
    registry = workers()
    assert registry.find("mappo").distribution == "maporl"
    assert [(k.distribution, k.fault) for k in registry.everything() if k.fault] == [
        ("plug-a", "plug-a 1 gives a name that maporl has itself")
    ]


def test_a_script_gives_its_own_process_a_kind(site: Path) -> None:
    class Mine:
        says = "mine"
        Options = BaseModel

        def work(self) -> None: ...

    registry = workers()
    registry.add("mine", Mine)
    registry.add("mine", Mine)  # a notebook's cell run again
    assert registry.names() == ("mappo", "mine")
    assert registry.find("mine").distribution == "a-script"
    with pytest.raises(ConfigError, match="the name 'mappo' is taken"):
        registry.add("mappo", Mine)
    with pytest.raises(ConfigError, match="is neither a class nor a function"):
        registry.add("other", 3)
