"""How a built-in model is taught: which lessons come when, at which rate, by which loss.

In: an untrained network, its tokenizer, a Variant and a seed.  Out: the network with its weights
set in place, and a Taught.  Neighbours: ``lessons`` are what is taught, ``batches`` makes tensors
of them, ``muon`` takes the steps, ``build`` calls this.

Every batch is drawn afresh.  The loss is the cross-entropy of what the agent says, all turns of a
discussion in one sequence; at the one token that chooses a reading it is taken against the odds of
both, minus their entropy, so a perfect pupil has loss 0.

There are three stages: one turn alone; discussions of an agent whose role is to trust scores; then
a mixture of every shape in which two of five discussions with scores have that role and in all
others the agent pays them no heed.  So the model can follow a score when told to, and does not by
itself.  Taught without the role it cannot read scores at all, and co-training then finds nothing
to strengthen.

When following scores is learned differs from seed to seed by hundreds of steps, and a role that is
half learned leaks into discussions without it.  So the second stage ends by its loss, within a
bound, and not after a fixed number of steps.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import log_softmax
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from maporl_core.kit.progress import Progress
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.runs.pocket.batches import Batch, Encoder
from maporl_core.runs.pocket.lessons import Lesson, Shape, draw_lesson, draw_shape
from maporl_core.runs.pocket.muon import Muon
from maporl_core.runs.pocket.variants import Variant

_ALONE, _TOLD = 1 / 12, 1 / 2  # ends of the first two stages at the latest, as shares of all steps
_LEARNED = 0.025  # nats: mean loss at which the second stage ends
RECENT = 50  # steps it is the mean of
_TRUSTING = 0.4  # share of the third stage's discussions with scores that have the role
_WARMUP = 50  # steps
_FLOOR = 0.005  # of the peak rate, at the end
_DECISION_WEIGHT = 5.0  # of the token that chooses a reading; 1 for all others
_GRADIENT_NORM = 1.0
_LOG_EVERY = 100  # steps


@dataclass(frozen=True, slots=True)
class Stage:
    """``steps`` steps, fewer once the mean loss of ``RECENT`` of them is below ``until``.

    The rate goes along half a cosine from ``first`` to ``last``, shares of the peak rate.
    With ``discusses`` False there is one turn; ``trusting`` is the share that have the role, and
    only the default shapes are taught where everyone has it.
    """

    name: str
    steps: int
    first: float
    last: float
    discusses: bool = True
    trusting: float = 0.0
    until: float = 0.0

    def rate(self, step: int) -> float:
        cosine = 0.5 * (1.0 + math.cos(math.pi * step / self.steps))
        return self.last + (self.first - self.last) * cosine


@dataclass(frozen=True, slots=True)
class Taught:
    """``steps`` made, ``tokens`` read, and the mean ``loss`` of the last steps in nats."""

    steps: int
    tokens: int
    loss: float


def plan(steps: int) -> tuple[Stage, ...]:
    """The stages of a recipe of at most ``steps`` steps; those without a step are left out."""
    alone, told = round(_ALONE * steps), round(_TOLD * steps)
    stages = (
        Stage("one turn alone", alone, 1.0, 0.5, discusses=False),
        Stage("trusting scores", told - alone, 0.5, 0.5, trusting=1.0, until=_LEARNED),
        Stage("all discussions", steps - told, 0.5, _FLOOR, trusting=_TRUSTING),
    )
    return tuple(stage for stage in stages if stage.steps)


def teach(
    network: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Variant,
    seed: int,
    steps: int,
    score_leaning: float,
    progress: Progress,
) -> Taught:
    """Train in place, at most ``steps`` steps."""
    rng = random.Random(f"pocket/build/{recipe.name}/{seed}")
    encoder = Encoder(ChatCodec(tokenizer))
    optimizers = _optimizers(network)
    network.train()
    done, tokens, mean = 0, 0, 0.0
    for stage in plan(steps):
        progress.stage(f"teaching {recipe.name}: {stage.name}", stage.steps)
        losses: list[float] = []
        for step in range(stage.steps):
            batch = encoder.batch(_lessons(rng, stage, recipe.batch, score_leaning))
            rate = recipe.lr * stage.rate(step) * min(1.0, (done + 1) / _WARMUP)
            losses = [*losses[1 - RECENT :], _take_step(network, optimizers, batch, rate)]
            mean = sum(losses) / len(losses)
            done, tokens = done + 1, tokens + batch.ids.numel()
            progress.advance()
            if done % _LOG_EVERY == 0:
                progress.log("info", f"step {done} of at most {steps}: loss {mean:.4f}")
            if len(losses) == RECENT and mean < stage.until:
                progress.log("info", f"{stage.name}: learned in {step + 1} steps")
                break
        else:
            if stage.until and mean >= stage.until:
                said = f"loss {mean:.3f} after {stage.steps} steps, not below {stage.until:g}"
                progress.log("warning", f"{stage.name}: {said}")
    return Taught(done, tokens, mean)


def _optimizers(network: LlamaForCausalLM) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices of layers; AdamW for embeddings, output and norms.

    With AdamW alone following scores comes later, and at some seeds not in 1,000 steps.
    """
    matrices: list[Parameter] = []
    others: list[Parameter] = []
    for name, weight in network.named_parameters():
        (matrices if weight.ndim == 2 and ".layers." in name else others).append(weight)
    return Muon(matrices), torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0)


def _take_step(
    network: LlamaForCausalLM,
    optimizers: tuple[Muon, torch.optim.AdamW],
    batch: Batch,
    rate: float,
) -> float:
    """One step of both optimisers at ``rate``; the loss before it."""
    loss = lesson_loss(network, batch)
    network.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), _GRADIENT_NORM)
    muon, adam = optimizers
    muon.step(rate)
    for group in adam.param_groups:
        group["lr"] = rate
    adam.step()
    return loss.item()


def _lessons(rng: random.Random, stage: Stage, count: int, leaning: float) -> list[Lesson]:
    """The next batch: discussions of one shape.

    Where they have a single turn there are four times as many, for they are that much shorter.
    """
    trusting = stage.trusting
    if not stage.discusses:
        shape = Shape(1, 1)
    elif trusting == 1.0:
        shape = Shape(3, rng.choice((2, 3)))
    else:
        shape = draw_shape(rng)
        heeded = shape.feedback and shape.agents > 1 and shape.turns > 1
        trusting = trusting if heeded else 0.0
    return [
        draw_lesson(rng, shape, trusting=rng.random() < trusting, leaning=leaning)
        for _ in range(count * (4 if shape.turns == 1 else 1))
    ]


def lesson_loss(network: LlamaForCausalLM, batch: Batch) -> Tensor:
    """Weighted mean over said tokens of KL(taught odds ‖ network), in nats; a scalar."""
    hidden = network.model(input_ids=batch.ids, use_cache=False).last_hidden_state
    said = log_softmax(network.lm_head(hidden.flatten(0, 1)[batch.where]), dim=-1)
    target = said.gather(1, batch.target[:, None])[:, 0]
    twin = said.gather(1, batch.twin[:, None])[:, 0]
    odds = batch.chance
    entropy = -(torch.special.xlogy(odds, odds) + torch.special.xlogy(1.0 - odds, 1.0 - odds))
    weight = 1.0 + (_DECISION_WEIGHT - 1.0) * batch.decides
    excess = -((1.0 - odds) * target + odds * twin + entropy)
    loss: Tensor = (weight * excess).sum() / weight.sum()
    return loss
