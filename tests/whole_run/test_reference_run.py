"""A whole run of two agents, recomputed in NumPy from nothing but what the run left on disk.

Read back are the base model's file, the adapters of every checkpoint, and the store's token ids,
sampling log-probabilities, scores and correctness.  ``reference`` makes rewards, token rewards,
advantages, losses, gradients and AdamW steps of them; each must be what the run stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_run as ref
import torch
from pay_samples import NAMES
from safetensors.numpy import load_file, save_file
from small import EOS
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from maporl_core.config.load import dump_toml
from maporl_core.config.schema import RunConfig
from maporl_core.kit.progress import Silent
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.train import train

AGENTS = ("Ada", "Bo")
STEPS, EPOCHS = 3, 2
RANK, ALPHA = 1, 3.0
ADAM_EPS = 1e-5  # docs/algorithm.md
LR, VALUE_LR, DECAY, MAX_NORM = 2e-2, 5e-2, 0.1, 0.3
DIALS = ref.Dials(
    temperature=0.8,
    kl_coef=0.05,
    lam=0.9,
    clip_low=0.05,
    clip_high=0.08,
    value_clip=0.03,
    value_coef=0.3,
    entropy_coef=0.02,
)
REWARD = {
    "gamma": 0.4,
    "critical": 0.5,
    "persuaded": 0.25,
    "constructive": 0.75,
    "persuasive": 0.375,
    "format": -0.2,
    "unfinished": -0.15,
}
LAYERS = ("model.layers.0.self_attn.v_proj", "model.layers.0.mlp.down_proj")


# ---- the run -----------------------------------------------------------------------------------


def tokenizer() -> Any:
    """Ten words, three of them numbers, so that random text often holds an answer."""
    words = {"<unk>": 0, "<eos>": EOS, "1": 2, "2": 3, "3": 4} | {f"w{i}": i for i in range(5, 10)}
    raw = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    )


def save_base(folder: Path) -> None:
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=10,
        hidden_size=12,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        initializer_range=0.35,
        eos_token_id=EOS,
        pad_token_id=EOS,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def save_start(folder: Path, seed: int) -> None:
    """An adapter in PEFT's format that is not at zero, with a value head."""
    rng = np.random.default_rng(seed)
    sizes = {LAYERS[0]: (12, 6), LAYERS[1]: (16, 12)}
    tensors = {}
    for layer, (width, out) in sizes.items():
        for leaf, shape in (("lora_A", (RANK, width)), ("lora_B", (out, RANK))):
            weight = rng.normal(0, 0.15, shape).astype(np.float32)
            tensors[f"base_model.model.{layer}.{leaf}.weight"] = weight
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    head = {
        "weight": rng.normal(0, 0.1, 12).astype(np.float32),
        "bias": np.array([0.1], np.float32),
    }
    save_file(head, folder / "value_head.safetensors")
    about = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA}
    (folder / "adapter_config.json").write_text(json.dumps(about))


def write_questions(folder: Path) -> None:
    folder.mkdir()
    for split in ("train", "test"):
        rows = [
            {"question": " ".join(f"w{5 + (i * k) % 5}" for k in range(1, 2 + i % 4)), "answer": 2}
            for i in range(12)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))


def description(root: Path) -> RunConfig:
    policy = {"rank": RANK, "alpha": ALPHA, "target_modules": ["v_proj", "down_proj"]}
    return RunConfig.model_validate(
        {
            "name": "reference",
            "seed": 0,
            "device": "cpu",
            "task": {"name": "jsonl", "path": str(root / "questions")},
            "bases": {"main": {"model": str(root / "base")}},
            "policies": {name: {**policy, "adapter": str(root / name)} for name in AGENTS},
            "agents": [{"name": name, "policy": name} for name in AGENTS],
            "discussion": {
                "turns": 3,
                "consensus_stop": True,
                "style": "compact",
                "max_new_tokens": 5,
                "temperature": DIALS.temperature,
            },
            "verifier": {"kind": "noisy", "auroc": 0.8},
            "reward": REWARD,
            "update": {
                "epochs": EPOCHS,
                "micro_tokens": 90,
                "lr": LR,
                "value_lr": VALUE_LR,
                "weight_decay": DECAY,
                "warmup_steps": 2,
                "schedule": "cosine",
                "max_grad_norm": MAX_NORM,
            },
            "method": {
                "gae_lambda": DIALS.lam,
                "clip_low": DIALS.clip_low,
                "clip_high": DIALS.clip_high,
                "value_clip": DIALS.value_clip,
                "value_coef": DIALS.value_coef,
                "kl_coef": DIALS.kl_coef,
                "entropy_coef": DIALS.entropy_coef,
            },
            "train": {"steps": STEPS, "problems_per_step": 7},
            "eval": {"questions": 0},
            "checkpoint": {"every": 1, "keep": 10},
        }
    )


@dataclass(frozen=True)
class Left:
    """What the run left behind."""

    base: ref.Llama
    adapters: dict[tuple[int, str], ref.Weights]  # by finished steps and policy
    held: dict[int, list[Any]]  # StoredDiscussion by step
    metrics: dict[tuple[int, str], float]


def read_base(folder: Path) -> ref.Llama:
    about = json.loads((folder / "config.json").read_text())
    stored = load_file(folder / "model.safetensors")
    return ref.Llama(
        weights={name: w.astype(np.float64) for name, w in stored.items()},
        layers=about["num_hidden_layers"],
        heads=about["num_attention_heads"],
        kv_heads=about["num_key_value_heads"],
        rope_theta=10_000.0,
        eps=about["rms_norm_eps"],
    )


def read_adapter(folder: Path) -> ref.Weights:
    found = {
        name.removeprefix("base_model.model."): w
        for name, w in load_file(folder / "adapter_model.safetensors").items()
    }
    head = load_file(folder / "value_head.safetensors")
    found |= {f"value.{name}": w for name, w in head.items()}
    return {name: w.astype(np.float64) for name, w in found.items()}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    root = tmp_path_factory.mktemp("reference")
    save_base(root / "base")
    write_questions(root / "questions")
    for seed, name in enumerate(AGENTS):
        save_start(root / name, seed)
    config = description(root)
    run = RunDir.create(root / "runs", config.name, dump_toml(config))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train(config, run, Silent())
    torch.set_num_threads(threads)
    adapters = {(0, name): read_adapter(root / name) for name in AGENTS}
    for step in range(1, STEPS + 1):
        for name in AGENTS:
            folder = run.checkpoints / f"step-{step:06d}" / "policies" / name
            adapters[step, name] = read_adapter(folder)
    with StoreReader(run) as reader:
        held: dict[int, list[Any]] = {step: [] for step in range(1, STEPS + 1)}
        for stored in sorted(reader.discussions(), key=lambda s: s.row.id):
            held[stored.row.step].append(stored)
        metrics = {(step, name): value for step, name, value in reader.metrics_since(0).rows}
    return Left(read_base(root / "base"), adapters, held, metrics)


# ---- the account -------------------------------------------------------------------------------


def parts_of(stored: Any) -> list[list[dict[str, float]]]:
    """Every reward part of a stored discussion by the reference, [T][A]."""
    rows = stored.discussion.messages
    scores = [[m.score for m in row] for row in rows]
    gamma = REWARD["gamma"]
    whole = ref.verification(scores, gamma, "discounted", "team")
    paid = ref.shaping([[m.correct for m in row] for row in rows], REWARD, "majority")
    out = []
    for t, row in enumerate(rows):
        over = sum(gamma ** (u - t) for u in range(t, len(rows)))
        out.append(
            [
                {
                    "own": scores[t][a] / over,
                    "influence": whole[t][a] - scores[t][a] / over,
                    **paid[t][a],
                    "format": REWARD["format"] if m.answer is None else 0.0,
                    "unfinished": REWARD["unfinished"] if m.ids[-1] != EOS else 0.0,
                }
                for a, m in enumerate(row)
            ]
        )
    return out


@dataclass(frozen=True)
class Update:
    """One policy's update of one step by the reference."""

    places: list[tuple[int, int, int]]  # (discussion, turn, agent) per message
    accounts: list[ref.Account]
    weights: list[ref.Weights]  # before each epoch, and after the last
    norms: list[float]  # before clipping
    tokens: list[list[ref.Tokens]]  # per epoch, per message


SCALE = ALPHA / RANK


@pytest.fixture(scope="module")
def updates(left: Left) -> dict[tuple[int, str], Update]:
    """All updates, each policy's AdamW going on from step to step on the reference's weights."""
    found = {}
    for agent, name in enumerate(AGENTS):
        weights = left.adapters[0, name]
        adam = ref.AdamW(DECAY, MAX_NORM, ADAM_EPS)
        for step in range(1, STEPS + 1):
            messages, places = [], []
            for d, stored in enumerate(left.held[step]):
                parts = parts_of(stored)
                for t, row in enumerate(stored.discussion.messages[1:], start=1):
                    m = row[agent]
                    messages.append((m.prompt_ids, m.ids, sum(parts[t][agent].values())))
                    places.append((d, t, agent))
            accounts = ref.account(left.base, messages, weights, SCALE, DIALS)
            factor = ref.lr_factor(step - 1, STEPS, 2, "cosine")
            rates = {w: factor * (VALUE_LR if w.startswith("value") else LR) for w in weights}
            trail, norms, tokens = [weights], [], []
            for _ in range(EPOCHS):
                tokens.append(
                    [ref.token_terms(left.base, a, weights, SCALE, DIALS) for a in accounts]
                )
                gradient = ref.gradient(
                    lambda w, accounts=accounts: ref.loss(left.base, accounts, w, SCALE, DIALS),
                    weights,
                )
                norms.append(ref.norm(gradient))
                weights = adam.step(weights, gradient, rates)
                trail.append(weights)
            found[step, name] = Update(places, accounts, trail, norms, tokens)
    return found


# ---- what must agree ---------------------------------------------------------------------------


def messages_of(left: Left) -> list[Any]:
    return [
        m
        for held in left.held.values()
        for stored in held
        for row in stored.discussion.messages
        for m in row
    ]


def test_the_run_holds_every_kind_of_message_and_reaches_every_clip(
    left: Left, updates: dict[tuple[int, str], Update]
) -> None:
    said = messages_of(left)
    assert {m.answer is None for m in said} == {True, False}
    assert {m.finish for m in said} == {"stop", "length"}
    assert {m.correct for m in said} == {True, False}
    assert len({len(m.ids) for m in said}) > 3
    assert min(len(m.ids) for m in said) == 1
    stops = [s for held in left.held.values() for s in held if s.discussion.stopped_early]
    assert {s.discussion.turns for s in stops} == {1, 2}
    fired = [p for held in left.held.values() for s in held for row in parts_of(s) for p in row]
    signs = {(part, np.sign(p[part])) for p in fired for part in ref.SHAPING if p[part]}
    # Two right agents gave the same answer, so the discussion ends: nobody can leave a right peer.
    never = {("critical", -1), ("constructive", -1)}
    assert signs == {(part, sign) for part in ref.SHAPING for sign in (1, -1)} - never
    norms = [norm for update in updates.values() for norm in update.norms]
    assert min(norms) < MAX_NORM < max(norms)
    for key in ("clip_fraction", "value_clip_fraction"):
        assert any(left.metrics[step, f"policy/{name}/{key}"] > 0 for step, name in updates)


def test_every_reward_part_is_the_references(left: Left) -> None:
    for held in left.held.values():
        for stored in held:
            expected = parts_of(stored)
            for t, row in enumerate(stored.rewards_TA):
                for a, paid in enumerate(row):
                    found = {name: getattr(paid.parts, name) for name in NAMES}
                    assert found == pytest.approx(expected[t][a], abs=1e-6)
                    assert paid.parts.total == pytest.approx(sum(expected[t][a].values()), abs=1e-6)


def test_sampling_logprobs_are_the_references_of_whoever_wrote_the_message(left: Left) -> None:
    for step, held in left.held.items():
        for m in (m for stored in held for row in stored.discussion.messages for m in row):
            adapter = {} if m.turn == 0 else left.adapters[step - 1, AGENTS[m.agent]]
            read = ref.read(left.base, m.prompt_ids, m.ids, DIALS.temperature, adapter, SCALE)
            np.testing.assert_allclose(m.logprobs, read.logprobs, rtol=0, atol=1e-5)


def test_advantage_and_kl_of_every_message_are_the_references(
    left: Left, updates: dict[tuple[int, str], Update]
) -> None:
    for (step, _), update in updates.items():
        for (d, t, a), message in zip(update.places, update.accounts, strict=True):
            paid = left.held[step][d].rewards_TA[t][a]
            kl = (message.logp_old - message.logp_ref).sum()
            assert paid.advantage == pytest.approx(message.advantages.mean(), abs=1e-5)
            assert paid.kl == pytest.approx(kl, abs=1e-5)
    base_turn = [row for held in left.held.values() for s in held for row in s.rewards_TA[:1]]
    assert all(paid.advantage is None and paid.kl is None for row in base_turn for paid in row)


def expected_metrics(update: Update) -> dict[str, float]:
    """Means over the tokens of all epochs, from the reference's terms."""

    def mean(of: Any) -> float:
        return float(np.concatenate([of(t) for e in update.tokens for t in e]).mean())

    def clipped(terms: ref.Tokens, message: ref.Account) -> Any:
        held = np.clip(terms.ratio, 1 - DIALS.clip_low, 1 + DIALS.clip_high)
        return held * message.advantages < terms.ratio * message.advantages

    flags = [
        clipped(terms, message)
        for epoch in update.tokens
        for terms, message in zip(epoch, update.accounts, strict=True)
    ]
    kl = [(m.logp_old - m.logp_ref).sum() for m in update.accounts]
    values = np.concatenate([m.values_old for m in update.accounts])
    returns = np.concatenate([m.returns for m in update.accounts])
    return {
        "policy_loss": mean(lambda t: t.policy),
        "value_loss": mean(lambda t: t.value),
        "entropy": float(np.concatenate([t.entropy for t in update.tokens[0]]).mean()),
        "clip_fraction": float(np.concatenate(flags).mean()),
        "ratio_mean": mean(lambda t: t.ratio),
        "ratio_max": max(float(t.ratio.max()) for e in update.tokens for t in e),
        "approx_kl": mean(lambda t: t.ratio - 1 - np.log(t.ratio)),
        "beyond_limit": 0.0,
        "kl": float(np.mean(kl)),
        "explained_variance": 1 - np.var(returns - values) / np.var(returns),
        "grad_norm": float(np.mean(update.norms)),
    }


def test_losses_kl_and_gradient_norms_are_the_references(
    left: Left, updates: dict[tuple[int, str], Update]
) -> None:
    for (step, name), update in updates.items():
        expected = expected_metrics(update)
        found = {key: left.metrics[step, f"policy/{name}/{key}"] for key in expected}
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), (step, name)
    for step in range(1, STEPS + 1):
        factor = (0.5, 1.0, 1.0)[step - 1]  # two steps of warm-up, then the cosine's first
        assert left.metrics[step, "lr"] == pytest.approx(LR * factor, rel=1e-12)
        assert left.metrics[step, "kl_coef"] == DIALS.kl_coef


def test_weights_after_every_step_are_the_references(
    left: Left, updates: dict[tuple[int, str], Update]
) -> None:
    for (step, name), update in updates.items():
        trained, expected = left.adapters[step, name], update.weights[-1]
        assert trained.keys() == expected.keys()
        for weight, value in expected.items():
            np.testing.assert_allclose(
                trained[weight], value, rtol=0, atol=1e-5, err_msg=f"{step} {name} {weight}"
            )
        moved = [np.abs(expected[w] - left.adapters[0, name][w]).max() for w in expected]
        assert min(moved) > 100 * 1e-5  # so that 1e-5 tells a step from none
