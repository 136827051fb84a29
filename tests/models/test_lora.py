"""Stacked adapters against PEFT, and what routing may and may not change."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from small import small_llama
from transformers import GPT2Config, GPT2LMHeadModel

from maporl_core.errors import ModelError
from maporl_core.models.lora import BASE_ROW, AdapterShape, AdapterStack, target_names

SHAPES = (AdapterShape(8, 16.0), AdapterShape(3, 4.0), AdapterShape(5, 5.0))
ROWS = [1, BASE_ROW, 0, 2, 0, 1]


def small_gpt2() -> Any:
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=64, n_positions=128, n_embd=32, n_layer=2, n_head=4)
    return GPT2LMHeadModel(config).eval()


def stacked(model: Any, shapes: tuple[AdapterShape, ...] = SHAPES, seed: int = 5) -> AdapterStack:
    """A stack with every adapter moved off its start."""
    model.requires_grad_(False)
    stack = AdapterStack(model, shapes, target_names(model, "all-linear"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in stack.layers.values():
            for weight in (layer.lora_a, layer.lora_b):
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return stack


def in_peft(model: Any, stack: AdapterStack) -> Any:
    """The same adapters in PEFT, on an untouched copy of the base."""
    peft = None
    for index, shape in enumerate(stack.router.shapes):
        config = LoraConfig(
            r=shape.rank,
            lora_alpha=shape.alpha,
            target_modules=list(stack.layers),
            fan_in_fan_out=isinstance(model, GPT2LMHeadModel),
        )
        if peft is None:
            peft = get_peft_model(model, config, adapter_name=f"p{index}")
        else:
            peft.add_adapter(f"p{index}", config)
        for name, view in stack.views(index).items():
            layer, leaf = name.rsplit(".", 1)
            module = peft.base_model.model.get_submodule(layer)
            weight = getattr(module, leaf)[f"p{index}"].weight
            with torch.no_grad():
                weight.copy_(view.t() if leaf == "lora_B" else view)
    peft.eval()
    for name, weight in peft.named_parameters():
        weight.requires_grad_("lora_" in name)
    return peft


def batch(rows: int = len(ROWS), length: int = 9) -> torch.Tensor:
    return torch.randint(2, 64, (rows, length), generator=torch.Generator().manual_seed(1))


def loss_of(logits: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(-1, 1, logits[0].numel()).view_as(logits[0])
    return (logits.log_softmax(-1) * weights).sum() / 10


@pytest.mark.parametrize("make", [small_llama, small_gpt2])
def test_mixed_rows_agree_with_peft_in_logits_and_gradients(make: Any) -> None:
    model = make()
    untouched = copy.deepcopy(model)
    stack = stacked(model)
    peft = in_peft(untouched, stack)
    ids = batch()
    names = ["__base__" if row == BASE_ROW else f"p{row}" for row in ROWS]
    theirs = peft(input_ids=ids, adapter_names=names).logits
    loss_of(theirs).backward()
    with stack.router.route(torch.tensor(ROWS)):
        ours = model(input_ids=ids).logits
    loss_of(ours).backward()
    assert (ours - theirs).abs().max() < 1e-5
    for index in range(len(SHAPES)):
        for name, view in stack.views(index).items():
            layer, leaf = name.rsplit(".", 1)
            module = peft.base_model.model.get_submodule(layer)
            expected = getattr(module, leaf)[f"p{index}"].weight.grad
            expected = expected.t() if leaf == "lora_B" else expected
            assert expected.abs().max() > 0
            scale = max(1.0, float(expected.abs().max()))
            assert (view.grad - expected).abs().max() < 1e-5 * scale, name


def test_base_rows_in_a_mixed_batch_read_exactly_as_without_adapters() -> None:
    model = small_llama()
    stack = stacked(model)
    ids = batch()
    plain = model(input_ids=ids).logits
    with stack.router.route(torch.tensor(ROWS)):
        mixed = model(input_ids=ids).logits
    with stack.router.route(torch.full((len(ROWS),), BASE_ROW)):
        routed_to_base = model(input_ids=ids).logits
    assert torch.equal(routed_to_base, plain)
    for position, row in enumerate(ROWS):
        same = torch.allclose(mixed[position], plain[position], atol=1e-6)
        assert same == (row == BASE_ROW)


def test_routing_elsewhere_before_the_backward_loses_no_gradient() -> None:
    gradients = []
    for switch in (False, True):
        model = small_llama()
        stack = stacked(model)
        with stack.router.route(torch.zeros(2, dtype=torch.long)):
            loss = loss_of(model(input_ids=batch(2)).logits)
        if switch:
            with stack.router.route(torch.ones(2, dtype=torch.long)):
                model(input_ids=batch(2))
                loss.backward()
        else:
            loss.backward()
        gradients.append([view.grad.clone() for view in stack.views(0).values()])
        assert all(not view.grad.any() for view in stack.views(1).values())
    assert all(grad.any() for grad in gradients[0])
    for straight, switched in zip(*gradients, strict=True):
        assert torch.equal(straight, switched)


def test_a_fresh_adapter_changes_nothing() -> None:
    model = small_llama()
    stack = stacked(model)
    stack.initialise(1, seed=11)
    ids = batch(2)
    plain = model(input_ids=ids).logits
    with stack.router.route(torch.ones(2, dtype=torch.long)):
        assert torch.equal(model(input_ids=ids).logits, plain)


def test_a_start_depends_on_its_seed_only() -> None:
    first, second = stacked(small_llama()), stacked(small_llama(), seed=6)
    for stack, seed in ((first, 4), (second, 4)):
        stack.initialise(0, seed)
    ours, same = first.views(0), second.views(0)
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    second.initialise(0, 5)
    assert not any(torch.equal(ours[name], same[name]) for name in ours if "lora_A" in name)
    # Kaiming-uniform with a = √5 is U(−1/√fan_in, 1/√fan_in), whose deviation is 1/√(3·fan_in).
    weight = ours["model.layers.0.mlp.gate_proj.lora_A"]
    assert weight.std().item() == pytest.approx((3 * weight.shape[1]) ** -0.5, rel=0.1)


def test_views_share_weights_and_gradients_with_the_stack() -> None:
    model = small_llama()
    stack = stacked(model)
    name, layer = next(iter(stack.layers.items()))
    view = stack.views(1)[f"{name}.lora_A"]
    start, end = stack.router.blocks[1]
    with torch.no_grad():
        view.fill_(0.25)
    assert bool((layer.lora_a[start:end] == 0.25).all())
    assert not bool((layer.lora_a[:start] == 0.25).any())
    with stack.router.route(torch.ones(2, dtype=torch.long)):
        loss_of(model(input_ids=batch(2)).logits).backward()
    assert torch.equal(view.grad, layer.lora_a.grad[start:end])
    assert view.grad.any()
    stack.zero_grad()
    assert not view.grad.any()


def test_dropout_is_each_policys_own_and_only_while_training() -> None:
    shapes = (AdapterShape(4, 8.0, dropout=0.5), AdapterShape(4, 8.0, dropout=0.0))
    model = small_llama()
    stack = stacked(model, shapes)
    rows = torch.tensor([0, 1, BASE_ROW])
    ids = batch(3)

    def read(training: bool) -> torch.Tensor:
        with torch.no_grad(), stack.router.route(rows, training=training):
            return model(input_ids=ids).logits

    calm = read(training=False)
    assert torch.equal(calm, read(training=False))
    dropped = read(training=True)
    assert not torch.allclose(dropped[0], calm[0], atol=1e-4)
    assert torch.allclose(dropped[1:], calm[1:], atol=1e-6)
    assert torch.equal(calm, read(training=False))


def test_dropout_keeps_the_mean_of_what_an_adapter_adds() -> None:
    layer_name = "model.layers.0.mlp.up_proj"
    model = small_llama()
    stack = stacked(model, (AdapterShape(4, 8.0, dropout=0.3),))
    layer = stack.layers[layer_name]
    x = torch.randn(1, 1, 32, generator=torch.Generator().manual_seed(2)).expand(4000, 1, 32)
    torch.manual_seed(0)
    with torch.no_grad(), stack.router.route(torch.zeros(4000, dtype=torch.long), training=True):
        mean = layer(x).mean(0)
        spread = layer(x).std(0)
    with torch.no_grad(), stack.router.route(torch.zeros(1, dtype=torch.long)):
        expected = layer(x[:1])[0]
    assert ((mean - expected).abs() < 5 * spread / 4000**0.5).all()
    assert spread.min() > 0


def test_leaving_a_route_restores_the_one_around_it() -> None:
    model = small_llama()
    stack = stacked(model)
    ids = batch(2)
    with stack.router.route(torch.tensor([0, 1])):
        before = model(input_ids=ids).logits
        with pytest.raises(RuntimeError, match="inside"), stack.router.route(None):
            raise RuntimeError("inside")
        assert torch.equal(model(input_ids=ids).logits, before)
    assert stack.router.gate is None


def test_adapters_follow_a_half_precision_base() -> None:
    model = small_llama()
    stack = stacked(model)
    with torch.no_grad(), stack.router.route(torch.tensor([0, 1])):
        full = model(input_ids=batch(2)).logits
        for parameter in model.parameters():
            if parameter.shape != () and not any(
                parameter is w
                for layer in stack.layers.values()
                for w in (layer.lora_a, layer.lora_b)
            ):
                parameter.data = parameter.data.bfloat16()
        half = model(input_ids=batch(2)).logits
    assert half.dtype == torch.bfloat16
    assert (half.float() - full).norm() < 0.05 * full.norm()


def test_a_target_that_matches_nothing_lists_those_that_exist() -> None:
    with pytest.raises(ModelError, match=r"no linear layer is named 'query'; choose from .*q_proj"):
        target_names(small_llama(), ("query",))


def test_targets_are_matched_by_their_last_parts_and_the_output_head_is_left_out() -> None:
    model = small_llama()
    assert target_names(model, ("q_proj", "layers.1.self_attn.q_proj")) == [
        "model.layers.0.self_attn.q_proj",
        "model.layers.1.self_attn.q_proj",
    ]
    assert not any("lm_head" in name for name in target_names(model, "all-linear"))
    with pytest.raises(ModelError, match="'lm_head'"):
        target_names(model, ("lm_head",))


def test_a_batch_of_another_size_than_the_route_is_an_error() -> None:
    model = small_llama()
    stack = stacked(model)
    with stack.router.route(torch.tensor([0, 1])), pytest.raises(ModelError, match="3 rows for 2"):
        model(input_ids=batch(3))
