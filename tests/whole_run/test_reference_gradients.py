"""Gradients of chosen weights of every adapted layer, by complex steps through a NumPy Llama.

Two layers, every linear layer adapted, agents of different ranks and scalings, rows of many
lengths in small micro-batches.  The gradient is taken in the second epoch, where ratios have left
1, values have left the old ones, and the clips are at work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference_run as ref
from reference_small import base_weights, scale, watched_update
from small import discussions, policies, rewards, training

from maporl_core.config.schema import RunConfig
from maporl_core.learning.packing import Row, pack
from maporl_core.types import Place

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
            "update": {"epochs": 2, "lr": 5e-3, "micro_tokens": 120, "max_grad_norm": 1e6},
            "method": {
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


def messages_of(run: RunConfig) -> tuple[list[Row], dict[str, list[Any]]]:
    """Training rows, and the same messages (prompt, ids, R) one by one, by policy."""
    held = discussions(run, count=5, seed=2)
    paid = rewards(held)
    agents = [a for a in range(2) if run.train.train_agents in (None, (run.agents[a].name,))]
    messages: dict[str, list[Any]] = {name: [] for name in run.trained_policies()}
    for d, discussion in enumerate(held):
        for t, row in enumerate(discussion.messages[1:], start=1):
            for a in agents:
                entry = (row[a].prompt_ids, row[a].ids, paid[Place(d, t, a)].total)
                messages[run.agent_policies()[a]].append(entry)
    return pack(held, paid, training(*agents)), messages


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
    run = description(shared, frozen)
    made = policies(run, perturb=0.08)
    rows, messages = messages_of(run)
    watched = watched_update(made, run, rows)
    assert set(watched.steps) == trained
    base, rng = base_weights(), np.random.default_rng(0)
    for name, (first, second) in watched.steps.items():
        size = scale(made[name])
        accounts = ref.account(base, messages[name], first.weights, size, DIALS)

        def loss(
            w: ref.Weights, accounts: list[ref.Account] = accounts, size: float = size
        ) -> complex:
            return ref.loss(base, accounts, w, size, DIALS)

        for step in (first, second):
            for weight, gradient in step.gradients.items():
                for _ in range(CHOSEN):
                    place = tuple(int(rng.integers(n)) for n in gradient.shape)
                    expected = ref.slope(loss, step.weights, weight, place)
                    assert gradient[place] == pytest.approx(expected, abs=1e-5), weight
                assert np.abs(gradient).max() > 1e-3, weight  # 1e-5 means something here
        for key in ("clip_fraction", "value_clip_fraction"):
            assert 0 < watched.result.metrics[f"policy/{name}/{key}"] < 1
