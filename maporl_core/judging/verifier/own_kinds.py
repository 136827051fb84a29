"""The verifiers that come with maporl, as ``config.doors`` names them.  Imports none of them.

All share the keys of [verifier]; ``looks_at`` names those that one kind alone looks at.
"""

from __future__ import annotations

from maporl_core.config.kinds import Section
from maporl_core.config.verifier import VerifierConfig
from maporl_core.errors import ConfigError
from maporl_core.judging.verifier.base import Verifier


class Rule:
    says = "the task's own rule: right is 1, wrong is 0"
    Options = Section
    looks_at: tuple[str, ...] = ()

    def __new__(cls, _options: VerifierConfig) -> Verifier:  # type: ignore[misc]
        from maporl_core.judging.verifier.rule import RuleVerifier

        return RuleVerifier()


class Noisy:
    says = "drawn around the rule's verdict with a stated AUROC"
    Options = Section
    looks_at = ("auroc",)

    def __new__(cls, options: VerifierConfig) -> Verifier:  # type: ignore[misc]
        from maporl_core.judging.verifier.noisy import NoisyVerifier

        return NoisyVerifier(options.auroc)


class Learned:
    says = "a fitted language model decides scores and incentives"
    Options = Section
    looks_at = ("path", "base", "refit_every")

    def __new__(cls, options: VerifierConfig) -> Verifier:  # type: ignore[misc]
        raise ConfigError(f"verifier.kind: {options.kind} stands on a base; assembly makes it")


class Mixed(Learned):
    says = "a fitted language model decides scores, the rule incentives"
