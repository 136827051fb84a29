"""MAPoRL itself: multi-agent PPO with a critic, one discussion per problem.

In: the options below and the run's config.  Out: a ``Method``.  Neighbours: ``estimators.gae`` and
``objectives.clipped`` hold its maths; they are imported when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from maporl_core.config.kinds import (
    ClipHigh,
    ClipLow,
    Count,
    Fraction,
    Positive,
    Section,
    Weight,
)
from maporl_core.learning.methods.base import (
    KLPrice,
    MessageKey,
    RolloutPlan,
    base_turns,
    trained_agents,
)

if TYPE_CHECKING:
    from maporl_core.config.schema import RunConfig
    from maporl_core.learning.estimators.base import Estimator
    from maporl_core.learning.objectives.base import Objective


class MappoOptions(Section):
    """What multi-agent PPO alone has."""

    samples: Count = Field(1, description="discussions of each problem in a step [G]")
    gae_lambda: Fraction = Field(0.95, description="GAE λ over the tokens of a message")
    clip_low: ClipLow = Field(0.2, description="ratio clipped below at 1 - clip_low")
    clip_high: ClipHigh = Field(0.2, description="ratio clipped above at 1 + clip_high")
    value_clip: Positive = Field(0.2, description="clip range of the value loss")
    value_coef: Weight = Field(0.1, description="weight of the value loss")
    kl_coef: Weight = Field(0.002, description="KL penalty per token against the base")
    kl_target: Positive | None = Field(
        None, description="adapt kl_coef towards this KL per message; default: fixed"
    )
    kl_horizon: Positive = Field(
        10_000.0, description="messages over which the adaptive KL coefficient moves"
    )
    entropy_coef: Weight = Field(0.0, description="entropy bonus per token")


class Mappo:
    """Every agent's policy by PPO, advantages by GAE over the tokens of each message."""

    name = "mappo"
    says = "multi-agent PPO with a critic (MAPoRL)"
    Options = MappoOptions

    def __init__(self, options: MappoOptions, config: RunConfig) -> None:
        self.options, self.config = options, config
        self.kl = KLPrice(options.kl_coef, options.kl_target, options.kl_horizon)

    @cached_property
    def estimator(self) -> Estimator:
        from maporl_core.learning.estimators.gae import Gae

        return Gae(self.options.gae_lambda)

    @cached_property
    def objective(self) -> Objective:
        from maporl_core.learning.objectives.clipped import Clipped

        options = self.options
        return Clipped(
            clip_low=options.clip_low,
            clip_high=options.clip_high,
            value_clip=options.value_clip,
            value_coef=options.value_coef,
            entropy_coef=options.entropy_coef,
        )

    def plan(self, _step: int) -> RolloutPlan:
        return RolloutPlan(
            problems=self.config.train.problems_per_step,
            samples=self.options.samples,
            base_turns=base_turns(self.config),
            trained=trained_agents(self.config),
        )

    def group(self, _key: MessageKey) -> Hashable | None:
        return None
