"""Policies on a shared base: who owns which weights, and what stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from small import config, policies, small_llama, word_tokenizer

from maporl_core.config.schema import BaseModelConfig, PolicyConfig, RunConfig
from maporl_core.errors import ModelError
from maporl_core.models.policy import Base, Guest, LoadedModel, Policies


def base(model: Any = None, **configs: PolicyConfig) -> Base:
    loaded = LoadedModel(model or small_llama(), word_tokenizer(), 512)
    return Base("main", BaseModelConfig(), loaded, configs or {"a": PolicyConfig()}, seed=0)


def ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(2, 64, (rows, length), generator=torch.Generator().manual_seed(rows))


def bytes_of(weights: list[Any]) -> list[bytes]:
    return [weight.detach().numpy().tobytes() for weight in weights]


def test_a_step_of_one_policy_leaves_the_others_weights_and_moments_as_they_were() -> None:
    made = policies(config(2), perturb=0.05)
    main = made.bases["main"]
    optimisers = {
        name: torch.optim.AdamW(made[name].parameters(), lr=0.1, weight_decay=0.1)
        for name in made.names()
    }

    def backward(row: int) -> None:
        main.zero_grad()
        rows = torch.tensor([row, row])
        with main.route(rows):
            hidden = main.hidden(ids(2, 5))
        (main.logits(hidden).square().mean() + main.values(hidden[:, -1], rows).sum()).backward()

    backward(main.row("Bo"))
    optimisers["Bo"].step()
    weights = bytes_of(made["Bo"].parameters())
    moments = copy.deepcopy(optimisers["Bo"].state_dict())
    before = bytes_of(made["Ada"].parameters())
    for _ in range(3):
        backward(main.row("Ada"))
        optimisers["Ada"].step()
    assert all(a != b for a, b in zip(before, bytes_of(made["Ada"].parameters()), strict=True))
    assert bytes_of(made["Bo"].parameters()) == weights
    now = optimisers["Bo"].state_dict()
    assert now["state"].keys() == moments["state"].keys()
    for key, kept in moments["state"].items():
        assert all(torch.equal(kept[name], now["state"][key][name]) for name in kept)


def test_frozen_hash_sees_any_base_weight_and_no_adapter() -> None:
    main = base(a=PolicyConfig(), b=PolicyConfig(rank=2))
    start = main.frozen_hash()
    with torch.no_grad():
        for policy in main.policies.values():
            for weight in policy.parameters():
                weight.add_(1.0)
    assert main.frozen_hash() == start
    assert base(a=PolicyConfig()).frozen_hash() == start
    with torch.no_grad():
        main.model.model.norm.weight[3] += 1e-6
    assert main.frozen_hash() != start


def test_left_and_right_padding_read_the_same() -> None:
    main = base(a=PolicyConfig(), b=PolicyConfig(rank=2))
    with torch.no_grad():
        for policy in main.policies.values():
            for weight in policy.parameters():
                weight.add_(0.02)
    short, long = ids(1, 4), ids(3, 7)[:1]
    right = torch.zeros(2, 7, dtype=torch.long)
    left = torch.zeros(2, 7, dtype=torch.long)
    right[0, :4], left[0, 3:] = short, short
    right[1], left[1] = long, long
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[0, :3] = 0
    with torch.no_grad(), main.route(torch.tensor([0, 1])):
        of_right = main.hidden(right)
        of_left = main.hidden(left, mask)
        right_masked = main.hidden(right, mask.flip(1))
    assert (of_right[0, :4] - of_left[0, 3:]).abs().max() < 1e-5
    assert (of_right[1] - of_left[1]).abs().max() < 1e-5
    assert (of_right[0, :4] - right_masked[0, :4]).abs().max() < 1e-5


def test_hidden_states_and_logits_are_the_models_own_forward() -> None:
    main = base()
    text = ids(2, 6)
    with torch.no_grad():
        expected = main.model(input_ids=text).logits
        assert (main.logits(main.hidden(text)) - expected).abs().max() < 1e-5


def test_a_model_that_does_more_before_its_logits_is_refused() -> None:
    model = small_llama()
    model.forward = _doubled(model.forward)
    with pytest.raises(ModelError, match="does more between its hidden states and its logits"):
        base(model)


def _doubled(forward: Any) -> Any:
    def changed(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        output.logits = output.logits * 2
        return output

    return changed


def test_value_heads_are_one_linear_layer_per_policy() -> None:
    main = base(a=PolicyConfig(), b=PolicyConfig())
    with torch.no_grad():
        main.policies["b"].value["weight"].fill_(0.5)
        main.policies["b"].value["bias"].fill_(-1.0)
    hidden = torch.ones(3, 32)
    values = main.values(hidden, torch.tensor([0, 1, 0]))
    assert values.tolist() == [0.0, 15.0, 0.0]
    values.sum().backward()
    assert main.policies["a"].value["bias"].grad.tolist() == [2.0]
    assert main.policies["b"].value["weight"].grad.tolist() == [1.0] * 32


def test_policies_without_a_value_head_train_their_adapter_alone() -> None:
    made = policies(RunConfig(), values=False)
    main = made.bases["main"]
    assert main.value_weight.numel() == 0
    assert made["Ada"].value == {}
    assert len(made["Ada"].parameters()) == len(made["Ada"].adapter)


def test_a_guest_keeps_its_head_beside_agents_without_values() -> None:
    run, loaded = RunConfig(), {"main": LoadedModel(small_llama(), word_tokenizer(), 512)}
    guest = Guest("judge", PolicyConfig(), "main", run.bases["main"])
    main = Policies(run, loaded, guest, values=False).bases["main"]
    judge = main.policies["judge"]
    assert judge.index == 3
    assert list(main.value_weight.shape) == [1, 32]
    with torch.no_grad():
        judge.value["weight"].fill_(0.5)
        judge.value["bias"].fill_(-1.0)
    assert main.values(torch.ones(2, 32), torch.tensor([3, 3])).tolist() == [15.0, 15.0]


def test_agents_that_name_one_policy_share_its_weights() -> None:
    run = RunConfig.model_validate(
        {
            "policies": {"pair": {"rank": 4}},
            "agents": [
                {"name": "Ada", "policy": "pair"},
                {"name": "Bo", "policy": "pair"},
                {"name": "Cy"},
            ],
        }
    )
    made = policies(run)
    assert list(made.names()) == ["pair", "Cy"]
    assert made["pair"].config.rank == 4
    assert made.bases["main"].row("Cy") == 1
    assert made.bases["main"].row(None) == -1


def test_policies_of_one_base_must_agree_on_target_modules() -> None:
    with pytest.raises(ModelError, match="different target_modules"):
        base(a=PolicyConfig(), b=PolicyConfig(target_modules=("q_proj",)))


def test_more_policies_cost_adapters_and_nothing_else() -> None:
    def count(made: Policies) -> int:
        return sum(weight.numel() for weight in made.bases["main"].model.parameters())

    one, four = policies(config(1)), policies(config(4))
    adapter = sum(weight.numel() for weight in one["Ada"].adapter.values())
    assert count(four) - count(one) == 3 * adapter
