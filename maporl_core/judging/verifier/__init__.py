"""Verifiers: who scores messages, chosen by ``verifier.kind``.

In: the [verifier] section of the config.  Out: something with ``score`` (see ``base.Verifier``).
The learned one is a policy on a base; ``assembly`` makes it with ``placing`` and ``saved``.
"""

from __future__ import annotations

from maporl_core.config.verifier import VerifierConfig
from maporl_core.judging.verifier.base import Verifier
from maporl_core.judging.verifier.learned import LearnedVerifier
from maporl_core.judging.verifier.noisy import NoisyVerifier
from maporl_core.judging.verifier.rule import RuleVerifier
from maporl_core.judging.verifier.timed import TimedVerifier

__all__ = [
    "LearnedVerifier",
    "NoisyVerifier",
    "RuleVerifier",
    "TimedVerifier",
    "Verifier",
    "make_verifier",
]


def make_verifier(config: VerifierConfig) -> Verifier:
    """The verifier that ``config.kind`` names, of those that need no model."""
    if config.kind == "noisy":
        return NoisyVerifier(config.auroc)
    return RuleVerifier()
