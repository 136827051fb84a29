"""Ways to pay messages: a scheme per file, all as ``base.RewardScheme`` says."""

from __future__ import annotations

from maporl_core.config.doors import REWARDS
from maporl_core.config.schema import RewardSection
from maporl_core.judging.rewards.base import RewardScheme


def make_scheme(options: RewardSection, by_score: bool) -> RewardScheme:
    """The scheme of a run's [reward]; ``by_score``: scores decide what counts as right."""
    made: RewardScheme = REWARDS.find(options.kind).made(options, by_score)
    return made
