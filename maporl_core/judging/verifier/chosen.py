"""From the [verifier] section of the config to a verifier that needs no model.

The learned one is a policy on a base; ``assembly`` makes it with ``placing`` and ``saved``.
"""

from __future__ import annotations

from maporl_core.config.doors import VERIFIERS
from maporl_core.config.verifier import VerifierConfig
from maporl_core.judging.verifier.base import Verifier


def make_verifier(config: VerifierConfig) -> Verifier:
    """The verifier that ``config.kind`` names, of those that need no model."""
    made: Verifier = VERIFIERS.find(config.kind).made(config)
    return made
