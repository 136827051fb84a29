"""A method: REINFORCE, without values; every token of a message shares its reward."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from maporl_core.config.kinds import Section, Weight
from maporl_core.config.schema import RunConfig
from maporl_core.learning.methods.base import (
    KLPrice,
    MessageKey,
    RolloutPlan,
    base_turns,
    trained_agents,
)

if TYPE_CHECKING:
    from maporl_core.learning.estimators.base import Credit, CreditInputs
    from maporl_core.learning.objectives.base import Objective


class SameForAll:
    """The reward of a message at each of its tokens; whitened per policy by who calls it."""

    needs_values = False

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit:
        from maporl_core.learning.estimators.base import Credit
        from maporl_core.learning.padding import length_mask

        mask_ML = length_mask(inputs.lengths_M, inputs.token_rewards_ML.shape[1])
        return Credit(inputs.rewards_M.float()[:, None] * mask_ML)


class ReinforceOptions(Section):
    kl_coef: Weight = Field(0.0, description="KL penalty per token against the base")


class Reinforce:
    name = "reinforce"
    says = "REINFORCE: every token shares the reward of its message"
    Options = ReinforceOptions
    estimator = SameForAll()

    def __init__(self, options: ReinforceOptions, config: RunConfig) -> None:
        self.config, self.kl = config, KLPrice(options.kl_coef)

    @property
    def objective(self) -> Objective:
        from maporl_core.learning.objectives.clipped import Clipped

        return Clipped()

    def plan(self, step: int) -> RolloutPlan:
        return RolloutPlan(
            problems=self.config.train.problems_per_step,
            base_turns=base_turns(self.config),
            trained=trained_agents(self.config),
        )

    def group(self, key: MessageKey) -> Hashable | None:
        return None
