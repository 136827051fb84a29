"""The multi-agent update: measure all bases → credit once → train each base; undone whole if odd.

In: rows (``packing``), the policies and the run's method.  Out: changed adapters and value heads,
metrics, and per message its advantage and KL.  Neighbours: ``measure``, ``credit`` and
``base_update`` are the three stages, ``train`` calls ``Updater.update`` once per rollout round,
``run_state`` keeps optimisers and the estimator's state in checkpoints.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from maporl_core.config.schema import RunConfig
from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.base_update import BaseUpdate, Dials
from maporl_core.learning.credit import TokenCredit, form_credit
from maporl_core.learning.kl import next_kl_coef
from maporl_core.learning.measure import Measured, measure, odd_measures
from maporl_core.learning.methods.base import Method
from maporl_core.learning.methods.chosen import method_of
from maporl_core.learning.micro_sizes import MicroSizes
from maporl_core.learning.mismatch import Correction, correction_of
from maporl_core.learning.optimisers import make_optimiser
from maporl_core.learning.packing import Row
from maporl_core.learning.padding import to_padded
from maporl_core.learning.ranks import Alone, Ranks
from maporl_core.learning.schedules import lr_factor
from maporl_core.learning.update_metrics import over_policies, policy_metrics
from maporl_core.models.policy import Policies
from maporl_core.types import Place


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one update did.

    ``advantage`` and ``kl`` are means over a message's tokens and sums over them respectively
    (KL of the sampling policy to the base, in nats).  ``bad`` names messages whose loss was not
    finite; when it is not empty, nothing of this update was applied.  ``said``: lines for the log.
    """

    metrics: Mapping[str, float]
    advantage: Mapping[Place, float]
    kl: Mapping[Place, float]
    bad: tuple[Place, ...] = ()
    said: tuple[str, ...] = ()


class Updater:
    """Optimisers, schedule, KL coefficient and estimator's state of all trained policies."""

    def __init__(
        self,
        policies: Policies,
        config: RunConfig,
        method: Method | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.policies, self.config = policies, config
        self.method = method or method_of(config)
        self.ranks: Ranks = ranks or Alone()
        self.kl_coef = self.method.kl.coef
        self.baselines: dict[str, float] = {}  # of estimators that keep a state between updates
        self.trained = {
            name: policies[name] for name in policies.names() if name in config.trained_policies()
        }
        self.optimisers = {n: make_optimiser(p, config.update) for n, p in self.trained.items()}
        self.sizes = MicroSizes(policies, config)

    def update(self, rows: Sequence[Row], step: int) -> UpdateResult:
        """Train every policy on its rows; ``step`` (0-based) sets learning rate and shuffling.

        Rows are of any mix of policies and bases; those without a token to train are left out.
        Dropout draws from torch's global generator.
        """
        metrics = {"lr": self._set_rate(step), "kl_coef": self.kl_coef}
        before = self._snapshot()
        parts = self._by_base(rows)
        measured = [self._measure(part) for part in parts]
        credits, state = form_credit(
            [found.earned for found in measured], self.method, self.baselines, self.ranks
        )
        self.baselines |= state
        updates = [
            BaseUpdate(
                part,
                found.tokens,
                credit,
                self._dials(step),
                self.optimisers,
                self.ranks,
                self._correction(part, found),
            )
            for part, found, credit in zip(parts, measured, credits, strict=True)
        ]
        bad = _odd(parts, measured, credits)
        if not self.ranks.agree(bool(bad)):
            bad = [place for update in updates for place in update.train()]
        advantage: dict[Place, float] = {}
        kl: dict[Place, float] = {}
        for part, found, credit, update in zip(parts, measured, credits, updates, strict=True):
            for policy in part.present.values():
                policy.changed()
            metrics |= policy_metrics(
                part, found, credit.returns_N, update.tally, update.correction
            )
            advantage |= _by_place(part, _mean_per_message(part, credit.advantages_N))
            kl |= _by_place(part, found.kl_M)
        metrics |= over_policies(metrics)
        if self.ranks.agree(bool(bad)):
            self._restore(before)
        else:
            self._adapt_price(kl)
        said = [self.sizes.note(part.base.name, part.micro_tokens) for part in parts]
        return UpdateResult(metrics, advantage, kl, tuple(bad), tuple(filter(None, said)))

    def _set_rate(self, step: int) -> float:
        """Every optimiser's rate for this step; returns that of the adapters."""
        update = self.config.update
        factor = lr_factor(step, self.config.train.steps, update.warmup_steps, update.schedule)
        for optimiser in self.optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = group["initial_lr"] * factor
        return update.lr * factor

    def _by_base(self, rows: Sequence[Row]) -> list[BaseRows]:
        found = []
        for base in self.policies.bases.values():
            mine = [row for row in rows if row.policy in base.policies and row.tokens]
            if mine:
                found.append(BaseRows(base, mine, self.sizes.of[base.name]))
        return found

    def _measure(self, part: BaseRows) -> Measured:
        temperature = self.config.discussion.temperature
        kl_coef = self.kl_coef if self.method.kl.within == "reward" else 0.0
        return measure(part, temperature, kl_coef, self.method.estimator.needs_values)

    def _correction(self, part: BaseRows, found: Measured) -> Correction | None:
        table = part.table
        return correction_of(
            self.config,
            part.base.name,
            found.tokens.old_logprobs,
            table.sampler_logprobs_N,
            table.message_N,
        )

    def _dials(self, step: int) -> Dials:
        update = self.config.update
        return Dials(
            objective=self.method.objective,
            temperature=self.config.discussion.temperature,
            kl_coef=self.kl_coef if self.method.kl.within == "loss" else 0.0,
            epochs=update.epochs,
            minibatches=update.minibatches,
            max_grad_norm=update.max_grad_norm,
            seed=self.config.seed,
            step=step,
        )

    def _adapt_price(self, kl: Mapping[Place, float]) -> None:
        """Move the KL coefficient towards its target, over the messages of all ranks."""
        price = self.method.kl
        seen = [nats for of_rank in self.ranks.gather(tuple(kl.values())) for nats in of_rank]
        if price.target is not None and seen:
            self.kl_coef = next_kl_coef(
                self.kl_coef, sum(seen) / len(seen), price.target, price.horizon, len(seen)
            )

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
        """Everything a resumed run needs: moments and steps of every optimiser, the KL coefficient,
        the estimator's state and the sizes of micro-batches.
        """
        return {
            "micro": self.sizes.state(),
            "kl_coef": self.kl_coef,
            "baselines": dict(self.baselines),
            "optimisers": {name: o.state_dict()["state"] for name, o in self.optimisers.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``; moments of value heads that this run lacks are passed over."""
        self.kl_coef = float(state["kl_coef"])
        self.baselines = dict(state["baselines"])
        if "micro" in state:  # older checkpoints have none
            self.sizes.load_state(state["micro"])
        for name, optimiser in self.optimisers.items():
            count = len(self.trained[name].parameters())
            saved = {int(k): v for k, v in state["optimisers"][name].items() if int(k) < count}
            optimiser.load_state_dict(
                {"state": saved, "param_groups": optimiser.state_dict()["param_groups"]}
            )


def _odd(
    parts: Sequence[BaseRows], measured: Sequence[Measured], credits: Sequence[TokenCredit]
) -> list[Place]:
    """Messages that are not finite before any step.  What was measured on any base comes first:
    a group or whitening spreads one bad number over all of its messages.
    """
    found = [
        place
        for part, one in zip(parts, measured, strict=True)
        for place in odd_measures(part, one.tokens)
    ]
    return found or [
        place
        for part, credit in zip(parts, credits, strict=True)
        for place in part.odd_places(credit.advantages_N, credit.returns_N)
    ]


def _mean_per_message(part: BaseRows, numbers_N: Tensor) -> Tensor:
    lengths_M = part.table.lengths_M
    return to_padded(numbers_N, lengths_M).sum(dim=1) / lengths_M


def _by_place(part: BaseRows, numbers_M: Tensor) -> dict[Place, float]:
    places = [span.place for span in part.table.spans]
    return dict(zip(places, numbers_M.tolist(), strict=True))
