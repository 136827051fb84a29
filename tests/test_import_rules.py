"""Who may import whom: these tables are the specification, docs/architecture.md explains them.

A part is a module or package directly under maporl_core.  Every part is in exactly one table, so a
new one has to say where it belongs.  An import inside a function counts like one at the top.
"""

from __future__ import annotations

import graphlib
import subprocess
import sys
from pathlib import Path

import pytest
from source_imports import imports

ROOT = Path(__file__).parent.parent

LEAVES = {
    "types": set(),
    "errors": set(),
    "config_types": set(),
    "config_verifier": {"config_types"},
    "config": {"config_types", "config_verifier"},
    "seeds": set(),
    "plain_text": set(),
    "user_paths": set(),
    "offline": set(),
    "padding": set(),
    "token_logprobs": set(),
    "progress": {"types"},
    "control": {"errors"},
    "pairing": {"types"},
}
"""Contracts and small helpers: free for everyone, and importing nothing but what is named."""

STAGES = {
    "config_keys": set(),
    "config_errors": {"config_keys"},
    "config_set": {"config_keys"},
    "config_files": set(),
    "config_load": {"config_errors", "config_files", "config_set"},
    "tasks": set(),
    "prompts": set(),
    "chat": set(),
    "context": {"chat", "prompts"},
    "engine": set(),
    "discussion": {"chat", "context", "engine.base", "prompts"},
    "verifier": {
        *("adapter_files", "chat", "policy"),
        *("store.checkpoint", "store.failures", "store.manifest"),
    },
    "rewards": set(),
    "advantages": set(),
    "losses": set(),
    "packing": set(),
    "lora": set(),
    "policy": {"chat", "lora"},
    "base_update": {"advantages", "losses", "packing", "policy"},
    "update": {"base_update", "losses", "packing", "policy"},
    "metrics": set(),
    "store": set(),
    # Where models come from: the built-in ones are taught with the task's own text and prompts.
    "pocket": {"chat", "prompts", "tasks.pocket"},
    "models": {"pocket", "policy"},
    "adapter_files": {"lora", "policy"},
    "step_report": {"metrics", "packing"},
    "watch": {"discussion", "store"},
    "doctor": {"config_load", "pocket"},
    "run_state": {"adapter_files", "policy", "store", "update"},
    "saving": {"config_load", "run_state", "store", "update"},
}
"""Stages: beside the leaves and their own package, only what is named."""

COMPOSERS = {
    *("ask", "assembly", "session", "train", "evaluate", "debate", "cli", "__main__"),
    *("verifier_data", "verifier_fit", "verifier_score", "verifier_run"),
}
"""The pages that put stages together: any part of the core."""

TUI_MAY_IMPORT = {
    *("config", "config_load", "config_keys", "config_errors", "types", "errors", "plain_text"),
    "rewards",  # pure: the app explains a reward by the very rules that paid it
    "pairing",
    "store.reader",
}
"""All that the terminal app sees of the core: contracts, pure helpers and the reader."""

HEAVY = ("torch", "transformers", "peft", "datasets", "accelerate", "textual")
"""What takes seconds to import; no command line or app waits for it before it is needed."""

LIGHT_PARTS = (
    "types",
    "errors",
    "config_types",
    "config",
    "config_verifier",
    "config_files",
    "config_keys",
    "config_errors",
    "config_set",
    "config_load",
    "plain_text",
    "user_paths",
    "prompts",
    "progress",
    "store",
    "cli",
)


def modules(package: str) -> dict[str, Path]:
    """Every module of a package: dotted name → file."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


CORE = modules("maporl_core")
TUI = modules("maporl_tui")


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
        "from maporl_core import losses, __version__\n"
        "def f():\n"
        "    from maporl_core.store.reader import Reader\n"
        "importlib.import_module('maporl_core.train')\n"
    )
    assert of_core(source) == {"losses", "store.reader", "train"}
    assert "torch.nn" in imported(source, CORE)
    with pytest.raises(ValueError, match="not relative"):
        imported("from . import losses", CORE)


def test_a_name_is_allowed_with_all_below_it_but_nothing_beside_it() -> None:
    assert within("store.reader", {"store"})
    assert not within("store", {"store.reader"})
    assert not within("storehouse", {"store"})


def test_every_part_has_one_place_in_the_tables() -> None:
    tables = (set(LEAVES), set(STAGES), COMPOSERS)
    for name in PARTS:
        assert sum(name in table for table in tables) == 1, (
            f"maporl_core.{name}: give it one place in the tables of {Path(__file__).name}"
        )
    assert set().union(*tables) <= set(PARTS), "the tables name parts that do not exist"


@pytest.mark.parametrize("name", [name for name in PARTS if name in LEAVES])
def test_leaf_imports_only_what_it_may(name: str) -> None:
    for module, source in sources(name).items():
        extra = {n for n in of_core(source) if not within(n, LEAVES[name] | {name})}
        assert not extra, f"{module} is a leaf and imports {sorted(extra)}"


@pytest.mark.parametrize("name", [name for name in PARTS if name in STAGES])
def test_stage_imports_only_what_it_may(name: str) -> None:
    allowed = set(LEAVES) | STAGES[name] | {name}
    for module, source in sources(name).items():
        extra = {n for n in of_core(source) if not within(n, allowed)}
        assert not extra, (
            f"{module} imports {sorted(extra)}: stages do not know each other; let train, "
            "evaluate or assembly hand over what it needs"
        )


@pytest.mark.parametrize("name", sorted(STAGES))
def test_tables_allow_nothing_that_is_not_used(name: str) -> None:
    used = {n for source in sources(name).values() for n in of_core(source)}
    idle = {a for a in STAGES[name] if not any(within(n, {a}) for n in used)}
    assert not idle, f"{name} no longer imports {sorted(idle)}: take it out of the table"


def test_parts_import_each_other_in_one_direction() -> None:
    graph = {
        name: {part(n) for source in sources(name).values() for n in of_core(source)} - {name}
        for name in PARTS
    }
    list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names a cycle


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


def loaded_by(names: list[str]) -> set[str]:
    """Heavy packages that a fresh process holds after importing ``names``."""
    code = f"import sys\nfor name in {names!r}: __import__(name)\n"
    code += f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_light_parts_load_nothing_heavy() -> None:
    names = [name for name in CORE if part(name) in LIGHT_PARTS]
    assert len(names) > len(LIGHT_PARTS)
    assert loaded_by(names) == set()


def test_app_loads_no_model_library() -> None:
    assert loaded_by(sorted(TUI)) == {"textual"}


def test_heavy_imports_are_noticed() -> None:
    assert "torch" in loaded_by(["maporl_core.policy"])
