"""Who speaks when and reads what: a topology per file, all as ``base.Topology`` says."""

from __future__ import annotations

from maporl_core.config.kinds import Section
from maporl_core.rollout.topology.base import Topology
from maporl_core.rollout.topology.everybody import Everybody


def make_topology(turns: int) -> Topology:
    """The topology of a run whose discussions have ``turns`` turns."""
    return Everybody(Section(), turns)
