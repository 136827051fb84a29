"""What is told of one update: metrics per policy, their means, and when the sampler disagrees.

In: what was measured, the returns and the tally of the optimiser steps.  Out: metrics by name;
docs/algorithm.md says what each means.  Neighbours: ``updater`` collects them, ``session`` warns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.base_update import Tally
from maporl_core.learning.measure import Measured
from maporl_core.learning.mismatch import Correction, correction_facts


def policy_metrics(
    rows: BaseRows,
    measured: Measured,
    returns_N: Tensor | None,
    tally: Tally,
    correction: Correction | None = None,
) -> dict[str, float]:
    """Per policy "policy/<name>/…"; those of values only where there are values."""
    found: dict[str, float] = {}
    table, tokens = rows.table, measured.tokens
    gap = tokens.old_logprobs.double() - table.sampler_logprobs_N.double()
    mismatch, divergence = gap.exp(), torch.expm1(gap) - gap
    for name, policy in rows.present.items():
        mine = table.policy_N == policy.index
        facts = {
            "kl": float(measured.kl_M[table.policy_M == policy.index].mean()),
            "entropy": float(tokens.entropy[mine].mean()),
            "mismatch_ratio_mean": float(mismatch[mine].mean()),
            "mismatch_ratio_max": float(mismatch[mine].max()),
            "mismatch_kl": float(divergence[mine].mean()),
        }
        if tokens.values is not None and returns_N is not None:
            facts["explained_variance"] = explained_variance(tokens.values[mine], returns_N[mine])
        if correction is not None:
            facts |= correction_facts(correction, mine, table.policy_M == policy.index)
        if tally.stats is not None:
            facts |= {**tally.stats.means(policy.index), "entropy": facts["entropy"]}
        norms = tally.grad_norms.get(name, [])
        facts["grad_norm"] = sum(norms) / len(norms) if norms else math.nan
        found |= {f"policy/{name}/{key}": value for key, value in facts.items()}
    return found


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 − Var(returns − values) / Var(returns): 1 perfect, 0 no better than a constant.

    0 when it is undefined: no tokens, or returns without spread.
    """
    returns, values = returns.detach().double(), values.detach().double()
    if returns.numel() == 0:
        return 0.0
    spread = float(returns.var(correction=0))
    if spread <= 1e-12:
        return 0.0
    return 1.0 - float((returns - values).var(correction=0)) / spread


def over_policies(metrics: Mapping[str, float]) -> dict[str, float]:
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
    if "mismatch_left_out" in by_key:
        found["mismatch/left_out"] = sum(by_key["mismatch_left_out"])
    return found


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
