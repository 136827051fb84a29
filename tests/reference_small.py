"""From the small Llama of ``small`` and its policies to the plain arrays of ``reference``.

Also one watched update: what every optimiser step of every policy started from, and its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import reference_run as ref
from small import small_llama

from maporl_core.config.schema import RunConfig
from maporl_core.learning.packing import Row
from maporl_core.learning.updater import Updater, UpdateResult
from maporl_core.models.policy import Policies, Policy


def base_weights(seed: int = 0) -> ref.Llama:
    """The small Llama of this seed, as it is before any adapter wraps its layers."""
    model = small_llama(seed)
    return ref.Llama(
        weights={name: w.detach().double().numpy() for name, w in model.named_parameters()},
        layers=model.config.num_hidden_layers,
        heads=model.config.num_attention_heads,
        kv_heads=model.config.num_key_value_heads,
        rope_theta=10_000.0,
        eps=model.config.rms_norm_eps,
    )


def arrays(policy: Policy, part: str = "data") -> ref.Weights:
    """A policy's weights ("data") or gradients ("grad") in float64, by the names of PEFT."""
    found = {}
    for name, view in policy.adapter.items():
        array = getattr(view, part).detach().double().numpy().copy()
        found[f"{name}.weight"] = array.T if name.endswith("lora_B") else array
    for name, view in policy.value.items():
        found[f"value.{name}"] = getattr(view, part).detach().double().numpy().copy()
    return found


def scale(policy: Policy) -> float:
    return policy.config.alpha / policy.config.rank


@dataclass(frozen=True)
class Step:
    """One optimiser step of one policy: weights before it, and the gradient it took."""

    weights: ref.Weights
    gradients: ref.Weights


@dataclass
class Watched:
    """Every optimiser step of an update, by policy, and its result."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    result: Any = None


def watched_update(
    made: Policies, run: RunConfig, rows: Sequence[Row], updater: Updater | None = None
) -> Watched:
    """One update; gradients are those after clipping, so set ``max_grad_norm`` high."""
    updater = updater or Updater(made, run)
    watched = Watched({name: [] for name in updater.optimisers})
    handles = []
    for name, optimiser in updater.optimisers.items():

        def note(*_: Any, name: str = name) -> None:
            policy = made[name]
            watched.steps[name].append(Step(arrays(policy), arrays(policy, "grad")))

        handles.append(optimiser.register_step_pre_hook(note))
    result: UpdateResult = updater.update(rows, 0)
    for handle in handles:
        handle.remove()
    watched.result = result
    return watched


def dials(run: RunConfig) -> ref.Dials:
    method = run.method
    return ref.Dials(
        temperature=run.discussion.temperature,
        kl_coef=method.kl_coef,
        lam=method.gae_lambda,
        clip_low=method.clip_low,
        clip_high=method.clip_high,
        value_clip=method.value_clip,
        value_coef=method.value_coef,
        entropy_coef=method.entropy_coef,
    )
