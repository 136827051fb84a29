"""What training cannot do without, checked before anything is loaded.

In: a run's config, who is trained, what its engine offers and its reward needs.  Out: nothing, or a
ConfigError that says what to change.  Neighbour: ``assembly`` asks.
"""

from __future__ import annotations

from collections.abc import Collection

from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.judging.rewards.base import Need
from maporl_core.rollout.engine.base import Offer

TRAINABLE: tuple[Offer, ...] = ("exact_ids", "logprobs")
"""What a policy gradient is computed from."""


def check_engine(config: RunConfig, trained: Collection[int], offers: Collection[Offer]) -> None:
    """Raises ConfigError where ``trained`` agents have an engine that lacks what that takes."""
    missing = [offer for offer in TRAINABLE if offer not in offers]
    if missing and trained:
        names = ", ".join(config.agents[agent].name for agent in sorted(trained))
        raise ConfigError(
            f"engine.kind: {config.engine.kind!r} gives no {' and no '.join(missing)}, without "
            f"which {names} cannot be trained; choose another engine"
        )


def check_reward(needs: Collection[Need], candidates: int, gold: bool | None = None) -> None:
    """Raises ConfigError where nothing of the run gives what its reward needs.

    ``candidates``: messages sampled at one place.  ``gold``: whether the task's problems have gold
    answers; None while that is not known.
    """
    if "candidates" in needs and candidates < 2:
        raise ConfigError(
            "reward.kind: this reward compares candidates at one place, and method.kind samples "
            "one message there; choose another method or another reward"
        )
    if "gold" in needs and gold is False:
        raise ConfigError(
            "reward.kind: this reward needs gold answers, and the task's problems have none; "
            "choose another reward, or give every problem its answer"
        )
