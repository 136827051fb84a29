"""Everything that may be added from outside: one table of registries, one line per own kind.

Neighbours: ``kit.registry`` finds kinds, ``config.kinded`` reads their options into a run
description.  docs/extending.md says how a kind of each registry is made.  Names of modules are
texts here, imported when a kind is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

from maporl_core.kit.registry import Registry

METHODS = Registry(
    "method.kind",
    "maporl.methods",
    {"mappo": "maporl_core.learning.methods.mappo:Mappo"},
    has=("plan", "group"),
)
TOPOLOGIES = Registry(
    "topology.kind",
    "maporl.topologies",
    {"all": "maporl_core.rollout.topology.everybody:Everybody"},
    has=("next", "reads", "longest"),
)
REWARDS = Registry(
    "reward.kind",
    "maporl.rewards",
    {"maporl": "maporl_core.judging.rewards.maporl:Maporl"},
    has=("pay", "explain", "counts"),
)
VERIFIERS = Registry(
    "verifier.kind",
    "maporl.verifiers",
    {
        "rule": "maporl_core.judging.verifier.own_kinds:Rule",
        "noisy": "maporl_core.judging.verifier.own_kinds:Noisy",
        "learned": "maporl_core.judging.verifier.own_kinds:Learned",
        "mixed": "maporl_core.judging.verifier.own_kinds:Mixed",
    },
)
ENGINES = Registry(
    "engine.kind",
    "maporl.engines",
    {
        "auto": "maporl_core.rollout.engine.own_kinds:Auto",
        "in_process": "maporl_core.rollout.engine.own_kinds:InProcess",
    },
)
TASKS = Registry(
    "task.name",
    "maporl.tasks",
    {
        "pocket": "maporl_core.tasks.own_kinds:Pocket",
        "gsm8k": "maporl_core.tasks.own_kinds:Gsm8k",
        "tinygsm": "maporl_core.tasks.own_kinds:TinyGsm",
        "anli": "maporl_core.tasks.own_kinds:Anli",
        "jsonl": "maporl_core.tasks.own_kinds:Jsonl",
        "gym": "maporl_core.tasks.own_kinds:Gym",
        "verifiers": "maporl_core.tasks.own_kinds:Verifiers",
    },
)

BENCHES = Registry(
    "bench",
    "maporl.benches",
    {
        "store": "maporl_core.experiments.bench.store_kind:StoreBench",
        "app": "maporl_core.experiments.bench.app_kind:AppBench",
    },
    has=("measure",),
)

REGISTRIES: Mapping[str, Registry] = {
    registry.section: registry
    for registry in (TASKS, TOPOLOGIES, VERIFIERS, REWARDS, METHODS, ENGINES)
}
"""Section → its registry, in the order of the sections."""

DOORS: Mapping[str, Registry] = {**REGISTRIES, "bench": BENCHES}
"""All registries, also those that no section of a run description chooses from."""
