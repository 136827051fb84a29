"""The recipe of the built-in models: from nothing to a folder in Hugging Face format.

In: a variant and a seed.  Out: config.json, model.safetensors, tokenizer files with the chat
template and generation_config.json, and a BuildReport.  Neighbours: ``lessons`` say what is
taught, ``network`` what it starts from, ``gates`` what it must be able to do in the end.

Every batch is drawn afresh.  The loss is the cross-entropy of what the agent says, all turns of a
discussion in one sequence; at the one token that chooses a reading it is taken against the odds of
both, minus their entropy, so a perfect pupil has loss 0.

The order of teaching (share of all steps): one turn alone (12 %); discussions of an agent whose
role is to trust scores (to 40 %); then a mixture of every shape in which two of five discussions
with scores have that role and in all others the agent pays them no heed.  So the model can follow
a score when told to, and does not by itself.  Taught without the role it cannot read scores at
all, and co-training then finds nothing to strengthen.
"""

from __future__ import annotations

import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from maporl_core.chat import ChatCodec
from maporl_core.errors import ModelError, StoreError
from maporl_core.pocket import check_variant
from maporl_core.pocket.batches import Batch, Encoder
from maporl_core.pocket.gates import Measures, failures, measure
from maporl_core.pocket.lessons import Lesson, Shape, draw_lesson, draw_shape
from maporl_core.pocket.network import fresh_network
from maporl_core.pocket.tokenizer import make_tokenizer
from maporl_core.pocket.variants import VARIANT, Variant
from maporl_core.progress import Progress, Silent

_ALONE, _TOLD = 0.12, 0.40  # ends of the first two stages, as shares of all steps
_TRUSTING = 0.4  # share of the third stage's discussions with scores that have the role
_WARMUP = 50  # steps
_FLOOR = 0.03  # of the peak rate, at the end
_SECOND_PEAK = 0.5  # of the third stage's rate, as a share of the first
_DECISION_WEIGHT = 5.0  # of the token that chooses a reading; 1 for all others
_GRADIENT_NORM = 1.0
_GATE_QUESTIONS = 500
_LOG_EVERY = 100  # steps


@dataclass(frozen=True, slots=True)
class BuildReport:
    """``loss`` is in nats per said token above the best possible; ``tokens`` were read in all."""

    variant: str
    seed: int
    weights: int
    vocabulary: int
    steps: int
    tokens: int
    seconds: float
    loss: float
    measures: Measures
    failed: tuple[str, ...]


def build(
    out_dir: Path,
    seed: int = 0,
    variant: str = "pocket",
    progress: Progress | None = None,
    *,
    score_leaning: float = 0.0,
    steps: int | None = None,
    gated: bool = True,
) -> BuildReport:
    """Make a built-in model and save it in ``out_dir``; minutes on one CPU core.

    ``score_leaning`` is the share of later messages that follow the best score untold, in the
    third stage.  ``steps`` replaces the variant's own number.  The same arguments give the same
    weights on the same machine and number of threads, and the same skill elsewhere.
    Raises ModelError for an unknown variant, and for a model that fails a gate, which is then not
    saved (``gated`` False saves it all the same); StoreError when the folder cannot be written.
    """
    check_variant(variant)
    recipe = VARIANT[variant]
    progress = progress or Silent()
    started = time.monotonic()
    tokenizer = make_tokenizer(recipe)
    network = fresh_network(recipe, tokenizer, seed)
    total = recipe.steps if steps is None else steps
    loss, tokens = _teach(network, tokenizer, recipe, seed, total, score_leaning, progress)
    progress.stage(f"testing {variant}")
    codec = ChatCodec(tokenizer)
    measures = measure(network.eval(), codec, _GATE_QUESTIONS if gated else 20, seed)
    failed = failures(measures)
    for line in failed:
        progress.log("warning", f"gate: {line}")
    if failed and gated:
        raise ModelError(
            f"{variant} (seed {seed}, {total} steps) was not saved, it failed "
            f"{len(failed)} of its gates: {'; '.join(failed)}; give it more steps or another seed"
        )
    _save(network, tokenizer, out_dir)
    return BuildReport(
        variant=variant,
        seed=seed,
        weights=sum(weight.numel() for weight in network.parameters()),
        vocabulary=len(tokenizer),
        steps=total,
        tokens=tokens,
        seconds=time.monotonic() - started,
        loss=loss,
        measures=measures,
        failed=failed,
    )


def _teach(
    network: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Variant,
    seed: int,
    steps: int,
    score_leaning: float,
    progress: Progress,
) -> tuple[float, int]:
    """Train in place; (mean loss of the last lines logged, tokens read)."""
    rng = random.Random(f"pocket/build/{recipe.name}/{seed}")
    encoder = Encoder(ChatCodec(tokenizer))
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.0
    )
    progress.stage(f"teaching {recipe.name}", steps)
    network.train()
    recent: list[float] = []
    tokens = 0
    for step in range(steps):
        done = step / steps
        batch = encoder.batch(_lessons(rng, done, recipe.batch, score_leaning))
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * _rate(step, done)
        loss = lesson_loss(network, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), _GRADIENT_NORM)
        optimizer.step()
        tokens += batch.ids.numel()
        recent = [*recent[1 - _LOG_EVERY :], loss.item()]
        progress.advance()
        if (step + 1) % _LOG_EVERY == 0:
            mean = sum(recent) / len(recent)
            progress.log("info", f"step {step + 1} of {steps}: loss {mean:.4f}")
    return sum(recent) / max(1, len(recent)), tokens


def _lessons(rng: random.Random, done: float, count: int, leaning: float) -> list[Lesson]:
    """The next batch, ``done`` ∈ [0, 1) of the way: discussions of one shape.

    Where they have a single turn there are four times as many, for they are that much shorter.
    """
    if done < _ALONE:
        shape, trusting = Shape(1, 1), 0.0
    elif done < _TOLD:
        shape, trusting = Shape(3, rng.choice((2, 3))), 1.0
    else:
        shape = draw_shape(rng)
        heeded = shape.feedback and shape.agents > 1 and shape.turns > 1
        trusting = _TRUSTING if heeded else 0.0
    return [
        draw_lesson(rng, shape, trusting=rng.random() < trusting, leaning=leaning)
        for _ in range(count * (4 if shape.turns == 1 else 1))
    ]


def _rate(step: int, done: float) -> float:
    """Learning rate as a share of its peak: warm-up, then a cosine down to the floor, twice.

    The first one ends with the second stage: following scores is learned only once the rate has
    come down.  The second, for the mixture, starts lower, so that it is not lost again.
    """
    if done < _TOLD:
        peak, phase = 1.0, done / _TOLD
    else:
        peak, phase = _SECOND_PEAK, (done - _TOLD) / (1.0 - _TOLD)
    cosine = 0.5 * (1.0 + math.cos(math.pi * phase))
    return min(1.0, (step + 1) / _WARMUP) * peak * (_FLOOR + (1.0 - _FLOOR) * cosine)


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


def _save(network: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, out_dir: Path) -> None:
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        network.save_pretrained(out_dir)
        tokenizer.save_pretrained(out_dir)
        # The name every release of transformers knows; some write one of their own.
        path = out_dir / "tokenizer_config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (out_dir / "model.safetensors").chmod(0o644)
    except OSError as error:
        raise StoreError(
            f"cannot write the model to {out_dir}: {error.strerror or error}"
        ) from error
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
