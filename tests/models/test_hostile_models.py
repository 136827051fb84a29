"""Models and adapters handed over by somebody else: no code runs, and no other weights are read."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small import small_llama, word_tokenizer

from maporl_core.config.load import config_warnings, load_config
from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.errors import ModelError
from maporl_core.models import source
from maporl_core.models.adapter_files import load_adapter, save_adapter
from maporl_core.models.loading import load
from maporl_core.models.policy import Base, LoadedModel, Policy

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole")
    small_llama(seed=4).save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.fixture
def ran(tmp_path: Path, model: Path) -> Path:
    """The trace that code in the model's folder would leave."""
    trace = tmp_path / "ran"
    (model / "evil.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(trace)!r}).touch()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast\n"
        "class Config(LlamaConfig): pass\n"
        "class Model(LlamaForCausalLM): pass\n"
        "class Words(PreTrainedTokenizerFast): pass\n"
    )
    return trace


def read(name: Path | str, **settings: Any) -> Any:
    return load(BaseModelConfig(model=str(name), **settings), CPU, 0)


def refusal(name: Path | str) -> str:
    with pytest.raises(ModelError) as caught:
        read(name)
    text = str(caught.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 500
    return text


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# Code ---------------------------------------------------------------------------------------------


def test_code_beside_a_known_kind_of_model_is_left_alone(model: Path, ran: Path) -> None:
    edit(
        model / "config.json",
        auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"},
    )
    edit(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Words", "evil.Words"]})
    loaded = read(model)
    assert type(loaded.model).__name__ == "LlamaForCausalLM"
    assert not ran.exists()


def test_a_tokenizer_with_code_of_its_own_needs_the_flag(model: Path, ran: Path) -> None:
    edit(
        model / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["evil.Words", "evil.Words"]},
        tokenizer_class="Words",
    )
    assert "set trust_remote_code = true" in refusal(model)
    assert not ran.exists()
    assert type(read(model, trust_remote_code=True).tokenizer).__name__ == "Words"
    assert ran.exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_config_cannot_name_an_attention_kernel_to_be_fetched(model: Path, key: str) -> None:
    edit(model / "config.json", **{key: "someone/kernel"})
    assert "attention kernel 'someone/kernel'" in refusal(model)


def test_a_config_that_asks_for_trust_is_pointed_out() -> None:
    config = load_config("pocket", ["bases.main.trust_remote_code=true"])
    assert config_warnings(config) == [
        "bases.main.trust_remote_code: code that comes with pocket will be run"
    ]


# Weights from elsewhere ---------------------------------------------------------------------------


def with_index(model: Path, shard: str) -> None:
    weights = load_file(model / "model.safetensors")
    torch.save(weights, model / "evil.bin")
    (model / "model.safetensors").rename(model.parent / "outside.safetensors")
    (model / "spare.safetensors").write_bytes(b"")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, shard)}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    "shard", ["evil.bin", "../outside.safetensors", "/etc/x.safetensors", "\x1b"]
)
def test_an_index_may_name_only_safetensors_files_beside_it(model: Path, shard: str) -> None:
    with_index(model, shard)
    assert "only .safetensors files beside it are read" in refusal(model)


@pytest.mark.parametrize(
    "content", ["[]", "{", "{}", '{"weight_map": []}', "[" * 100_000, "\ufffe"]
)
def test_an_index_of_another_shape_is_refused(model: Path, content: str) -> None:
    (model / "model.safetensors.index.json").write_text(content)
    assert "index.json cannot be read" in refusal(model)


@pytest.mark.parametrize("place", ["beside a model", "alone", "beside a gguf file"])
def test_an_adapter_is_no_base_and_puts_no_other_model_in_its_place(
    model: Path, place: str
) -> None:
    (model / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "someone/else"})
    )
    name = model
    if place == "alone":
        (model / "config.json").unlink()
    if place == "beside a gguf file":
        name = model / "model.gguf"
        name.write_bytes(b"GGUF")
    assert "adapter" in refusal(name)


def test_an_adapter_on_the_hub_is_no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["adapter_config.json", "adapter_model.safetensors"]
    info = SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in files])
    monkeypatch.setattr(source.HfApi, "model_info", lambda *_args, **_options: info)
    assert "holds an adapter" in refusal("some/adapter")


def test_an_index_of_a_hub_model_is_looked_at_before_its_weights(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_index(model, "evil.bin")
    names = [SimpleNamespace(rfilename="spare.safetensors")]
    info = SimpleNamespace(siblings=names)
    monkeypatch.setattr(source.HfApi, "model_info", lambda *_args, **_options: info)

    def cached_file(_name: str, file: str, **_options: Any) -> str | None:
        return str(model / file) if (model / file).exists() else None

    monkeypatch.setattr("transformers.utils.cached_file", cached_file)
    assert "takes weights from 'evil.bin'" in refusal("some/model")


@pytest.mark.parametrize("end", [".bin", ".pt", ".pth", ".pkl", ".ckpt"])
def test_pickled_weights_of_any_name_are_refused_unread(model: Path, end: str) -> None:
    (model / "model.safetensors").unlink()
    (model / f"pytorch_model{end}").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert "unpickling can run code" in refusal(model)


# Broken weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(model: Path, value: float) -> None:
    weights = load_file(model / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][3, 4] = value
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    assert "model.layers.1.mlp.up_proj.weight holds NaN or infinity" in refusal(model)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """One fault that always matters: header length, a key of the header, the end of the data."""
    (length,) = struct.unpack("<Q", content[:8])
    kind = rng.randrange(4)
    if kind == 0:
        other = rng.choice([0, 1, length - 1, length + 1, 10**9, 2**63, 2**64 - 1])
        return struct.pack("<Q", other) + content[8:]
    if kind == 1:
        return content[: rng.randrange(len(content))]
    header, data = content[8 : 8 + length], content[8 + length :]
    if kind == 2:
        header = header.replace(b'"F32"', rng.choice([b'"F99"', b'"BOO"', b'"C64"', b"7"]))
    else:
        header = header.replace(b"32]", rng.choice([b"-1]", b"33]", b"9999999999999999]", b"]"]))
    return struct.pack("<Q", len(header)) + header + data


def test_damaged_weights_are_one_line_whatever_the_damage(model: Path) -> None:
    rng, file = random.Random(2), model / "model.safetensors"
    content = file.read_bytes()
    for _ in range(30):
        file.write_bytes(damaged(rng, content))
        assert str(model) in refusal(model)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "content", [b"[]", b"[" * 100_000, "{}".encode("utf-16"), b"\0", b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_files_that_are_no_tables_are_one_line(model: Path, file: str, content: bytes) -> None:
    (model / file).write_bytes(content)
    assert str(model) in refusal(model)


@pytest.mark.parametrize(
    "name",
    [
        *("~nobody-here/x", "x" * 5000, "x" * 300 + ".gguf", "a\0b", "..", "/", "/dev/zero"),
        *("-x", "😀/x", "http://host.invalid/x", "evil@rev", "\x1b[31mred", "a\nb"),
    ],
)
def test_names_that_are_no_model_are_one_line(name: str) -> None:
    refusal(name)


# Adapters -----------------------------------------------------------------------------------------


@pytest.fixture
def policy() -> Policy:
    loaded = LoadedModel(small_llama(), word_tokenizer(), 512)
    config = {"a": PolicyConfig(rank=3, alpha=6.0)}
    return Base("main", BaseModelConfig(model="some/base"), loaded, config, seed=0).policies["a"]


@pytest.fixture
def adapter(policy: Policy, tmp_path: Path) -> Path:
    save_adapter(policy, tmp_path / "adapter")
    return tmp_path / "adapter"


def adapter_refusal(policy: Policy, folder: Path) -> str:
    before = [weight.detach().clone() for weight in policy.parameters()]
    with pytest.raises(ModelError) as caught:
        load_adapter(policy, folder)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize(
    "base", ["someone/with-code", "../../elsewhere", "/etc", "\x1b]0;x\x07", None, ["a"], "a\0b"]
)
def test_the_base_an_adapter_names_is_not_looked_at(
    policy: Policy, adapter: Path, base: Any
) -> None:
    edit(
        adapter / "adapter_config.json",
        base_model_name_or_path=base,
        auto_mapping={"base_model_class": "Evil", "parent_library": "os"},
    )
    load_adapter(policy, adapter)
    assert policy.version == 1


@pytest.mark.parametrize(
    "alpha", ["NaN", "Infinity", "-1", "0", "1e300", "9" * 400, '"8"', "null", "true", "[8]"]
)
def test_a_scaling_that_is_no_sane_number_is_refused(
    policy: Policy, adapter: Path, alpha: str
) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(path.read_text().replace('"lora_alpha": 6', f'"lora_alpha": {alpha}'))
    assert "lora_alpha is" in adapter_refusal(policy, adapter)


@pytest.mark.parametrize("content", ["", "[]", "7", "[" * 100_000, "\0", " " * (1 << 20) + "{}"])
def test_an_adapter_config_of_another_shape_is_one_line(
    policy: Policy, adapter: Path, content: str
) -> None:
    (adapter / "adapter_config.json").write_text(content)
    adapter_refusal(policy, adapter)


def test_links_to_devices_and_to_themselves_are_no_files(policy: Policy, adapter: Path) -> None:
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        kept = (adapter / file).read_bytes()
        for target in ("/dev/zero", str(adapter / file), str(adapter)):
            (adapter / file).unlink()
            (adapter / file).symlink_to(target)
            assert f"no {file}" in adapter_refusal(policy, adapter)
        (adapter / file).unlink()
        (adapter / file).write_bytes(kept)


def spoil(change: Callable[[dict[str, torch.Tensor]], None], file: Path) -> None:
    weights = load_file(file)
    change(weights)
    save_file(weights, file)


@pytest.mark.parametrize("file", ["adapter_model.safetensors", "value_head.safetensors"])
def test_adapter_weights_that_are_no_finite_floats_are_refused(
    policy: Policy, adapter: Path, file: str
) -> None:
    content = (adapter / file).read_bytes()
    name = sorted(load_file(adapter / file))[-1]
    for value in (float("nan"), float("-inf")):
        spoil(lambda weights, v=value: weights[name].view(-1)[0].fill_(v), adapter / file)  # type: ignore[misc]
        assert "holds NaN or infinity" in adapter_refusal(policy, adapter)
        (adapter / file).write_bytes(content)
    for kind in (torch.int32, torch.bool, torch.complex64):
        spoil(lambda weights, k=kind: weights.update({name: weights[name].to(k)}), adapter / file)  # type: ignore[misc]
        assert "not floats" in adapter_refusal(policy, adapter)
        (adapter / file).write_bytes(content)


def test_damaged_adapter_weights_are_one_line(policy: Policy, adapter: Path) -> None:
    rng, file = random.Random(3), adapter / "adapter_model.safetensors"
    content = file.read_bytes()
    for _ in range(30):
        file.write_bytes(damaged(rng, content))
        adapter_refusal(policy, adapter)
