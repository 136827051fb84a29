"""From a config to its method.  No torch in here."""

from __future__ import annotations

from maporl_core.config.doors import METHODS
from maporl_core.config.schema import RunConfig
from maporl_core.learning.methods.base import Method


def method_of(config: RunConfig) -> Method:
    """The method that trains this run."""
    made: Method = METHODS.find(config.method.kind).made(config.method, config)
    return made
