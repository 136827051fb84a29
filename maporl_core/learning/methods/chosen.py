"""From a config to its method.  No torch in here."""

from __future__ import annotations

from maporl_core.config.schema import RunConfig
from maporl_core.learning.methods.base import Method
from maporl_core.learning.methods.mappo import Mappo


def method_of(config: RunConfig) -> Method:
    """The method that trains this run."""
    given = config.method.model_dump()
    shared = {key: given[key] for key in Mappo.Options.model_fields if key in given}
    return Mappo(Mappo.Options.model_validate(shared), config)
