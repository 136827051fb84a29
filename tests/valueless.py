"""Methods of the tests' own that need no values: compared within groups, or with a running mean."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any

import pytest
import torch

from maporl_core import assembly
from maporl_core.config.schema import RunConfig
from maporl_core.learning import updater
from maporl_core.learning.estimators.base import Credit, CreditInputs
from maporl_core.learning.methods.base import MessageKey
from maporl_core.learning.methods.mappo import Mappo
from maporl_core.learning.padding import length_mask


def on_every_token(inputs: CreditInputs, per_message: list[float]) -> torch.Tensor:
    mask_ML = length_mask(inputs.lengths_M, inputs.token_rewards_ML.shape[1])
    return torch.tensor(per_message)[:, None] * mask_ML


class MinusGroupMean:
    """R − mean of the group; counts the updates and remembers the groups it saw."""

    needs_values = False

    def __init__(self) -> None:
        self.seen: list[tuple[MessageKey, Hashable | None]] = []

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit:
        assert inputs.values_ML is None
        self.seen = list(zip(inputs.keys, inputs.groups, strict=True))
        rewards = inputs.rewards_M.tolist()
        found = []
        for reward, group in zip(rewards, inputs.groups, strict=True):
            own = [r for r, g in zip(rewards, inputs.groups, strict=True) if g == group]
            found.append(reward - sum(own) / len(own))
        calls = {"calls": state.get("calls", 0.0) + 1}
        return Credit(on_every_token(inputs, found), None, calls, normalised=True)


class MinusRunningMean:
    """R − b, then b ← 0.95 b + 0.05 R, one b per policy, in place order."""

    needs_values = False

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit:
        kept, found = dict(state), [0.0] * len(inputs.keys)
        for m in sorted(range(len(inputs.keys)), key=lambda m: inputs.keys[m].place):
            policy, reward = inputs.keys[m].policy, float(inputs.rewards_M[m])
            found[m] = reward - kept.get(policy, 0.0)
            kept[policy] = 0.95 * kept.get(policy, 0.0) + 0.05 * reward
        return Credit(on_every_token(inputs, found), None, kept, normalised=True)


class Valueless(Mappo):
    """mappo's plan and objective with another estimator, and groups by ``by``."""

    name = "valueless"

    def __init__(
        self,
        config: RunConfig,
        estimator: Any = None,
        by: Callable[[MessageKey], Hashable] | None = None,
    ) -> None:
        super().__init__(self.Options(), config)
        self._estimator, self._by = estimator or MinusGroupMean(), by

    @cached_property
    def estimator(self) -> Any:
        return self._estimator

    def group(self, key: MessageKey) -> Hashable | None:
        return None if self._by is None else self._by(key)


def train_by(monkeypatch: pytest.MonkeyPatch, make: Callable[[RunConfig], Any]) -> None:
    """Runs of this test are trained by the method that ``make`` gives."""
    for page in (assembly, updater):
        monkeypatch.setattr(page, "method_of", make)
