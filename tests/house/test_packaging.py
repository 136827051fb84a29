"""What is installed is what is declared, pinned and shipped."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from source_imports import imports

import maporl_core

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]

INSTALLED_BY_MAKE = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *EXTRAS["dev"],
    *EXTRAS["tasks"],
]

PULLED_IN = {
    "accelerate": "transformers places a model on its device with it",
}
"""Declared though no module imports them, and why."""

# Of other platforms or builds of torch than the pinned one.
ELSEWHERE = re.compile(r"^(nvidia-|cuda-|triton$|colorama$|tzdata$|setuptools$)")


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            found[canonicalize_name(name)] = Version(version)
    return found


def test_constraints_are_plain_pins_without_doubles() -> None:
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line), line
    assert len(lines) == len(pins())


@pytest.mark.parametrize("text", INSTALLED_BY_MAKE)
def test_pin_lies_in_the_declared_range(text: str) -> None:
    requirement = Requirement(text)
    assert requirement.specifier, f"{text}: say from which version on"
    pin = pins().get(canonicalize_name(requirement.name))
    assert pin is not None, f"{requirement.name} has no pin"
    assert pin in requirement.specifier


def needed(requirements: list[str]) -> Iterator[str]:
    """Names of everything that ``requirements`` bring along, as installed here."""
    todo = [(Requirement(text), frozenset[str]()) for text in requirements]
    seen = set()
    while todo:
        requirement, extras = todo.pop()
        if requirement.marker is not None and not any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            continue
        name = canonicalize_name(requirement.name)
        wanted = frozenset(requirement.extras)
        if (name, wanted) in seen or ELSEWHERE.match(name):
            continue
        seen.add((name, wanted))
        yield name
        for text in importlib.metadata.requires(name) or []:
            todo.append((Requirement(text), wanted))


def test_everything_that_is_installed_is_pinned() -> None:
    missing = sorted(set(needed(INSTALLED_BY_MAKE)) - set(pins()))
    assert not missing, f"constraints.txt lacks {', '.join(missing)}"


def test_nothing_is_pinned_that_is_not_installed() -> None:
    idle = set(pins()) - set(needed([*INSTALLED_BY_MAKE, "editables"]))
    idle = {name for name in idle if not ELSEWHERE.match(name)}
    assert not idle, f"constraints.txt still pins {', '.join(sorted(idle))}"


def third_party(source: str) -> tuple[set[str], set[str]]:
    """Top names of other people's packages: imported with the module, and only when needed."""
    found = [(each.module.split(".")[0], each.late) for each in imports(source)]
    theirs = [
        (name, late)
        for name, late in found
        if name not in sys.stdlib_module_names and not name.startswith("maporl_")
    ]
    return {name for name, late in theirs if not late}, {name for name, _ in theirs}


def import_name(requirement: str) -> str:
    return Requirement(requirement).name.replace("-", "_")


def test_imports_are_told_apart_by_when_they_happen() -> None:
    source = "import numpy as np\nimport os\ndef f():\n    from wandb.sdk import init\n"
    assert third_party(source) == ({"numpy"}, {"numpy", "wandb"})


def test_every_import_is_declared() -> None:
    always = {import_name(text) for text in PROJECT["project"]["dependencies"]}
    optional = {
        import_name(text) for name, texts in EXTRAS.items() if name != "dev" for text in texts
    }
    for path in sorted([*ROOT.glob("maporl_core/**/*.py"), *ROOT.glob("maporl_tui/**/*.py")]):
        at_import, all_names = third_party(path.read_text("utf-8"))
        assert at_import <= always, f"{path.name} imports {sorted(at_import - always)}"
        assert all_names <= always | optional, (
            f"{path.name} imports {sorted(all_names - always - optional)}, which "
            "pyproject.toml does not name"
        )


def test_every_dependency_is_used() -> None:
    used: set[str] = set()
    for package in ("maporl_core", "maporl_tui"):
        for path in (ROOT / package).rglob("*.py"):
            used |= third_party(path.read_text("utf-8"))[1]
    for text in PROJECT["project"]["dependencies"]:
        name = Requirement(text).name
        assert (import_name(text) in used) != (name in PULLED_IN), name


@pytest.mark.parametrize("command", sorted(PROJECT["project"]["scripts"]))
def test_command_points_at_a_function(command: str) -> None:
    module, _, function = PROJECT["project"]["scripts"][command].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_wheel_holds_every_file_of_the_packages(wheel: zipfile.ZipFile) -> None:
    here = {
        path.relative_to(ROOT).as_posix()
        for package in ("maporl_core", "maporl_tui")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    here |= {f"maporl_tui/themes/{path.name}" for path in (ROOT / "themes").glob("*.toml")}
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == here
    assert "maporl_core/config/presets/pocket.toml" in shipped
    assert "maporl_core/models/built_in/pocket/model.safetensors" in shipped


def test_wheel_carries_licence_commands_and_version(wheel: zipfile.ZipFile) -> None:
    info = f"maporl-{maporl_core.__version__}.dist-info"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    commands = wheel.read(f"{info}/entry_points.txt").decode()
    assert "maporl = maporl_core.cli.main:main" in commands
    assert f"\nVersion: {maporl_core.__version__}\n" in wheel.read(f"{info}/METADATA").decode()
