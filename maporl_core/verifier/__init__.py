"""Verifiers: who scores messages, chosen by ``verifier.kind``.

In: the [verifier] section of the config.  Out: something with ``score`` (see ``base.Verifier``).
"""

from __future__ import annotations

from maporl_core.config import VerifierConfig
from maporl_core.verifier.base import Verifier
from maporl_core.verifier.noisy import NoisyVerifier
from maporl_core.verifier.rule import RuleVerifier

__all__ = ["NoisyVerifier", "RuleVerifier", "Verifier", "make_verifier"]


def make_verifier(config: VerifierConfig) -> Verifier:
    """The verifier that ``config.kind`` names; the config has checked that the kind exists."""
    if config.kind == "noisy":
        return NoisyVerifier(config.auroc)
    return RuleVerifier()
