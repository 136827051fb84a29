"""Adapters on disk: PEFT reads ours, we read PEFT's, and nothing unfitting slips in."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small import small_llama, word_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.errors import MaporlError, ModelError, StoreError
from maporl_core.models.adapter_files import load_adapter, save_adapter
from maporl_core.models.policy import Base, LoadedModel, Policy

TWO = {"a": PolicyConfig(rank=3, alpha=7.0), "b": PolicyConfig(rank=5, alpha=5.0)}


def small_gpt2() -> Any:
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=64, n_positions=128, n_embd=32, n_layer=2, n_head=4)
    return GPT2LMHeadModel(config).eval()


def base(
    model: Any = None,
    configs: dict[str, PolicyConfig] | None = None,
    heads: Collection[str] | None = None,
) -> Base:
    loaded = LoadedModel(model or small_llama(), word_tokenizer(), 512)
    made = Base("main", BaseModelConfig(model="some/base"), loaded, configs or TWO, 0, heads)
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for policy in made.policies.values():
            for weight in policy.parameters():
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)
    return made


def read_by(policy: Policy) -> torch.Tensor:
    with torch.no_grad(), policy.base.route(torch.full((2,), policy.index)):
        logits: torch.Tensor = policy.base.model(input_ids=ids()).logits
    return logits


def ids() -> torch.Tensor:
    return torch.randint(2, 64, (2, 9), generator=torch.Generator().manual_seed(1))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refusal(policy: Policy, folder: Path, kind: type[MaporlError] = ModelError) -> str:
    version = policy.version
    weights = [weight.detach().clone() for weight in policy.parameters()]
    with pytest.raises(kind) as caught:
        load_adapter(policy, folder)
    assert policy.version == version
    assert all(map(torch.equal, weights, policy.parameters()))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "targets"),
    [
        (small_llama, "all-linear"),
        (small_llama, ("q_proj", "v_proj")),
        (small_llama, ("layers.1.self_attn.q_proj",)),
        (small_gpt2, "all-linear"),
        (small_gpt2, ("c_attn",)),
        (small_gpt2, ("attn.c_proj",)),
    ],
)
def test_peft_reads_what_we_write(make: Any, targets: Any, tmp_path: Path) -> None:
    configs = {
        name: PolicyConfig(rank=rank, alpha=alpha, target_modules=targets)
        for name, rank, alpha in (("a", 3, 7.0), ("b", 5, 5.5))
    }
    made = base(make(), configs)
    for name, policy in made.policies.items():
        save_adapter(policy, tmp_path / name)
        peft = PeftModel.from_pretrained(make(), tmp_path / name).eval()
        with torch.no_grad():
            theirs = peft(input_ids=ids()).logits
            untouched = make()(input_ids=ids()).logits
        assert (read_by(policy) - theirs).abs().max() < 1e-5
        assert (theirs - untouched).abs().max() > 1e-3


@pytest.mark.parametrize("make", [small_llama, small_gpt2])
@pytest.mark.parametrize("rslora", [False, True])
def test_we_read_what_peft_writes(make: Any, rslora: bool, tmp_path: Path) -> None:
    config = LoraConfig(
        r=3,
        lora_alpha=11,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        use_rslora=rslora,
        fan_in_fan_out=make is small_gpt2,
    )
    peft = get_peft_model(make(), config).eval()
    torch.manual_seed(2)
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape) * 0.1)
        theirs = peft(input_ids=ids()).logits
    peft.save_pretrained(tmp_path)
    policy = base(make()).policies["a"]
    value = policy.value["weight"].detach().clone()
    version = policy.version
    load_adapter(policy, tmp_path)
    assert (read_by(policy) - theirs).abs().max() < 1e-5
    assert policy.version == version + 1
    assert torch.equal(policy.value["weight"], value)  # PEFT knows none


def test_saving_and_loading_gives_every_bit_back(tmp_path: Path) -> None:
    made = base()
    save_adapter(made.policies["b"], tmp_path)
    other = base()
    target = other.policies["b"]
    kept = [weight.detach().clone() for weight in other.policies["a"].parameters()]
    with torch.no_grad():
        for weight in target.parameters():
            weight.zero_()
    load_adapter(target, tmp_path)
    assert all(map(torch.equal, target.parameters(), made.policies["b"].parameters()))
    assert torch.equal(read_by(target), read_by(made.policies["b"]))
    assert all(map(torch.equal, kept, other.policies["a"].parameters()))


def test_a_policy_without_values_writes_no_head_and_reads_a_folder_that_has_one(
    tmp_path: Path,
) -> None:
    valued, without = base().policies["a"], base(heads=()).policies["a"]
    save_adapter(valued, tmp_path / "valued")
    load_adapter(without, tmp_path / "valued")
    for name, weight in valued.adapter.items():
        assert torch.equal(without.adapter[name], weight)
    save_adapter(without, tmp_path / "without")
    files = sorted(path.name for path in (tmp_path / "without").iterdir())
    assert files == ["adapter_config.json", "adapter_model.safetensors"]


def test_the_same_adapter_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    policy = base().policies["a"]
    for name in ("one", "two"):
        save_adapter(policy, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["adapter_config.json", "adapter_model.safetensors", "value_head.safetensors"]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_files_name_base_rank_and_layers_as_servers_expect(tmp_path: Path) -> None:
    save_adapter(base().policies["a"], tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA"
    assert config["base_model_name_or_path"] == "some/base"
    assert (config["r"], config["lora_alpha"]) == (3, 7)
    assert config["target_modules"] == [
        "down_proj",
        "gate_proj",
        "k_proj",
        "o_proj",
        "q_proj",
        "up_proj",
        "v_proj",
    ]
    with safe_open(tmp_path / "adapter_model.safetensors", "pt") as file:
        shape = file.get_slice(
            "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"
        ).get_shape()
    assert shape == [48, 3]


@pytest.mark.parametrize("name", ["./m", "m", "m/model.gguf", "{here}/m"])
def test_a_local_base_is_named_by_a_path_that_holds_in_every_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    made = base()
    made.config = BaseModelConfig(model=name.format(here=tmp_path))
    save_adapter(made.policies["a"], tmp_path / "adapter")
    monkeypatch.chdir("/")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    file = tmp_path / "m" / "model.gguf" if name.endswith("gguf") else tmp_path / "m"
    assert config["base_model_name_or_path"] == str(file)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o007, 0o660), (0o077, 0o600)])
def test_adapters_are_readable_by_whom_the_umask_says(
    umask: int, mode: int, tmp_path: Path
) -> None:
    before = os.umask(umask)
    try:
        save_adapter(base().policies["a"], tmp_path / "adapter")
    finally:
        os.umask(before)
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "adapter").iterdir()}
    assert found == dict.fromkeys(found, mode)
    assert len(found) == 3


def test_another_rank_names_the_setting_to_change(tmp_path: Path) -> None:
    made = base()
    save_adapter(made.policies["a"], tmp_path)
    assert "set policies.b.rank = 3" in refusal(made.policies["b"], tmp_path)


def test_keys_that_do_not_fit_are_named(tmp_path: Path) -> None:
    policy = base().policies["a"]
    save_adapter(policy, tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    key = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
    less = {name: weight for name, weight in tensors.items() if name != key}
    save_file(less, file)
    assert "lacks model.layers.0.mlp.up_proj.lora_A" in refusal(policy, tmp_path)
    save_file({**tensors, key.replace("layers.0", "layers.7"): tensors[key].clone()}, file)
    assert "unexpected model.layers.7.mlp.up_proj.lora_A" in refusal(policy, tmp_path)
    save_file({**tensors, key: tensors[key][:, :-1].clone()}, file)
    assert "has shape [3, 31], needed [3, 32]" in refusal(policy, tmp_path)


def test_a_value_head_that_does_not_fit_is_named(tmp_path: Path) -> None:
    policy = base().policies["a"]
    save_adapter(policy, tmp_path)
    file = tmp_path / "value_head.safetensors"
    save_file({"weight": torch.zeros(7)}, file)
    assert "lacks bias" in refusal(policy, tmp_path)
    save_file(
        {"weight": torch.zeros(7), "bias": torch.zeros(1)}, tmp_path / "value_head.safetensors"
    )
    assert "needed [32]" in refusal(policy, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"rank_pattern": {"q_proj": 2}},
        {"alpha_pattern": {"q_proj": 2}},
        {"modules_to_save": ["lm_head"]},
    ],
)
def test_adapters_that_are_more_than_plain_lora_are_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    policy = base().policies["a"]
    save_adapter(policy, tmp_path)
    edit(tmp_path / "adapter_config.json", **changes)
    assert f"{next(iter(changes))} = " in refusal(policy, tmp_path)


def test_broken_and_missing_files_are_named(tmp_path: Path) -> None:
    policy = base().policies["a"]
    assert "no adapter_config.json" in refusal(policy, tmp_path / "nowhere")
    for file, content, words in (
        ("adapter_config.json", b"{", "cannot be read"),
        ("adapter_config.json", b"[]", "not a LoRA adapter"),
        ("adapter_config.json", b'{"peft_type": "IA3"}', "not a LoRA adapter"),
        ("adapter_config.json", b'{"peft_type": "LORA", "r": 3}', "lora_alpha is None"),
        ("adapter_model.safetensors", b"\x00" * 20, "cannot be read"),
        ("value_head.safetensors", b"", "cannot be read"),
    ):
        folder = tmp_path / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        save_adapter(policy, folder)
        (folder / file).write_bytes(content)
        assert words in refusal(policy, folder)


def test_pickled_adapters_are_never_opened(tmp_path: Path) -> None:
    policy = base().policies["a"]
    save_adapter(policy, tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    assert "no adapter_model.safetensors" in refusal(policy, tmp_path)
    (tmp_path / "adapter_model.bin").write_bytes(b"anything")
    assert "pickled" in refusal(policy, tmp_path)


def test_a_disk_that_refuses_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError, match="cannot write the adapter"):
        save_adapter(base().policies["a"], tmp_path / "taken")


def test_files_hold_no_part_of_the_other_policies(tmp_path: Path) -> None:
    made = base()
    before = load_bytes(made, tmp_path / "before")
    with torch.no_grad():
        for weight in made.policies["b"].parameters():
            weight.fill_(9.0)
    assert load_bytes(made, tmp_path / "after") == before


def load_bytes(made: Base, folder: Path) -> dict[str, bytes]:
    save_adapter(made.policies["a"], folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}
