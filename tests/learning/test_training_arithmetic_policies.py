"""Whose step touches what: minibatches, shared and frozen policies, two bases and tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_run as ref
import torch
import transformers
from reference_small import arrays, base_weights, dials, scale, watched_update
from small import discussions, policies, rewards, small_llama, training, word_tokenizer

from maporl_core.config.load import dump_toml
from maporl_core.config.schema import RunConfig
from maporl_core.kit.progress import Silent
from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.packing import Row, pack
from maporl_core.learning.updater import Updater
from maporl_core.models.policy import LoadedModel, Policies
from maporl_core.rollout.discussion import Judges, Rules, Speaker, hold
from maporl_core.rollout.engine.base import Sampling
from maporl_core.rollout.engine.in_process import HFEngine
from maporl_core.rollout.topology import make_topology
from maporl_core.store.paths import RunDir
from maporl_core.types import Discussion, Problem

TRAIN = import_module("maporl_core.train")


def description(names: Sequence[str] = ("Ada", "Bo"), **changes: Any) -> RunConfig:
    base: dict[str, Any] = {
        "agents": [{"name": name} for name in names],
        "discussion": {"turns": 3, "max_new_tokens": 6},
        "update": {"epochs": 1, "lr": 1e-2, "max_grad_norm": 1e6},
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return RunConfig.model_validate(base)


def rows_of(run: RunConfig, held: list[Discussion], agents: Sequence[int] = (0, 1)) -> list[Row]:
    return pack(held, rewards(held), training(*agents))


def all_bytes(made: Policies, name: str) -> list[bytes]:
    return [weight.detach().numpy().tobytes() for weight in made[name].parameters()]


def messages_in(rows: Sequence[Row]) -> list[Any]:
    return [(r.ids[: s.start], r.ids[s.start : s.end], s.reward) for r in rows for s in r.spans]


# ---- minibatches -------------------------------------------------------------------------------


def test_each_minibatch_is_divided_by_its_own_tokens_and_whitened_over_the_whole_update() -> None:
    run = description(
        ["Ada"],
        update={
            "minibatches": 3,
            "micro_tokens": 90,
        },
        method={
            "entropy_coef": 0.01,
        },
    )
    made = policies(run, perturb=0.08)
    rows = rows_of(run, discussions(run, count=7, seed=4), [0])
    updater = Updater(made, run)
    piles = BaseRows(made.bases["main"], rows, 90).minibatches(3, run.seed, step=0, epoch=0)
    assert sorted(r for pile in piles for r in pile) == list(range(len(rows)))
    assert len({sum(rows[r].tokens for r in pile) for pile in piles}) > 1
    steps = watched_update(made, run, rows, updater).steps["Ada"]
    assert len(steps) == len(piles) == 3
    base, size, numbers = base_weights(), scale(made["Ada"]), dials(run)
    accounts = iter(ref.account(base, messages_in(rows), steps[0].weights, size, numbers))
    by_row = [[next(accounts) for _ in row.spans] for row in rows]
    rng = np.random.default_rng(0)
    for pile, step in zip(piles, steps, strict=True):
        batch = [account for r in pile for account in by_row[r]]
        for weight in ("value.weight", *sorted(step.gradients)[::6]):
            gradient = step.gradients[weight]
            place = tuple(int(rng.integers(n)) for n in gradient.shape)
            expected = ref.slope(
                lambda w, batch=batch: ref.loss(base, batch, w, size, numbers),
                step.weights,
                weight,
                place,
            )
            assert gradient[place] == pytest.approx(expected, abs=1e-5), weight


def test_a_policy_without_rows_in_a_minibatch_is_not_stepped_there() -> None:
    run = description(update={"minibatches": 3})
    made = policies(run, perturb=0.05)
    rows = rows_of(run, discussions(run, count=4))
    few = [row for row in rows if row.policy == "Ada"][:1]
    many = [row for row in rows if row.policy == "Bo"]
    watched = watched_update(made, run, [*few, *many])
    assert {name: len(steps) for name, steps in watched.steps.items()} == {"Ada": 1, "Bo": 3}


def test_an_update_raises_the_version_of_the_policies_it_moved_and_of_no_other() -> None:
    """Engines know by it that keys and values of older weights are stale."""
    run = description()
    made = policies(run, perturb=0.05)
    before = {name: made[name].version for name in made.names()}
    watched_update(made, run, rows_of(run, discussions(run, count=2), [0]))
    assert made["Ada"].version > before["Ada"]
    assert made["Bo"].version == before["Bo"]


# ---- shared and frozen -------------------------------------------------------------------------


def test_a_shared_policy_takes_the_same_step_whichever_agent_said_what() -> None:
    shared = [{"name": name, "policy": "both"} for name in ("Ada", "Bo")]
    run = description(agents=shared, policies={"both": {}})
    rows = rows_of(run, discussions(run, count=4))
    first = watched_update(policies(run, perturb=0.05), run, rows).steps["both"][0]
    turned = watched_update(policies(run, perturb=0.05), run, rows[::-1]).steps["both"][0]
    for name, gradient in first.gradients.items():
        largest = np.abs(gradient).max()
        np.testing.assert_allclose(turned.gradients[name], gradient, atol=1e-5 * largest)


def test_a_frozen_agent_stays_byte_identical_and_does_not_change_its_partners_step() -> None:
    both, one = description(), description(train={"train_agents": ["Bo"]})
    held = discussions(both, count=4)
    made = policies(one, perturb=0.05)
    before = all_bytes(made, "Ada")
    alone = watched_update(made, one, rows_of(one, held, [1])).steps
    together = watched_update(policies(both, perturb=0.05), both, rows_of(both, held)).steps
    assert set(alone) == {"Bo"}
    assert all_bytes(made, "Ada") == before
    for name, gradient in together["Bo"][0].gradients.items():
        largest = np.abs(gradient).max()
        np.testing.assert_allclose(alone["Bo"][0].gradients[name], gradient, atol=1e-5 * largest)


def test_a_policy_shared_with_a_frozen_agent_is_trained_on_the_other_agents_words_only() -> None:
    shared = [{"name": name, "policy": "both"} for name in ("Ada", "Bo")]
    run = description(agents=shared, policies={"both": {}}, train={"train_agents": ["Bo"]})
    held = discussions(run, count=3)
    result = watched_update(policies(run), run, rows_of(run, held, [1])).result
    assert {place.agent for place in result.advantage} == {1}


# ---- two bases, two tokenizers -----------------------------------------------------------------


def two_bases(run: RunConfig) -> Policies:
    """A Llama over 64 words and a GPT-2 over 40, each with its own tokenizer."""
    torch.manual_seed(5)
    gpt2 = transformers.GPT2Config(
        vocab_size=40, n_positions=256, n_embd=24, n_layer=2, n_head=3, initializer_range=0.2
    )
    other = transformers.AutoModelForCausalLM.from_config(gpt2).eval()
    made = Policies(
        run,
        {
            "main": LoadedModel(small_llama(0), word_tokenizer(), 256),
            "other": LoadedModel(other, word_tokenizer(40), 256),
        },
    )
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name in made.names():
            for weight in made[name].parameters():
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.05)
    return made


def talk(run: RunConfig, made: Policies) -> list[Discussion]:
    """Real discussions across the bases: words cross as text, ids stay each agent's own."""
    engines = {name: HFEngine(base, 32) for name, base in made.bases.items()}
    speakers = []
    for name in ("Ada", "Bo"):
        base = made[name].base
        speakers.append(Speaker(name, "", name, engines[base.name], base.codec, 256))
    judges = Judges(
        prompt=lambda problem: problem.question,
        grade=lambda text, problem: (text, len(text) % 2 == 0),
        score=lambda items: [len(item.message.ids) / 10 for item in items],
        same=lambda a, b, problem: a == b,
    )
    asked = [Problem(f"p{i}", f"w{5 + i} w50 w7", "1", "made-up", "train") for i in range(5)]
    rules = Rules(make_topology(3), True, False, "compact", Sampling(1.0, 6), 1, 3, 64)
    return hold(asked, range(5), speakers, judges, rules)


def test_agents_on_two_bases_are_trained_each_as_if_the_other_base_were_not_there() -> None:
    placed = {"Ada": {"base": "main"}, "Bo": {"base": "other"}}
    run = description(
        agents=[{"name": n, "policy": n} for n in placed],
        bases={"main": {}, "other": {}},
        policies=placed,
    )
    made = two_bases(run)
    held = talk(run, made)
    assert all(i < 40 for d in held for row in d.messages for i in row[1].ids)
    frozen = {name: base.frozen_hash() for name, base in made.bases.items()}
    start = {name: arrays(made[name]) for name in placed}
    together = watched_update(made, run, rows_of(run, held))
    assert not together.result.bad
    assert {name: base.frozen_hash() for name, base in made.bases.items()} == frozen
    for agent, name in enumerate(placed):
        # What the engine sampled from is what the trainer reads, on either base.
        assert together.result.metrics[f"policy/{name}/mismatch_ratio_mean"] == pytest.approx(
            1.0, abs=1e-4
        )
        (step,) = together.steps[name]
        assert all(np.array_equal(step.weights[w], start[name][w]) for w in start[name])
        fresh = two_bases(run)
        alone = watched_update(fresh, run, rows_of(run, held, [agent])).steps[name][0]
        for weight, gradient in step.gradients.items():
            assert np.abs(gradient).max() > 0
            np.testing.assert_array_equal(alone.gradients[weight], gradient)
        partner = {"Ada": "Bo", "Bo": "Ada"}[name]
        assert all(
            np.array_equal(arrays(fresh[partner])[w], start[partner][w]) for w in start[partner]
        )
    base, size, numbers = base_weights(), scale(made["Ada"]), dials(run)
    messages = messages_in([row for row in rows_of(run, held) if row.policy == "Ada"])
    accounts = ref.account(base, messages, start["Ada"], size, numbers)
    (step,) = together.steps["Ada"]
    expected = ref.slope(
        lambda w: ref.loss(base, accounts, w, size, numbers), step.weights, "value.weight", (3,)
    )
    assert step.gradients["value.weight"][3] == pytest.approx(expected, abs=1e-5)


def test_fresh_adapters_on_two_bases_start_at_kl_zero() -> None:
    placed = {"Ada": {"base": "main"}, "Bo": {"base": "other"}}
    run = description(
        agents=[{"name": n, "policy": n} for n in placed],
        bases={"main": {}, "other": {}},
        policies=placed,
    )
    made = two_bases(run)
    with torch.no_grad():
        for name in made.names():
            for key, weight in made[name].adapter.items():
                if key.endswith("lora_B"):
                    weight.zero_()
    result = watched_update(made, run, rows_of(run, talk(run, made))).result
    assert max(abs(kl) for kl in result.kl.values()) < 1e-5
    assert result.metrics["policy/Bo/ratio_max"] == pytest.approx(1.0, abs=1e-5)


# ---- a whole run -------------------------------------------------------------------------------


def test_a_whole_run_with_evaluations_and_checkpoints_leaves_the_base_weights_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes: dict[str, list[str]] = {"start": [], "end": []}
    seen = []
    honest = TRAIN.assemble

    def watched(*args: Any) -> Any:
        assembly = honest(*args)
        seen.append(assembly)
        hashes["start"] += [base.frozen_hash() for base in assembly.policies.bases.values()]
        return assembly

    monkeypatch.setattr(TRAIN, "assemble", watched)
    config = RunConfig.model_validate(
        {
            "name": "hash",
            "discussion": {"style": "compact", "max_new_tokens": 8, "turns": 2},
            "update": {"epochs": 2, "minibatches": 2, "lr": 1e-2},
            "train": {"steps": 3, "problems_per_step": 3},
            "eval": {"questions": 3, "every": 1},
            "checkpoint": {"every": 1},
        }
    )
    run = RunDir.create(tmp_path, config.name, dump_toml(config))
    TRAIN.train(config, run, Silent())
    (assembly,) = seen
    hashes["end"] = [base.frozen_hash() for base in assembly.policies.bases.values()]
    assert hashes["start"] == hashes["end"]
    assert len(hashes["start"]) == 1
    assert any(bool(w.any()) for n, w in assembly.policies["Ada"].adapter.items() if "lora_B" in n)
