"""The update's arithmetic on several kinds of model: biases, Conv1D, flattened batches, soft caps.

Each kind is small, random and real, with an adapter of two policies on every linear layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from reference_small import Watched, watched_update
from small import EOS, config, discussions, rewards, training, word_tokenizer

from maporl_core.config.schema import BaseModelConfig, RunConfig
from maporl_core.learning.packing import Row, pack
from maporl_core.models.policy import Base, LoadedModel, Policies

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": EOS,
    "pad_token_id": EOS,
}
KINDS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    # Conv1D layers, learned positions.
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=64,
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.2,
        bos_token_id=0,
        eos_token_id=EOS,
    ),
    # Flattens its batch before the MLP.
    "opt": lambda: transformers.OPTConfig(
        vocab_size=64,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        word_embed_proj_dim=32,
        init_std=0.2,
        pad_token_id=EOS,
        eos_token_id=EOS,
    ),
    # A soft cap over logits, a sliding window shorter than the rows.
    "gemma2": lambda: transformers.Gemma2Config(
        head_dim=8, query_pre_attn_scalar=8, sliding_window=12, **SIZES
    ),
}

# Equal gradients within 1e-6 is what is asked for.  This random Qwen2 rounds to 1.44e-6 in float32
# (worst of 2 policies and 2 splits); in float64 its splits agree to 4e-16, which is tested as well.
FLOAT32_BOUND = {"qwen2": 2e-6}


def made(run: RunConfig, kind: str, perturb: float = 0.0) -> Policies:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(KINDS[kind]()).eval()
    policies = Policies(run, {"main": LoadedModel(model, word_tokenizer(), 128)})
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name in policies.names():
            for weight in policies[name].parameters():
                weight.add_(torch.randn(weight.shape, generator=generator) * perturb)
    return policies


def description(**update: Any) -> RunConfig:
    update = {"epochs": 1, "lr": 1e-2, "max_grad_norm": 1e6, **update}
    return config(agents=2, discussion={"temperature": 0.7}, update=update)


def eight_rows(run: RunConfig) -> list[Row]:
    held = discussions(run, count=4, seed=3)
    rows = pack(held, rewards(held), training(0, 1))
    assert len(rows) == 8
    assert len({len(row.ids) for row in rows}) > 4
    return rows


def in_groups_of(size: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Micro-batches of exactly ``size`` rows; returns the sizes of those of optimiser steps."""
    from maporl_core.learning import base_rows, packing

    sizes: list[int] = []

    def exactly(rows: Any, chosen: Any, indices: Any, table: Any, _: int, device: Any) -> Any:
        order = list(chosen)
        for start in range(0, len(order), size):
            group = order[start : start + size]
            sizes.append(len(group))
            yield packing._micro_batch(rows, group, indices, table, device)

    monkeypatch.setattr(base_rows, "micro_batches", exactly)
    return sizes


def gradients(watched: Watched) -> dict[str, dict[str, torch.Tensor]]:
    assert not watched.result.bad
    return {
        name: {w: torch.tensor(g) for w, g in step.gradients.items()}
        for name, (step,) in watched.steps.items()
    }


def in_three_splits(kind: str, monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """Gradients by policy and weight, by rows per micro-batch."""
    run = description()
    rows = eight_rows(run)
    found = {}
    for size in (8, 1, 4):
        sizes = in_groups_of(size, monkeypatch)
        found[size] = gradients(watched_update(made(run, kind, 0.05), run, rows))
        assert set(sizes) == {size}
        assert len(sizes) == 2 * 8 // size  # once to measure, once to train
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_one_times_eight_eight_times_one_and_two_times_four_rows_give_one_gradient(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = in_three_splits(kind, monkeypatch)
    for size in (1, 4):
        for name, whole in found[8].items():
            largest = max(float(gradient.abs().max()) for gradient in whole.values())
            for weight, gradient in whole.items():
                error = (found[size][name][weight] - gradient).abs().max()
                assert error <= FLOAT32_BOUND.get(kind, 1e-6) * largest, (size, name, weight)


@pytest.mark.parametrize("kind", KINDS)
def test_in_double_precision_the_split_into_micro_batches_leaves_only_rounding(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what the splits differ by in float32 is rounding and nothing systematic."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    try:
        found = in_three_splits(kind, monkeypatch)
    finally:
        torch.set_default_dtype(torch.float32)
    for size in (1, 4):
        for name, whole in found[8].items():
            for weight, gradient in whole.items():
                error = (found[size][name][weight] - gradient).norm() / gradient.norm()
                assert error < 1e-8, (size, name, weight)  # Gemma's softmax stays in float32


@pytest.mark.parametrize("kind", KINDS)
def test_at_step_zero_kl_is_zero_and_every_ratio_one(kind: str) -> None:
    run = description(micro_tokens=100)
    result = watched_update(made(run, kind), run, eight_rows(run)).result
    assert max(abs(kl) for kl in result.kl.values()) < 1e-5
    for name in ("Ada", "Bo"):
        facts = {key: result.metrics[f"policy/{name}/{key}"] for key in ("ratio_mean", "ratio_max")}
        assert facts == pytest.approx({"ratio_mean": 1.0, "ratio_max": 1.0}, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_training_moves_adapters_and_never_the_base(kind: str) -> None:
    run = description(epochs=3, minibatches=2)
    policies = made(run, kind)
    base = policies.bases["main"]
    probe = torch.arange(2, 12)[None]
    with torch.no_grad(), base.route(None):
        before = base.hidden(probe)
    frozen = base.frozen_hash()
    start = [w.detach().clone() for name in policies.names() for w in policies[name].parameters()]
    watched_update(policies, run, eight_rows(run))
    moved = [w for name in policies.names() for w in policies[name].parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(start, moved, strict=True))
    assert base.frozen_hash() == frozen
    with torch.no_grad(), base.route(None):
        assert torch.equal(base.hidden(probe), before)


@pytest.mark.parametrize("kind", KINDS)
def test_left_and_right_padding_read_the_same_logits_and_values(kind: str) -> None:
    base = made(description(), kind, 0.05).bases["main"]
    texts = [list(range(5, 9)), list(range(10, 27)), [7], [8, EOS, 9, EOS]]
    width = max(map(len, texts))
    left, right = torch.full((2, len(texts), width), EOS)  # the pad token is the end token
    mask = torch.zeros(len(texts), width, dtype=torch.long)
    for row, text in enumerate(texts):
        left[row, width - len(text) :] = torch.tensor(text)
        right[row, : len(text)] = torch.tensor(text)
        mask[row, width - len(text) :] = 1
    owners = torch.tensor([0, 1, 1, 0])
    with torch.no_grad(), base.route(owners):
        of_left, of_right = base.hidden(left, mask), base.hidden(right)
    for row, text in enumerate(texts):
        with torch.no_grad(), base.route(owners[row : row + 1]):
            alone = base.hidden(torch.tensor([text]))[0]
        for padded in (of_left[row, width - len(text) :], of_right[row, : len(text)]):
            owner = owners[row].expand(len(text))
            assert (base.logits(padded) - base.logits(alone)).abs().max() < 1e-5
            assert (base.values(padded, owner) - base.values(alone, owner)).abs().max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_another_policys_forward_before_the_backward_loses_no_gradient(kind: str) -> None:
    ids = torch.arange(2, 26).view(2, 12)
    found = []
    for between in (False, True):
        base = made(description(), kind, 0.05).bases["main"]
        ada, bo = torch.tensor([0, 0]), torch.tensor([1, 1])
        base.zero_grad()
        with base.route(ada):
            loss = base.logits(base.hidden(ids)).square().mean()
        if between:
            with base.route(bo):
                base.hidden(ids)
                loss.backward()
        else:
            loss.backward()
        assert all(not w.grad.any() for w in base.policies["Bo"].parameters())
        found.append({n: w.grad.clone() for n, w in base.policies["Ada"].adapter.items()})
    for name, gradient in found[0].items():
        assert gradient.abs().max() > 0, name
        assert torch.equal(gradient, found[1][name]), name


def test_a_base_keeps_its_own_dropout_off_while_adapters_train() -> None:
    torch.manual_seed(0)
    noisy = transformers.GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.5
    )
    model = transformers.AutoModelForCausalLM.from_config(noisy).train()
    run = description()
    base = Base(
        "main",
        BaseModelConfig(),
        LoadedModel(model, word_tokenizer(), 64),
        run.resolved_policies(),
        seed=0,
    )
    ids = torch.arange(2, 12)[None]
    with torch.no_grad(), base.route(torch.tensor([0]), training=True):
        assert torch.equal(base.hidden(ids), base.hidden(ids))
