"""Ways to pay messages: a scheme per file, all as ``base.RewardScheme`` says."""

from __future__ import annotations

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.base import RewardScheme
from maporl_core.judging.rewards.maporl import Maporl


def make_scheme(options: RewardConfig, by_score: bool) -> RewardScheme:
    """The scheme of a run's [reward]; ``by_score``: scores decide what counts as right."""
    return Maporl(options, by_score)
