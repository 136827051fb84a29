"""Sampler against trainer: what the metrics say, by a NumPy account, and when a run warns.

Real discussions by the in-process engine: two policies in one batch, three turns whose keys and
values are kept from turn to turn.  The account reads every message alone, in float64.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_run as ref
from pydantic import ValidationError
from reference_small import arrays, base_weights, scale
from small import policies, rewards, training

from maporl_core.config.load import dump_toml
from maporl_core.config.schema import RunConfig
from maporl_core.kit.progress import Silent
from maporl_core.learning.packing import pack
from maporl_core.learning.update_metrics import mismatches
from maporl_core.learning.updater import Updater
from maporl_core.models.policy import Policies
from maporl_core.rollout.discussion import Judges, Rules, Speaker, hold
from maporl_core.rollout.engine.base import Sampling
from maporl_core.rollout.engine.in_process import HFEngine
from maporl_core.rollout.topology import make_topology
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.train import train
from maporl_core.types import Discussion, Problem

NAMES = ("Ada", "Bo")
JUDGES = Judges(
    prompt=lambda problem: problem.question,
    grade=lambda text, problem: (text, len(text) % 2 == 0),
    score=lambda items: [0.5] * len(items),
    same=lambda a, b, problem: a == b,
)


def description(temperature: float) -> RunConfig:
    return RunConfig.model_validate(
        {
            "agents": [{"name": name} for name in NAMES],
            "discussion": {"turns": 3, "temperature": temperature, "max_new_tokens": 8},
            "train": {"train_turns": "all"},
            "update": {"epochs": 1, "micro_tokens": 400},
        }
    )


def talk(made: Policies, temperature: float, problems: int = 8) -> list[Discussion]:
    base = made.bases["main"]
    engine = HFEngine(base, 64)
    speakers = [Speaker(name, "", name, engine, base.codec, 512) for name in NAMES]
    asked = [Problem(f"p{i}", f"w{5 + i} w7", "1", "made-up", "train") for i in range(problems)]
    rules = Rules(make_topology(3), True, False, "compact", Sampling(temperature, 8), 0, 3, 64)
    return hold(asked, range(problems), speakers, JUDGES, rules)


def update(made: Policies, run: RunConfig, held: list[Discussion]) -> dict[str, float]:
    rows = pack(held, rewards(held), training(*range(len(NAMES))))
    return dict(Updater(made, run).update(rows, 0).metrics)


def account(made: Policies, held: list[Discussion], temperature: float) -> dict[str, Any]:
    """log π_trainer − log π_sampler of every token, by policy."""
    base = base_weights()
    gaps: dict[str, Any] = {}
    for a, name in enumerate(NAMES):
        adapter = arrays(made[name])
        gaps[name] = np.concatenate(
            [
                ref.read(
                    base, m.prompt_ids, m.ids, temperature, adapter, scale(made[name])
                ).logprobs
                - np.array(m.logprobs)
                for d in held
                for m in (row[a] for row in d.messages)
            ]
        )
    return gaps


def shifted(held: list[Discussion], by: dict[int, float]) -> list[Discussion]:
    """The same discussions with log-probabilities reported higher, per agent."""
    return [
        replace(
            d,
            messages=tuple(
                tuple(
                    replace(m, logprobs=tuple(x + by.get(m.agent, 0.0) for x in m.logprobs))
                    for m in row
                )
                for row in d.messages
            ),
        )
        for d in held
    ]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_sampler_and_trainer_agree_and_the_metrics_are_the_accounts(temperature: float) -> None:
    run = description(temperature)
    made = policies(run, perturb=0.05)
    held = talk(made, temperature)
    gaps = account(made, held, temperature)
    metrics = update(made, run, held)
    for name, gap in gaps.items():
        assert len(gap) > 60
        assert np.abs(gap).max() < 1e-4
        assert metrics[f"policy/{name}/mismatch_ratio_mean"] == pytest.approx(
            np.exp(gap).mean(), abs=1e-5
        )
        assert metrics[f"policy/{name}/mismatch_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["mismatch/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["mismatch/ratio_max"] == pytest.approx(1.0, abs=1e-3)
    assert mismatches(metrics, run.update.mismatch_warn) == []


@pytest.mark.parametrize(("sampler", "trainer"), [(1.3, 1.0), (0.6, 1.0), (1.0, 0.6)])
def test_a_sampler_at_another_temperature_is_measured_and_warned_about(
    sampler: float, trainer: float
) -> None:
    run = description(trainer)
    made = policies(run, perturb=0.05)
    held = talk(made, sampler)
    gaps = account(made, held, trainer)
    metrics = update(made, run, held)
    for name, gap in gaps.items():
        ratio = np.exp(gap)
        expected = {
            "mismatch_ratio_mean": ratio.mean(),
            "mismatch_ratio_max": ratio.max(),
            "mismatch_kl": (ratio - 1 - gap).mean(),
        }
        found = {key: metrics[f"policy/{name}/{key}"] for key in expected}
        assert found == pytest.approx(expected, rel=1e-4)
    means = [np.exp(gap).mean() for gap in gaps.values()]
    assert metrics["mismatch/ratio_mean"] == pytest.approx(np.mean(means), rel=1e-4)
    assert metrics["mismatch/ratio_max"] == pytest.approx(
        max(np.exp(gap).max() for gap in gaps.values()), rel=1e-4
    )
    lines = mismatches(metrics, run.update.mismatch_warn)
    assert [line.split(":")[0] for line in lines] == list(NAMES)


def test_an_adapter_that_moved_after_sampling_is_seen_by_the_kl() -> None:
    run = description(1.0)
    made = policies(run, perturb=0.05)
    held = talk(made, 1.0, problems=24)
    for weight in made["Ada"].parameters():
        weight.data.mul_(1.6)
    metrics = update(made, run, held)
    assert metrics["policy/Ada/mismatch_kl"] > run.update.mismatch_warn
    (line,) = mismatches(metrics, run.update.mismatch_warn)
    assert line.startswith("Ada: ")
    # Drawn from another distribution, but the mean ratio stays near 1: alone it would say little.
    assert metrics["policy/Ada/mismatch_ratio_mean"] == pytest.approx(1.0, abs=0.25)


def test_opposite_shifts_of_two_policies_do_not_hide_each_other() -> None:
    run = description(1.0)
    made = policies(run, perturb=0.05)
    held = shifted(talk(made, 1.0), {0: -math.log(1.1), 1: -math.log(0.9)})
    metrics = update(made, run, held)
    assert metrics["policy/Ada/mismatch_ratio_mean"] == pytest.approx(1.1, abs=1e-4)
    assert metrics["policy/Bo/mismatch_ratio_mean"] == pytest.approx(0.9, abs=1e-4)
    assert metrics["mismatch/ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    assert len(mismatches(metrics, run.update.mismatch_warn)) == 2


@pytest.mark.parametrize(
    ("ratio", "kl", "limit", "warns"),
    [
        (1.019, 0.0, 0.02, False),
        (1.021, 0.0, 0.02, True),
        (0.979, 0.0, 0.02, True),
        (1.0, 0.021, 0.02, True),
        (1.021, 0.021, 0.05, False),
        (float("nan"), 0.0, 0.02, True),
        (1.0, float("nan"), 0.02, True),
        (float("inf"), 0.0, 0.02, True),
    ],
)
def test_the_limit_decides_on_either_side_and_numbers_that_are_none_always_warn(
    ratio: float, kl: float, limit: float, warns: bool
) -> None:
    metrics = {"policy/Ada/mismatch_ratio_mean": ratio, "policy/Ada/mismatch_kl": kl}
    assert bool(mismatches(metrics, limit)) == warns


@pytest.mark.parametrize(("limit", "warned"), [(0.02, True), (0.2, False)])
def test_a_run_with_a_shifted_sampler_warns_in_its_log_unless_the_limit_is_wider(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, limit: float, warned: bool
) -> None:
    import maporl_core.rollout.engine.in_process as engine

    honest = engine.sample

    def skewed(*args: Any) -> Any:
        tokens, logprobs = honest(*args)
        return tokens, logprobs + 0.1  # claims e^0.1 times the probability it drew with

    monkeypatch.setattr(engine, "sample", skewed)
    config = RunConfig.model_validate(
        {
            "name": "shifted",
            "discussion": {"style": "compact", "max_new_tokens": 8, "turns": 2},
            "update": {"epochs": 1, "mismatch_warn": limit},
            "train": {"steps": 1, "problems_per_step": 2},
            "eval": {"questions": 0},
            "checkpoint": {"every": 0},
        }
    )
    run = RunDir.create(tmp_path, config.name, dump_toml(config))
    train(config, run, Silent())
    with StoreReader(run) as reader:
        said = [event for event in reader.last_events() if event.kind == "mismatch"]
        metrics = reader.latest_metrics()
    assert metrics["mismatch/ratio_mean"] == pytest.approx(math.exp(-0.1), abs=1e-3)
    assert [event.level for event in said] == (["warning"] * 3 if warned else [])
    if warned:
        assert said[0].text.startswith("step 1: ")
        assert "0.9048 times" in said[0].text


@pytest.mark.parametrize("key", ["top_p", "top_k"])
def test_cut_distributions_are_no_setting_of_training_rollouts(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        RunConfig.model_validate({"discussion": {key: 1}})
    with pytest.raises(TypeError, match=key):
        Sampling(1.0, 8, **{key: 1})


def test_a_models_own_top_k_and_top_p_do_not_cut_what_is_sampled_from() -> None:
    run = description(1.0)
    made = policies(run, perturb=0.05)
    settings = made.bases["main"].model.generation_config
    settings.do_sample, settings.top_k, settings.top_p = True, 1, 0.1
    held = talk(made, 1.0)
    gaps = account(made, held, 1.0)
    assert max(np.abs(gap).max() for gap in gaps.values()) < 1e-4
    logprobs = [x for d in held for row in d.messages for m in row for x in m.logprobs]
    assert min(logprobs) < -math.log(64)  # of 64 tokens the likeliest, all a cut leaves, is above
