"""Who speaks when and reads what: a topology per file, all as ``base.Topology`` says."""

from __future__ import annotations

from maporl_core.config.doors import TOPOLOGIES
from maporl_core.config.schema import TopologyConfig
from maporl_core.rollout.topology.base import Topology


def make_topology(turns: int, options: TopologyConfig | None = None) -> Topology:
    """The topology of a run whose discussions have ``turns`` turns; by default "all"."""
    options = options or TopologyConfig()
    made: Topology = TOPOLOGIES.find(options.kind).made(options, turns)
    return made
