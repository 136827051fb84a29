"""Gradients of chosen weights of every adapted layer, by complex steps through a NumPy Llama.

Two layers, every linear layer adapted, agents of different ranks and scalings, rows of many
lengths in small micro-batches.  The gradient is taken in the second epoch, where ratios have left
1, values have left the old ones, and the clips are at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import reference as ref
from small import discussions, policies, rewards, small_llama

from maporl_core.config import RunConfig
from maporl_core.packing import pack
from maporl_core.policy import Policy
from maporl_core.update import Updater

DIALS = ref.Dials(
    temperature=0.7,
    kl_coef=0.03,
    lam=0.95,
    clip_low=0.1,
    clip_high=0.15,
    value_clip=0.05,
    value_coef=0.4,
    entropy_coef=0.03,
)
CHOSEN = 2  # weights of each matrix
SHAPES = {"Ada": {"rank": 3, "alpha": 6.0}, "Bo": {"rank": 4, "alpha": 2.0}}


def description(shared: bool, frozen: bool) -> RunConfig:
    return RunConfig.model_validate(
        {
            "agents": [
                {"name": "Ada", "policy": "Ada"},
                {"name": "Bo", "policy": "Ada" if shared else "Bo"},
            ],
            "policies": SHAPES,
            "discussion": {"turns": 3, "temperature": DIALS.temperature},
            "train": {"train_agents": ["Bo"] if frozen else None},
            "ppo": {
                "epochs": 2,
                "lr": 5e-3,
                "micro_tokens": 120,
                "max_grad_norm": 1e6,
                "kl_coef": DIALS.kl_coef,
                "gae_lambda": DIALS.lam,
                "clip_low": DIALS.clip_low,
                "clip_high": DIALS.clip_high,
                "value_clip": DIALS.value_clip,
                "value_coef": DIALS.value_coef,
                "entropy_coef": DIALS.entropy_coef,
            },
        }
    )


def base_weights() -> ref.Llama:
    model = small_llama(0)
    return ref.Llama(
        weights={name: w.detach().double().numpy() for name, w in model.named_parameters()},
        layers=model.config.num_hidden_layers,
        heads=model.config.num_attention_heads,
        kv_heads=model.config.num_key_value_heads,
        rope_theta=10_000.0,
        eps=model.config.rms_norm_eps,
    )


def in_peft_names(policy: Policy, part: str) -> ref.Weights:
    """A policy's weights ("data") or gradients ("grad") in float64, by the names of PEFT."""
    found = {}
    for name, view in policy.adapter.items():
        array = getattr(view, part).detach().double().numpy().copy()
        found[f"{name}.weight"] = array.T if name.endswith("lora_B") else array
    for name, view in policy.value.items():
        found[f"value.{name}"] = getattr(view, part).detach().double().numpy().copy()
    return found


@dataclass(frozen=True)
class Seen:
    """A policy at one optimiser step."""

    weights: ref.Weights
    gradients: ref.Weights


def train_and_watch(run: RunConfig) -> tuple[dict[str, list[Seen]], dict[str, list[Any]], Any]:
    """Optimiser steps by policy, trained messages by policy, and the result of one update."""
    made = policies(run, perturb=0.08)
    updater = Updater(made, run)
    seen: dict[str, list[Seen]] = {name: [] for name in updater.optimisers}
    for name, optimiser in updater.optimisers.items():

        def note(*_: Any, name: str = name) -> None:
            policy = made[name]
            seen[name].append(Seen(in_peft_names(policy, "data"), in_peft_names(policy, "grad")))

        optimiser.register_step_pre_hook(note)
    held = discussions(run, count=5, seed=2)
    paid = rewards(held)
    agents = [a for a in range(2) if run.train.train_agents in (None, (run.agents[a].name,))]
    messages: dict[str, list[Any]] = {name: [] for name in updater.optimisers}
    for d, discussion in enumerate(held):
        for t, row in enumerate(discussion.messages[1:], start=1):
            for a in agents:
                entry = (row[a].prompt_ids, row[a].ids, paid[d][t][a].total)
                messages[run.agent_policies()[a]].append(entry)
    result = updater.update(pack(held, paid, run.agent_policies(), agents), 0)
    assert not result.bad
    return seen, messages, result


@pytest.mark.parametrize(
    ("shared", "frozen", "trained"),
    [
        (False, False, {"Ada", "Bo"}),
        (True, False, {"Ada"}),
        (False, True, {"Bo"}),
    ],
    ids=["a policy each", "one shared policy", "one agent frozen"],
)
def test_gradients_of_every_adapted_layer_are_the_references(
    shared: bool, frozen: bool, trained: set[str]
) -> None:
    seen, messages, result = train_and_watch(description(shared, frozen))
    assert set(seen) == trained
    base, rng = base_weights(), np.random.default_rng(0)
    for name, (first, second) in seen.items():
        scale = SHAPES[name]["alpha"] / SHAPES[name]["rank"]
        accounts = ref.account(base, messages[name], first.weights, scale, DIALS)

        def loss(
            w: ref.Weights, accounts: list[ref.Account] = accounts, scale: float = scale
        ) -> complex:
            return ref.loss(base, accounts, w, scale, DIALS)

        for epoch in (first, second):
            for weight, gradient in epoch.gradients.items():
                for _ in range(CHOSEN):
                    place = tuple(int(rng.integers(n)) for n in gradient.shape)
                    expected = ref.slope(loss, epoch.weights, weight, place)
                    assert gradient[place] == pytest.approx(expected, abs=1e-5), weight
                assert np.abs(gradient).max() > 1e-3, weight  # 1e-5 means something here
        for key in ("clip_fraction", "value_clip_fraction"):
            assert 0 < result.metrics[f"policy/{name}/{key}"] < 1
