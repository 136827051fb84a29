"""Who may import whom: this table is the specification, docs/architecture.md explains it.

A room is a module or package directly under maporl_core.  An import inside a function counts like
one at the top.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from source_imports import imports

ROOT = Path(__file__).parents[2]

ROOMS: dict[str, str] = {
    "errors": "",
    "types": "",
    "kit": "errors types",
    "config": "errors types kit",
    "store": "errors types kit config",
    "tasks": "errors types kit config",
    "models": "errors types kit config",
    "rollout": "errors types kit config models",
    "judging": "errors types kit config store models rollout",
    "learning": "errors types kit config models rollout judging",
    "assembly": "errors types kit config store tasks models rollout judging learning",
    "runs": "errors types kit config store tasks models rollout judging learning assembly",
    "train": "errors types kit config store tasks models rollout judging learning assembly runs",
    "experiments": "errors types kit config store tasks models rollout judging learning assembly "
    "runs train",
    "cli": "errors types kit config store tasks models rollout judging learning assembly runs "
    "train experiments",
    "api": "errors types kit config store judging assembly runs train",
    "__main__": "cli",
}
"""Each room of maporl_core, lowest first, and the rooms that it may import beside itself."""

ATTIC: set[str] = set()
"""What still lies beside the rooms; it shrinks and stays empty."""

BREACHES: set[tuple[str, str]] = set()
"""(importing file, imported file) that break the table today; it shrinks and stays empty."""

TUI_MAY_IMPORT = {
    *("config", "types", "errors", "kit.plain_text", "kit.version"),
    *("kit.figures", "kit.finite", "kit.sparkline", "kit.user_paths"),
    "judging.rewards",  # pure: the app explains a reward by the very rules that paid it
    "judging.pairing",
    "store.reader",
}
"""All that the terminal app sees of the core: contracts, pure helpers and the reader."""

TUI_ROOMS: dict[str, str] = {
    "look": "",
    "drawing": "",
    "reading": "drawing",
    "processes": "drawing reading",
    "host": "processes reading",
    "widgets": "look drawing reading host",
    "screens": "look drawing reading processes host widgets",
    "app": "look drawing reading processes host widgets screens",
    "bench": "drawing reading host app",
    "__main__": "processes host app",
}
"""Each room of maporl_tui, lowest first, and the rooms that it may import beside itself."""

HEAVY = ("torch", "transformers", "peft", "datasets", "accelerate", "textual")
"""What takes seconds to import; no command line or app waits for it before it is needed."""

LIGHT = ("types", "errors", "config", "kit", "rollout.prompts", "store", "cli")
"""Rooms and modules that load none of ``HEAVY``."""


def modules(package: str) -> dict[str, Path]:
    """Every module of a package: dotted name → file."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


CORE = modules("maporl_core")
TUI = modules("maporl_tui")
TUI_SCREENS = ROOT / "maporl_tui" / "screens"


def imported(source: str, known: dict[str, Path]) -> set[str]:
    """Names that a module imports; "from a import b" is a.b where that is a module."""
    names = set()
    for found in imports(source):
        whole = f"{found.module}.{found.name}"
        names.add(whole if whole in known else found.module)
    return names


def of_core(source: str) -> set[str]:
    """Modules of the core that a module imports, without the package's name."""
    return {
        name.removeprefix("maporl_core.")
        for name in imported(source, CORE)
        if name.startswith("maporl_core.")
    }


def part(module: str) -> str:
    return module.removeprefix("maporl_core").removeprefix(".").split(".")[0]


def within(name: str, allowed: set[str]) -> bool:
    return any(name == a or name.startswith(a + ".") for a in allowed)


def sources(part_name: str) -> dict[str, str]:
    return {name: path.read_text("utf-8") for name, path in CORE.items() if part(name) == part_name}


PARTS = sorted({part(name) for name in CORE} - {""})


def test_imports_are_found_wherever_they_stand() -> None:
    source = (
        "import torch.nn as nn\n"
        "from maporl_core.learning import losses\nfrom maporl_core import __version__\n"
        "def f():\n"
        "    from maporl_core.store.reader import Reader\n"
        "importlib.import_module('maporl_core.train')\n"
    )
    assert of_core(source) == {"learning.losses", "store.reader", "train"}
    assert "torch.nn" in imported(source, CORE)
    with pytest.raises(ValueError, match="not relative"):
        imported("from . import losses", CORE)


def test_a_name_is_allowed_with_all_below_it_but_nothing_beside_it() -> None:
    assert within("store.reader", {"store"})
    assert not within("store", {"store.reader"})
    assert not within("storehouse", {"store"})


def breaches() -> set[tuple[str, str]]:
    """Every import between rooms that the table does not allow, as (file, imported file)."""
    found = set()
    for module, path in CORE.items():
        room = part(module)
        if room not in ROOMS:
            continue
        allowed = {room, *ROOMS[room].split()}
        for name in of_core(path.read_text("utf-8")):
            if part("maporl_core." + name) not in allowed | ATTIC:
                found.add((module.removeprefix("maporl_core."), name))
    return found


def test_everything_lies_in_a_room() -> None:
    beside = {name for name in PARTS if name not in ROOMS}
    assert beside == ATTIC, "give it a room, or take it off the list"


def test_rooms_import_only_what_lies_below() -> None:
    for importer, taken in sorted(breaches() - BREACHES):
        where = CORE["maporl_core." + importer].relative_to(ROOT)
        known = CORE.get("maporl_core." + taken)
        what = known.relative_to(ROOT) if known else taken
        pytest.fail(f"{where} imports {what}: {part('maporl_core.' + importer)} lies below it")
    assert not BREACHES - breaches(), "these are mended: take them off the list"


def test_rooms_stand_in_one_direction() -> None:
    seen: set[str] = set()
    for room, allowed in ROOMS.items():
        assert set(allowed.split()) <= seen, f"{room} may import only what stands above it here"
        seen.add(room)


def test_core_knows_no_app() -> None:
    for module, path in CORE.items():
        for name in imported(path.read_text("utf-8"), CORE):
            assert name.split(".")[0] not in {"textual", "maporl_tui"}, f"{module} imports {name}"


def test_app_sees_only_the_contracts_and_the_reader() -> None:
    for module, path in TUI.items():
        source = path.read_text("utf-8")
        extra = {n for n in of_core(source) if not within(n, TUI_MAY_IMPORT)}
        assert not extra, f"{module} imports {sorted(extra)} of the core"
        for name in imported(source, TUI):
            assert name.split(".")[0] not in {"torch", "transformers"}, f"{module} imports {name}"


def of_app(source: str) -> set[str]:
    """Modules of the app that a module imports, without the package's name."""
    found = {name for name in imported(source, TUI) if name.startswith("maporl_tui.")}
    return {name.removeprefix("maporl_tui.") for name in found}


def test_rooms_of_the_app_import_only_what_lies_below() -> None:
    for module, path in TUI.items():
        name = module.removeprefix("maporl_tui").removeprefix(".")
        room = name.split(".")[0]
        if not room:
            continue
        assert room in TUI_ROOMS, f"{path.relative_to(ROOT)} lies in no room"
        for taken in of_app(path.read_text("utf-8")):
            allowed = {room, *TUI_ROOMS[room].split()}
            where, what = (path.relative_to(ROOT), TUI["maporl_tui." + taken].relative_to(ROOT))
            assert taken.split(".")[0] in allowed, f"{where} imports {what}: {room} lies below it"
    seen: set[str] = set()
    for room, below in TUI_ROOMS.items():
        assert set(below.split()) <= seen, f"{room} may import only what stands above it here"
        seen.add(room)


def test_a_screen_knows_no_other_screen() -> None:
    for module, path in TUI.items():
        own = module.split(".")[2:3]
        if module.startswith("maporl_tui.screens.") and (TUI_SCREENS / own[0]).is_dir():
            for taken in of_app(path.read_text("utf-8")):
                room, _, rest = taken.partition(".")
                other = rest.split(".")[0]
                if room == "screens" and (TUI_SCREENS / other).is_dir():
                    assert other == own[0], f"{module} imports {taken}"


CIRCLES: set[tuple[str, str]] = set()
"""(importing file, imported file) that close a circle today; it shrinks and stays empty."""


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Files that import each other in a ring, the first found; empty where there is none."""
    done: set[str] = set()

    def below(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name in done:
            return []
        for taken in sorted(arrows.get(name, set())):
            if found := below(taken, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(arrows) if (found := below(name, []))), [])


def test_circles_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("known", [CORE, TUI], ids=["maporl_core", "maporl_tui"])
def test_no_files_import_each_other_in_a_circle(known: dict[str, Path]) -> None:
    arrows = {
        module: {n for n in imported(path.read_text("utf-8"), known) if n in known} - {module}
        for module, path in known.items()
        if path.name != "__init__.py"
    }
    for pair in CIRCLES:
        arrows.get(pair[0], set()).discard(pair[1])
    assert circle(arrows) == []


def loaded_by(names: list[str]) -> set[str]:
    """Heavy packages that a fresh process holds after importing ``names``."""
    code = f"import sys\nfor name in {names!r}: __import__(name)\n"
    code += f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_light_parts_load_nothing_heavy() -> None:
    names = [n for n in CORE if within(n.removeprefix("maporl_core."), set(LIGHT))]
    assert len(names) > len(LIGHT)
    assert loaded_by(names) == set()


def test_app_loads_no_model_library() -> None:
    assert loaded_by(sorted(TUI)) == {"textual"}


def test_heavy_imports_are_noticed() -> None:
    assert "torch" in loaded_by(["maporl_core.models.policy"])
