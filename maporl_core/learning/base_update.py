"""Epochs of optimiser steps for all policies on one base.

In: the rows of the base, what was measured and what credit they have, the objective and optimisers.
Out: changed adapters and value heads, a ``Tally`` of the steps, and the messages whose loss was not
finite.  Neighbours: ``measure`` and ``credit`` come before; ``updater`` makes one of these per base
and rollout round.

One forward serves every policy on the base: rows choose their adapter, losses are normalised per
policy, and gradients of different policies touch different memory.  A policy without tokens in a
minibatch is not stepped, so neither its weights nor its optimiser state move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.credit import TokenCredit
from maporl_core.learning.measure import Tokens
from maporl_core.learning.micro_sizes import with_less
from maporl_core.learning.mismatch import Correction
from maporl_core.learning.objectives.base import LossTokens, Objective, Stats
from maporl_core.learning.packing import MicroBatch
from maporl_core.learning.ranks import Ranks
from maporl_core.learning.token_logprobs import token_logprobs
from maporl_core.types import Place


@dataclass(slots=True)
class Tally:
    """Sums over the optimiser steps of one update; gradient norms by policy name."""

    stats: Stats | None = None
    grad_norms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, stats: Stats) -> None:
        self.stats = stats if self.stats is None else self.stats.merge(stats)


@dataclass(frozen=True, slots=True)
class Dials:
    """How optimiser steps are taken."""

    objective: Objective
    temperature: float
    kl_coef: float
    epochs: int
    minibatches: int
    max_grad_norm: float
    seed: int
    step: int


class BaseUpdate:
    """One update of all policies on one base."""

    def __init__(
        self,
        rows: BaseRows,
        tokens: Tokens,
        credit: TokenCredit,
        dials: Dials,
        optimisers: Mapping[str, torch.optim.Optimizer],
        ranks: Ranks,
        correction: Correction | None = None,
    ) -> None:
        self.correction = correction
        self.rows, self.tokens, self.credit = rows, tokens, credit
        self.dials, self.optimisers, self.ranks = dials, optimisers, ranks
        self.tally = Tally()

    def train(self) -> tuple[Place, ...]:
        """All epochs and minibatches; the messages whose loss was not finite, if any."""
        dials = self.dials
        for epoch in range(dials.epochs):
            piles = self.rows.minibatches(dials.minibatches, dials.seed, dials.step, epoch)
            for chosen in piles:
                bad = self.optimiser_step(chosen)
                if bad:
                    return bad
        return ()

    def optimiser_step(self, chosen: Sequence[int]) -> tuple[Place, ...]:
        """Forward and backward over micro-batches, then one clipped step per policy."""
        base = self.rows.base
        counts = self.ranks.sum(self._counts(chosen).to(base.device))
        stats, bad = with_less(self.rows, lambda: self._gradients(chosen, counts))
        for of_batch in stats:
            self.tally.add(of_batch)
        if bad:
            base.zero_grad()
            return bad
        return self._step_policies(chosen, counts)

    def _gradients(
        self, chosen: Sequence[int], counts: Tensor
    ) -> tuple[list[Stats], tuple[Place, ...]]:
        """Gradients of the ``chosen`` rows; statistics per micro-batch, and what was not finite."""
        base = self.rows.base
        base.zero_grad()
        stats: list[Stats] = []
        for batch in self.rows.batches(chosen):
            with base.route(batch.rows, training=True):
                where, flat = self._trained(batch)
                if not len(where):
                    continue
                read = self._read(batch, where, flat, counts)
                loss = self.dials.objective(read)
                if not bool(torch.isfinite(loss.loss)):
                    return stats, self._odd(read, where)
                loss.loss.backward()
            stats.append(loss.stats)
        return stats, ()

    def _counts(self, chosen: Sequence[int]) -> Tensor:
        return self.rows.token_counts(chosen, self.correction.kept_N if self.correction else None)

    def _trained(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Its tokens' places in the table (CPU), and the hidden states that predict them."""
        where = batch.tokens.cpu()
        if self.correction is None:
            return where, batch.flat
        kept = self.correction.kept_N[where]
        return where[kept], batch.flat[kept.to(batch.flat.device)]

    def _read(self, batch: MicroBatch, where: Tensor, flat: Tensor, counts: Tensor) -> LossTokens:
        """One forward with gradients, beside what was measured and credited of its tokens."""
        base, table = self.rows.base, self.rows.table
        device = batch.ids.device
        hidden = base.hidden(batch.ids).flatten(0, 1)[flat]
        policy_N = table.policy_N[where].to(device)
        new, entropy = token_logprobs(
            base.logits,
            hidden,
            table.targets_N[where].to(device),
            self.dials.temperature,
            with_entropy=self.dials.objective.needs_entropy,
        )
        values, returns = self.tokens.values, self.credit.returns_N
        return LossTokens(
            logp_new_N=new,
            logp_old_N=self.tokens.old_logprobs[where].to(device),
            advantages_N=self.credit.advantages_N[where].to(device),
            policies_N=policy_N,
            tokens_per_policy_P=counts,
            values_new_N=None if values is None else base.values(hidden, policy_N),
            values_old_N=None if values is None else values[where].to(device),
            returns_N=None if returns is None else returns[where].to(device),
            entropy_N=entropy,
            logp_reference_N=self.tokens.reference_logprobs[where].to(device),
            kl_coef=self.dials.kl_coef,
            weights_N=self.correction.weights_N[where].to(device) if self.correction else None,
        )

    def _odd(self, read: LossTokens, where: Tensor) -> tuple[Place, ...]:
        """The messages of the tokens that are to blame; of all of them, where none stands out."""
        fine = torch.isfinite(read.logp_new_N)
        if read.values_new_N is not None:
            fine = fine & torch.isfinite(read.values_new_N)
        odd = ~fine.cpu()
        return self.rows.places_of(where[odd] if bool(odd.any()) else where)

    def _step_policies(self, chosen: Sequence[int], counts: Tensor) -> tuple[Place, ...]:
        norms: dict[str, Tensor] = {}
        for name, policy in self.rows.present.items():
            if int(counts[policy.index]) > 0:
                norms[name] = torch.nn.utils.clip_grad_norm_(
                    policy.parameters(), self.dials.max_grad_norm
                )
        broken = [name for name, norm in norms.items() if not bool(torch.isfinite(norm))]
        if broken:
            self.rows.base.zero_grad()
            spoiled = [self.rows.rows[r] for r in chosen if self.rows.rows[r].policy in broken]
            return tuple(span.place for row in spoiled for span in row.spans)
        for name, norm in norms.items():
            self.optimisers[name].step()
            self.tally.grad_norms.setdefault(name, []).append(float(norm))
        return ()
