"""One update of all policies on one base: measure, estimate, then epochs of optimiser steps.

In: rows (``packing``) of these policies, their optimisers, the KL coefficient.  Out: changed
adapters and value heads, and an UpdateResult.  Neighbours: ``losses`` and ``advantages`` hold the
maths, ``policy`` the weights; ``update`` makes one of these per base and rollout round.

One forward serves every policy on the base: rows choose their adapter, losses are normalised per
policy, and gradients of different policies touch different memory.  A policy without tokens in a
minibatch is not stepped, so neither its weights nor its optimiser state move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from maporl_core.config.schema import RunConfig
from maporl_core.kit.seeds import stable_seed
from maporl_core.learning.advantages import AdvantageInputs, MessageKey, estimate
from maporl_core.learning.losses import PPOStats, PPOTokens, explained_variance, kl_terms, ppo_loss
from maporl_core.learning.packing import MicroBatch, Row, Span, micro_batches, tabulate
from maporl_core.learning.padding import to_flat, to_padded
from maporl_core.learning.token_logprobs import token_logprobs
from maporl_core.models.policy import Base

Place = tuple[int, int, int]
"""(index of the discussion, turn, agent) of a message."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one update did.

    ``advantage`` and ``kl`` are means over a message's tokens and sums over them respectively
    (KL of the sampling policy to the base, in nats).  ``bad`` names messages whose loss was not
    finite; when it is not empty, nothing of this update was applied.
    """

    metrics: Mapping[str, float]
    advantage: Mapping[Place, float]
    kl: Mapping[Place, float]
    bad: tuple[Place, ...] = ()


@dataclass(slots=True)
class _Measured:
    """No-grad facts about every trained token before the first optimiser step; all [N]."""

    old_logprobs: Tensor
    reference_logprobs: Tensor
    values: Tensor
    entropy: Tensor


@dataclass(slots=True)
class _Tally:
    """Sums over the optimiser steps of one update, by policy name."""

    stats: PPOStats | None = None
    grad_norms: dict[str, list[float]] = field(default_factory=dict)


class BaseUpdate:
    """One update of all policies on one base."""

    def __init__(
        self,
        config: RunConfig,
        base: Base,
        rows: Sequence[Row],
        step: int,
        optimisers: Mapping[str, torch.optim.Optimizer],
        kl_coef: float,
        baselines: Mapping[str, float],
    ) -> None:
        self.base, self.rows, self.step = base, rows, step
        self.ppo, self.seed = config.ppo, config.seed
        self.temperature = config.discussion.temperature
        self.optimisers, self.kl_coef = optimisers, kl_coef
        self.baselines = dict(baselines)  # of advantage estimators that keep one
        self.indices = [base.row(row.policy) for row in rows]
        self.table = tabulate(rows, self.indices)
        self.present = {name: base.policies[name] for name in dict.fromkeys(r.policy for r in rows)}

    def run(self) -> UpdateResult:
        measured = self.measure()
        table = self.table
        terms = kl_terms(
            to_padded(measured.old_logprobs, table.lengths_M),
            to_padded(measured.reference_logprobs, table.lengths_M),
            table.lengths_M,
            table.rewards_M,
            self.kl_coef,
        )
        estimated = estimate(
            AdvantageInputs(
                token_rewards_ML=terms.token_rewards_ML,
                values_ML=to_padded(measured.values, table.lengths_M),
                lengths_M=table.lengths_M,
                rewards_M=table.rewards_M,
                keys=[self._message_key(span) for span in table.spans],
                baselines=self.baselines,
            ),
            self.ppo,
        )
        self.baselines |= estimated.baselines
        advantages = to_flat(estimated.advantages_ML, table.lengths_M)
        returns = to_flat(estimated.returns_ML, table.lengths_M)
        tally = _Tally()
        bad = self.train(measured, advantages, returns, tally)
        for policy in self.present.values():
            policy.changed()
        advantage_M = estimated.advantages_ML.sum(dim=1) / table.lengths_M
        keys = [span.key for span in table.spans]
        return UpdateResult(
            metrics=self.metrics(measured, returns, terms.kl_M, tally),
            advantage=dict(zip(keys, advantage_M.tolist(), strict=True)),
            kl=dict(zip(keys, terms.kl_M.tolist(), strict=True)),
            bad=bad,
        )

    def _message_key(self, span: Span) -> MessageKey:
        d, t, a = span.key
        return MessageKey(span.problem, d, t, a, span.policy)

    @torch.no_grad()
    def measure(self) -> _Measured:
        """Old and reference log-probabilities, values and entropy, by the weights as they are."""
        count = len(self.table.targets_N)
        measured = _Measured(*(torch.zeros(count) for _ in range(4)))
        for batch in self.batches(range(len(self.rows))):
            targets = self.table.targets_N[batch.tokens.cpu()].to(batch.ids.device)
            where = batch.tokens.cpu()
            with self.base.route(batch.rows):
                hidden = self.base.hidden(batch.ids).flatten(0, 1)[batch.flat]
            old, entropy = token_logprobs(
                self.base.logits, hidden, targets, self.temperature, with_entropy=True
            )
            values = self.base.values(hidden, self.table.policy_N[where].to(hidden.device))
            with self.base.route(None):
                plain = self.base.hidden(batch.ids).flatten(0, 1)[batch.flat]
            reference, _ = token_logprobs(self.base.logits, plain, targets, self.temperature)
            measured.old_logprobs[where] = old.cpu()
            measured.reference_logprobs[where] = reference.cpu()
            measured.values[where] = values.cpu()
            assert entropy is not None
            measured.entropy[where] = entropy.cpu()
        return measured

    def train(
        self, measured: _Measured, advantages: Tensor, returns: Tensor, tally: _Tally
    ) -> tuple[Place, ...]:
        """All epochs and minibatches; the messages whose loss was not finite, if any."""
        # Rewards and what was measured come first: whitening spreads one bad number over them all.
        paid_N = self.table.rewards_M[self.table.message_N]
        for numbers in (
            (paid_N, self.table.sampler_logprobs_N, measured.old_logprobs),
            (measured.reference_logprobs, measured.values),
            (advantages, returns),
        ):
            odd = ~torch.stack([torch.isfinite(number) for number in numbers]).all(dim=0)
            if bool(odd.any()):
                return self._keys_of(torch.nonzero(odd).flatten())
        for epoch in range(self.ppo.epochs):
            for chosen in self.minibatches(epoch):
                bad = self.optimiser_step(chosen, measured, advantages, returns, tally)
                if bad:
                    return bad
        return ()

    def minibatches(self, epoch: int) -> list[list[int]]:
        """Rows of each optimiser step: every policy's rows are shuffled and dealt out evenly."""
        generator = torch.Generator().manual_seed(
            stable_seed(self.seed, "shuffle", self.base.name, self.step, epoch)
        )
        piles: list[list[int]] = [[] for _ in range(self.ppo.minibatches)]
        for name in self.present:
            own = [r for r, row in enumerate(self.rows) if row.policy == name]
            order = torch.randperm(len(own), generator=generator).tolist()
            for place, r in enumerate(order):
                piles[place % len(piles)].append(own[r])
        return [pile for pile in piles if pile]

    def optimiser_step(
        self,
        chosen: Sequence[int],
        measured: _Measured,
        advantages: Tensor,
        returns: Tensor,
        tally: _Tally,
    ) -> tuple[Place, ...]:
        """Forward and backward over micro-batches, then one clipped step per policy."""
        base, table = self.base, self.table
        counts = self._token_counts(chosen).to(base.device)
        base.zero_grad()
        for batch in self.batches(chosen):
            where = batch.tokens.cpu()
            device = batch.ids.device
            with base.route(batch.rows, training=True):
                hidden = base.hidden(batch.ids).flatten(0, 1)[batch.flat]
                policy_N = table.policy_N[where].to(device)
                new, entropy = token_logprobs(
                    base.logits,
                    hidden,
                    table.targets_N[where].to(device),
                    self.temperature,
                    with_entropy=self.ppo.entropy_coef > 0,
                )
                loss = ppo_loss(
                    PPOTokens(
                        logp_new_N=new,
                        logp_old_N=measured.old_logprobs[where].to(device),
                        advantages_N=advantages[where].to(device),
                        values_new_N=(values := base.values(hidden, policy_N)),
                        values_old_N=measured.values[where].to(device),
                        returns_N=returns[where].to(device),
                        policies_N=policy_N,
                        tokens_per_policy_P=counts,
                        entropy_N=entropy,
                    ),
                    self.ppo,
                )
                if not bool(torch.isfinite(loss.loss)):
                    base.zero_grad()
                    odd = ~(torch.isfinite(new) & torch.isfinite(values)).cpu()
                    return self._keys_of(where[odd] if bool(odd.any()) else where)
                loss.loss.backward()
            tally.stats = loss.stats if tally.stats is None else tally.stats.merge(loss.stats)
        return self._step_policies(chosen, counts, tally)

    def _step_policies(
        self, chosen: Sequence[int], counts: Tensor, tally: _Tally
    ) -> tuple[Place, ...]:
        norms: dict[str, Tensor] = {}
        for name, policy in self.present.items():
            if int(counts[policy.index]) > 0:
                norms[name] = torch.nn.utils.clip_grad_norm_(
                    policy.parameters(), self.ppo.max_grad_norm
                )
        broken = [name for name, norm in norms.items() if not bool(torch.isfinite(norm))]
        if broken:
            self.base.zero_grad()
            rows = [r for r in chosen if self.rows[r].policy in broken]
            return tuple(span.key for r in rows for span in self.rows[r].spans)
        for name, norm in norms.items():
            self.optimisers[name].step()
            tally.grad_norms.setdefault(name, []).append(float(norm))
        return ()

    def batches(self, chosen: Sequence[int]) -> list[MicroBatch]:
        return list(
            micro_batches(
                self.rows,
                chosen,
                self.indices,
                self.table,
                self.ppo.micro_tokens,
                self.base.device,
            )
        )

    def _token_counts(self, chosen: Sequence[int]) -> Tensor:
        """Unmasked tokens of each policy in one optimiser step, [P]."""
        counts = torch.zeros(len(self.base.policies), dtype=torch.long)
        for r in chosen:
            counts[self.indices[r]] += self.rows[r].tokens
        return counts

    def _keys_of(self, tokens: Tensor) -> tuple[Place, ...]:
        messages = dict.fromkeys(self.table.message_N[tokens].tolist())
        return tuple(self.table.spans[m].key for m in messages)

    def metrics(
        self, measured: _Measured, returns: Tensor, kl_M: Tensor, tally: _Tally
    ) -> dict[str, float]:
        """Per policy "policy/<name>/…"; docs/algorithm.md says what each means."""
        found: dict[str, float] = {}
        table = self.table
        gap = measured.old_logprobs.double() - table.sampler_logprobs_N.double()
        mismatch, divergence = gap.exp(), torch.expm1(gap) - gap
        for name, policy in self.present.items():
            mine = table.policy_N == policy.index
            facts = {
                "kl": float(kl_M[table.policy_M == policy.index].mean()),
                "entropy": float(measured.entropy[mine].mean()),
                "explained_variance": explained_variance(measured.values[mine], returns[mine]),
                "mismatch_ratio_mean": float(mismatch[mine].mean()),
                "mismatch_ratio_max": float(mismatch[mine].max()),
                "mismatch_kl": float(divergence[mine].mean()),
            }
            if tally.stats is not None:
                facts |= {**tally.stats.means(policy.index), "entropy": facts["entropy"]}
            norms = tally.grad_norms.get(name, [])
            facts["grad_norm"] = sum(norms) / len(norms) if norms else math.nan
            found |= {f"policy/{name}/{key}": value for key, value in facts.items()}
        return found
