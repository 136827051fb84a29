"""The multi-agent update: every policy trained on its rows, undone whole if it was not finite.

In: rows (``packing``) and the policies.  Out: changed adapters and value heads, metrics, and per
message its advantage and KL.  Neighbours: ``base_update`` does one base's part, ``train`` calls
``Updater.update`` once per rollout round, ``run_state`` keeps the optimisers in checkpoints.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from maporl_core.config.schema import RunConfig
from maporl_core.learning.base_update import BaseUpdate, Place, UpdateResult
from maporl_core.learning.losses import lr_factor, next_kl_coef
from maporl_core.learning.packing import Row
from maporl_core.models.policy import Policies, Policy

__all__ = ["Place", "UpdateResult", "Updater", "mismatches"]


class Updater:
    """Optimisers, schedule and KL coefficient of all trained policies."""

    def __init__(self, policies: Policies, config: RunConfig) -> None:
        self.policies = policies
        self.config = config
        self.kl_coef = config.ppo.kl_coef
        self.baselines: dict[str, float] = {}  # of advantage estimators that keep one
        self.trained = {
            name: policies[name] for name in policies.names() if name in config.trained_policies()
        }
        self.optimisers = {name: self._optimiser(p) for name, p in self.trained.items()}

    def _optimiser(self, policy: Policy) -> torch.optim.AdamW:
        ppo = self.config.ppo
        groups = [
            {"params": list(policy.adapter.values()), "lr": ppo.lr},
            {"params": list(policy.value.values()), "lr": ppo.value_lr or ppo.lr},
        ]
        for group in groups:
            group["initial_lr"] = group["lr"]
        return torch.optim.AdamW(groups, weight_decay=ppo.weight_decay, eps=1e-5)

    def update(self, rows: Sequence[Row], step: int) -> UpdateResult:
        """Train every policy on its rows; ``step`` (0-based) sets learning rate and shuffling.

        Rows are of any mix of policies and bases; those without a token to train are left out.
        Dropout draws from torch's global generator.
        """
        ppo = self.config.ppo
        factor = lr_factor(step, self.config.train.steps, ppo.warmup_steps, ppo.schedule)
        for optimiser in self.optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = group["initial_lr"] * factor
        metrics: dict[str, float] = {"lr": ppo.lr * factor, "kl_coef": self.kl_coef}
        advantage: dict[Place, float] = {}
        kl: dict[Place, float] = {}
        bad: list[Place] = []
        before = self._snapshot()
        for base in self.policies.bases.values():
            mine = [row for row in rows if row.policy in base.policies and row.tokens]
            if not mine:
                continue
            update = BaseUpdate(
                self.config, base, mine, step, self.optimisers, self.kl_coef, self.baselines
            )
            part = update.run()
            self.baselines |= update.baselines
            metrics |= part.metrics
            advantage |= part.advantage
            kl |= part.kl
            bad += part.bad
        metrics |= _over_policies(metrics)
        if bad:
            self._restore(before)
            return UpdateResult(metrics, advantage, kl, tuple(bad))
        if ppo.kl_target is not None and kl:
            mean_kl = sum(kl.values()) / len(kl)
            self.kl_coef = next_kl_coef(
                self.kl_coef, mean_kl, ppo.kl_target, ppo.kl_horizon, len(kl)
            )
        return UpdateResult(metrics, advantage, kl, tuple(bad))

    def _snapshot(self) -> tuple[dict[str, list[Tensor]], dict[str, Any]]:
        """Copies of all trained weights and of the optimisers, to undo an update."""
        weights = {
            name: [weight.detach().clone() for weight in policy.parameters()]
            for name, policy in self.trained.items()
        }
        return weights, copy.deepcopy(self.state())

    @torch.no_grad()
    def _restore(self, snapshot: tuple[dict[str, list[Tensor]], dict[str, Any]]) -> None:
        weights, state = snapshot
        for name, policy in self.trained.items():
            for weight, saved in zip(policy.parameters(), weights[name], strict=True):
                weight.copy_(saved)
            policy.changed()
        self.load_state(state)

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs: moments and steps of every optimiser, KL coefficient."""
        return {
            "kl_coef": self.kl_coef,
            "baselines": dict(self.baselines),
            "optimisers": {name: o.state_dict()["state"] for name, o in self.optimisers.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.kl_coef = float(state["kl_coef"])
        self.baselines = dict(state["baselines"])
        for name, optimiser in self.optimisers.items():
            saved = {int(k): v for k, v in state["optimisers"][name].items()}
            optimiser.load_state_dict(
                {"state": saved, "param_groups": optimiser.state_dict()["param_groups"]}
            )


def mismatches(metrics: Mapping[str, float], limit: float) -> list[str]:
    """One line per policy whose sampler and trainer disagree by more than ``limit``.

    Compared are |mean ratio − 1|, which sees log-probabilities that are reported wrongly, and the
    KL from sampler to trainer in nats per token.  The KL is needed beside it: tokens that were
    truly drawn from another distribution, such as an older adapter's or another temperature's,
    have a mean ratio of 1 whatever the trainer computes.
    """
    lines = []
    for key, ratio in metrics.items():
        if not key.endswith("/mismatch_ratio_mean"):
            continue
        policy = key.split("/", 2)[1]
        kl = metrics[f"policy/{policy}/mismatch_kl"]
        if not (abs(ratio - 1.0) <= limit and kl <= limit):  # also when one is not a number
            lines.append(
                f"{policy}: the trainer gives sampled tokens {ratio:.4f} times the sampler's "
                f"probability on average, and is {kl:.4f} nats per token away from it"
            )
    return lines


def _over_policies(metrics: Mapping[str, float]) -> dict[str, float]:
    """ "ppo/<key>": the mean of "policy/<name>/<key>" over the policies of this update.

    What concerns the engine goes under "mismatch/": the sampler's log-probabilities against the
    trainer's own, as ratios trainer / sampler (1 when both compute the same) and as a KL.
    """
    by_key: dict[str, list[float]] = {}
    for name, value in metrics.items():
        if name.startswith("policy/"):
            by_key.setdefault(name.split("/", 2)[2], []).append(value)
    found: dict[str, float] = {}
    for key, values in sorted(by_key.items()):
        place = f"mismatch/{key.removeprefix('mismatch_')}"
        place = place if key.startswith("mismatch_") else f"ppo/{key}"
        found[place] = sum(values) / len(values)
    if "mismatch_ratio_max" in by_key:
        found["mismatch/ratio_max"] = max(by_key["mismatch_ratio_max"])
    return found
