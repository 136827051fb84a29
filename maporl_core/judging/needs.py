"""What training cannot do without, checked before anything is loaded.

In: a run's config, who is trained, what engines offer and its reward needs.  Out: nothing, or a
ConfigError that says what to change.  Neighbour: ``assembly`` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from maporl_core.config.schema import EngineConfig, RunConfig
from maporl_core.errors import ConfigError
from maporl_core.judging.rewards.base import Need
from maporl_core.rollout.engine.base import Offer

TRAINABLE: tuple[Offer, ...] = ("exact_ids", "logprobs")
"""What a policy gradient is computed from."""


def check_engine(
    config: RunConfig,
    trained: Collection[int],
    offers: Callable[[EngineConfig], Collection[Offer]],
) -> None:
    """Raises ConfigError, a line per base, where ``trained`` agents stand on one whose engine lacks
    what that takes.
    """
    policies = config.resolved_policies()
    spoken = config.agent_policies()
    on_base: dict[str, list[str]] = {}
    for agent in sorted(trained):
        on_base.setdefault(policies[spoken[agent]].base, []).append(config.agents[agent].name)
    lines = []
    for base, names in on_base.items():
        engine = config.engine_of(base)
        missing = [offer for offer in TRAINABLE if offer not in offers(engine)]
        if missing:
            own = config.bases[base].engine is not None
            key = f"bases.{base}.engine.kind" if own else "engine.kind"
            lines.append(
                f"{key}: {engine.kind!r} gives no {' and no '.join(missing)}, without which "
                f"{', '.join(names)} on base {base!r} cannot be trained; choose another engine for "
                "it, or leave them out of train.train_agents"
            )
    if lines:
        raise ConfigError("\n".join(lines))


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
