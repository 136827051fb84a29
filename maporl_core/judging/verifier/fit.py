"""Training: one adapter and one score head, by binary cross-entropy on right and wrong answers.

In: a base with the policy that becomes the verifier, encoded rows with labels, settings.  Out: the
policy as it was when held-out questions were scored best, and the history.  Neighbours: ``head``
makes logits, ``fitting`` loads models and writes the result, ``calibration`` judges it.

arXiv 2502.18439 trains rank 16, α 32 at 2e-4 for one epoch in batches of 4 × 2 on at most 550
tokens; those are the defaults.  The base is never touched.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from maporl_core.errors import TrainingError
from maporl_core.judging.verifier.calibration import log_loss
from maporl_core.judging.verifier.head import all_logits, row_batches, row_logits
from maporl_core.kit.progress import Progress
from maporl_core.kit.seeds import stable_seed
from maporl_core.models.policy import Base

_NOT_FINITE = "the verifier's loss or gradient is not finite; nothing was saved: lower --lr"


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How to train.

    ``batch``: rows of one optimiser step.  ``evaluations``: looks at the held-out rows per epoch;
    training ends after ``patience`` of them without a lower loss.  ``warmup``: share of the steps
    over which the rate rises; afterwards it falls in a line to 0.  ``micro_tokens``: padded tokens
    of one forward, for memory; it does not change the gradient.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    lr: float = 2e-4
    epochs: int = 1
    batch: int = 8
    max_length: int = 550
    warmup: float = 0.05
    max_grad_norm: float = 1.0
    evaluations: int = 4
    patience: int = 3
    micro_tokens: int = 16_384
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Encoded examples: ids closed by the end token, and whether each is a right answer."""

    ids: Sequence[Sequence[int]]
    labels: Sequence[bool]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the held-out rows: mean cross-entropy in nats; ``train_loss`` since the last."""

    step: int
    train_loss: float
    valid_loss: float


@dataclass(slots=True)
class History:
    """``steps`` done of ``planned``; the weights are those of ``best_step``."""

    planned: int
    steps: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    looks: list[Look] = field(default_factory=list)


def fit(
    base: Base, policy: str, train: Rows, valid: Rows, settings: FitSettings, progress: Progress
) -> History:
    """Train ``policy`` in place.  Raises TrainingError when the loss is not finite."""
    weights = base.policies[policy].parameters()
    optimiser = torch.optim.AdamW(weights, lr=settings.lr, weight_decay=0.0)
    per_epoch = math.ceil(len(train.ids) / settings.batch)
    history = History(planned=per_epoch * settings.epochs)
    every = max(1, per_epoch // settings.evaluations)
    best = _copy(weights)
    progress.stage("training the verifier", history.planned)
    losses: list[float] = []
    waited = 0
    for rows in _order(len(train.ids), settings):
        for group in optimiser.param_groups:
            group["lr"] = settings.lr * _rate(history.steps, history.planned, settings.warmup)
        losses.append(_step(base, policy, train, rows, settings, weights))
        optimiser.step()
        history.steps += 1
        progress.advance()
        if history.steps % every and history.steps < history.planned:
            continue
        logits = all_logits(base, policy, valid.ids, settings.micro_tokens)
        if not all(map(math.isfinite, logits)):
            raise TrainingError(_NOT_FINITE)
        loss = log_loss(logits, valid.labels)
        history.looks.append(Look(history.steps, sum(losses) / len(losses), loss))
        losses.clear()
        waited += 1
        if loss < history.best_loss:
            history.best_loss, history.best_step, waited = loss, history.steps, 0
            best = _copy(weights)
        if waited >= settings.patience:
            break
    with torch.no_grad():
        for weight, kept in zip(weights, best, strict=True):
            weight.copy_(kept)
    base.policies[policy].changed()
    return history


def _step(
    base: Base,
    policy: str,
    train: Rows,
    rows: Sequence[int],
    settings: FitSettings,
    weights: Sequence[nn.Parameter],
) -> float:
    """Gradient of the mean loss over ``rows``, clipped, left in the weights; the loss."""
    base.zero_grad()
    total = 0.0
    for batch in row_batches([len(train.ids[row]) for row in rows], settings.micro_tokens):
        chosen = [rows[place] for place in batch]
        labels = torch.tensor([float(train.labels[row]) for row in chosen], device=base.device)
        with row_logits(base, policy, [train.ids[row] for row in chosen], training=True) as logits:
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            (loss / len(rows)).backward()
        total += float(loss.detach()) / len(rows)
    norm = nn.utils.clip_grad_norm_(weights, settings.max_grad_norm)
    if not math.isfinite(total) or not bool(torch.isfinite(norm)):
        raise TrainingError(_NOT_FINITE)
    return total


def _order(count: int, settings: FitSettings) -> list[list[int]]:
    """Rows of every optimiser step, each epoch shuffled anew."""
    steps = []
    for epoch in range(settings.epochs):
        order = list(range(count))
        random.Random(stable_seed(settings.seed, "verifier epoch", epoch)).shuffle(order)
        steps += [order[i : i + settings.batch] for i in range(0, count, settings.batch)]
    return steps


def _rate(step: int, planned: int, warmup: float) -> float:
    """Share of the peak rate at ``step``, counted from 0."""
    rising = max(1, round(planned * warmup))
    return min(1.0, (step + 1) / rising) * (1.0 - step / planned)


def _copy(weights: Sequence[Tensor]) -> list[Tensor]:
    return [weight.detach().clone() for weight in weights]
