"""What the weights say of every trained token before the first optimiser step; no gradients.

In: the rows of one base.  Out: ``Measured``: log-probabilities by the policy and by the base,
entropy, values where the estimator needs them, and KL with the token rewards it makes.
Neighbours: ``credit`` takes what was ``earned``, ``base_update`` trains against the old numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.credit import Earned
from maporl_core.learning.kl import kl_terms
from maporl_core.learning.micro_sizes import with_less
from maporl_core.learning.padding import to_flat, to_padded
from maporl_core.learning.token_logprobs import token_logprobs
from maporl_core.types import Place


@dataclass(slots=True)
class Tokens:
    """Facts about every trained token of a base; all [N], on the CPU."""

    old_logprobs: Tensor
    reference_logprobs: Tensor
    entropy: Tensor
    values: Tensor | None


@dataclass(frozen=True, slots=True)
class Measured:
    """``kl_M`` is log π_old − log π_ref summed over each message, in nats."""

    tokens: Tokens
    kl_M: Tensor
    earned: Earned


def measure(rows: BaseRows, temperature: float, kl_coef: float, with_values: bool) -> Measured:
    """Measure all rows of one base."""
    table = rows.table
    tokens = with_less(rows, lambda: measure_tokens(rows, temperature, with_values))
    terms = kl_terms(
        to_padded(tokens.old_logprobs, table.lengths_M),
        to_padded(tokens.reference_logprobs, table.lengths_M),
        table.lengths_M,
        table.rewards_M,
        kl_coef,
    )
    earned = Earned(
        token_rewards_N=to_flat(terms.token_rewards_ML, table.lengths_M),
        values_N=tokens.values,
        lengths_M=table.lengths_M,
        rewards_M=table.rewards_M,
        keys=tuple(span.key for span in table.spans),
    )
    return Measured(tokens, terms.kl_M, earned)


@torch.no_grad()
def measure_tokens(rows: BaseRows, temperature: float, with_values: bool) -> Tokens:
    """Old and reference log-probabilities, values and entropy, by the weights as they are."""
    base, table, count = rows.base, rows.table, len(rows.table.targets_N)
    old, reference, entropy, values = (torch.zeros(count) for _ in range(4))
    for batch in rows.batches(range(len(rows.rows))):
        where = batch.tokens.cpu()
        targets = table.targets_N[where].to(batch.ids.device)
        with base.route(batch.rows):
            hidden = base.hidden(batch.ids).flatten(0, 1)[batch.flat]
        of_policy, spread = token_logprobs(
            base.logits, hidden, targets, temperature, with_entropy=True
        )
        if with_values:
            values[where] = base.values(hidden, table.policy_N[where].to(hidden.device)).cpu()
        with base.route(None):
            plain = base.hidden(batch.ids).flatten(0, 1)[batch.flat]
        of_base, _ = token_logprobs(base.logits, plain, targets, temperature)
        old[where] = of_policy.cpu()
        reference[where] = of_base.cpu()
        assert spread is not None
        entropy[where] = spread.cpu()
    return Tokens(old, reference, entropy, values if with_values else None)


def odd_measures(rows: BaseRows, tokens: Tokens) -> tuple[Place, ...]:
    """Messages whose reward or measured numbers are not finite.

    Rewards and the policy's own numbers come first: they name the message that is to blame.
    """
    paid_N = rows.table.rewards_M[rows.table.message_N]
    return rows.odd_places(
        paid_N, rows.table.sampler_logprobs_N, tokens.old_logprobs
    ) or rows.odd_places(tokens.reference_logprobs, tokens.values)
