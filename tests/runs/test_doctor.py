"""The doctor: what it finds, and a memory forecast checked against what is really allocated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from maporl_core.cli.main import main
from maporl_core.config.load import load_config
from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.models.shapes import KNOWN, ModelShape, ShapeUnknown, read_shape
from maporl_core.rollout.prompts import STYLES
from maporl_core.runs.doctor import Report, base_shapes, chosen_device, examine, needs, room
from maporl_core.runs.doctor.facts import Device, Disk, Hub, hub
from maporl_core.runs.doctor.memory import (
    Seat,
    adapter_weights,
    cache_bytes,
    conversation_tokens,
    forecast,
    update_bytes,
    weight_bytes,
)

GIB = 1 << 30
CPU = Device("cpu", "cpu", 32 * GIB, 24 * GIB)
GPU = Device("cuda", "gpu", 24 * GIB, 23 * GIB)
DISK = Disk("/", 100 * GIB, 50 * GIB)
HUB = Hub("https://hub", "reachable")
OFF = Hub("https://hub", "unreachable")
EVERYTHING: dict[str, str | None] = {"bitsandbytes": "1", "reasoning-gym": "1", "torch": "1"}
NOTHING: dict[str, str | None] = {
    **dict.fromkeys(("bitsandbytes", "reasoning-gym", "verifiers")),
    "torch": "1",
}
SMALL = ModelShape(
    layers=2, hidden=64, query=64, key_value=32, mlp=176, vocabulary=128, context=512, tied=True
)


# Shapes -----------------------------------------------------------------------------------------


def small_llama(shape: ModelShape, dtype: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
    )
    return LlamaForCausalLM(config).to(dtype)


@pytest.mark.parametrize("tied", [True, False])
def test_a_models_weights_are_counted_from_its_config(tied: bool, tmp_path: Path) -> None:
    import dataclasses

    import torch

    shape = dataclasses.replace(SMALL, tied=tied)
    model = small_llama(shape, torch.float32)
    model.save_pretrained(tmp_path / "model")
    read = read_shape(BaseModelConfig(model=str(tmp_path / "model")))
    assert read == shape
    assert read.parameters == sum(weight.numel() for weight in model.parameters())


def test_published_sizes_of_known_models() -> None:
    """From the models' own pages: 134,515,008; 494,032,768; 3,821,079,552 weights."""
    sizes = {name.split("/")[1]: shape.parameters for name, shape in KNOWN.items()}
    # Qwen2.5 has biases on its query, key and value layers, which adapters do not see.
    biases = 24 * (896 + 2 * 128)
    assert sizes == {
        "SmolLM2-135M-Instruct": 134_515_008,
        "Qwen2.5-0.5B-Instruct": 494_032_768 - biases,
        "Phi-3-mini-128k-instruct": 3_821_079_552,
    }


def test_a_gguf_file_is_read_from_its_header(tmp_path: Path) -> None:
    import gguf
    import numpy as np

    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(176)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(512)
    writer.add_tensor("token_embd.weight", np.zeros((128, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read_shape(BaseModelConfig(model=str(path))) == SMALL


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "no readable config.json"),
        ("not json", "no readable config.json"),
        ('{"model_type": "bert"}', "not that of a Llama-like decoder"),
        ('{"num_local_experts": 8}', "mixture of experts"),
        ('{"text_config": null}', "not that of a Llama-like decoder"),
        ("[1]", "not that of a Llama-like decoder"),
    ],
)
def test_what_cannot_be_told_says_why(config: str | None, words: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(ShapeUnknown, match=words):
        read_shape(BaseModelConfig(model=str(tmp_path)))


@pytest.mark.parametrize("name", ["missing.gguf", "nobody/nothing", "a/b/c/d"])
def test_a_model_that_is_not_here_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ShapeUnknown):
        read_shape(BaseModelConfig(model=name))


def test_a_broken_gguf_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    for content in (b"", b"GGUF", b"GGUF" + bytes(200), b"nonsense" * 40):
        path.write_bytes(content)
        with pytest.raises(ShapeUnknown, match="not a GGUF file"):
            read_shape(BaseModelConfig(model=str(path)))


# Memory -----------------------------------------------------------------------------------------


def test_adapters_are_counted_as_they_are_made() -> None:
    import torch

    from maporl_core.models.lora import AdapterShape, AdapterStack, target_names

    model = small_llama(SMALL, torch.float32).requires_grad_(False)
    stack = AdapterStack(model, [AdapterShape(8, 16.0)], target_names(model, "all-linear"))
    made = sum(weight.numel() for weight in stack.views(0).values())
    assert adapter_weights(PolicyConfig(rank=8), SMALL) == made + SMALL.hidden + 1
    two = PolicyConfig(rank=8, target_modules=("q_proj", "down_proj"))
    assert adapter_weights(two, SMALL) == 2 * 8 * ((64 + 64) + (176 + 64)) + 65


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize(
    "shape",
    [
        ModelShape(2, 128, 128, 64, 344, 256, 512, True),
        ModelShape(3, 256, 256, 128, 704, 256, 512, True),
        ModelShape(2, 128, 128, 64, 1024, 256, 512, True),
    ],
    ids=["small", "wide", "wide mlp"],
)
def test_forecast_activations_are_what_autograd_keeps(shape: ModelShape, bits: int) -> None:
    """Counts the bytes of every tensor saved for the backward of a real Llama with adapters."""
    import torch

    from maporl_core.models.lora import AdapterShape, AdapterStack, target_names

    dtype = torch.float32 if bits == 32 else torch.bfloat16
    model = small_llama(shape, dtype).requires_grad_(False)
    adapters = [AdapterShape(8, 16.0)] * 2
    stack = AdapterStack(model, adapters, target_names(model, "all-linear"))
    weights = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    saved: dict[int, int] = {}
    alive = []

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    ids = torch.zeros(4, 64, dtype=torch.long)
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with stack.router.route(torch.tensor([0, 1, 0, 1]), True), hooks:
        model.get_decoder()(input_ids=ids, use_cache=False)

    logits = 4 * 4 * shape.vocabulary * ids.numel()
    predicted = update_bytes(shape, ids.numel(), rank=16, number=bits // 8) - logits
    assert predicted == pytest.approx(sum(saved.values()), rel=0.15)


def test_recomputed_layers_keep_their_input_and_one_layer_is_whole() -> None:
    # A layer's token: 4 bytes x (4·64 + 2·64 + 2·32 + 4·176) = 4608; logits 4·4·128 a token.
    assert update_bytes(SMALL, 10, rank=0, number=4) == 10 * (2 * 4608 + 2048)
    assert update_bytes(SMALL, 10, 0, 4, recompute=True) == 10 * (2 * 4 * 64 + 4608 + 2048)


def test_weights_of_a_four_bit_base() -> None:
    phi = KNOWN["microsoft/Phi-3-mini-128k-instruct"]
    assert weight_bytes(phi, 2, four_bit=False) == 2 * phi.parameters
    # 3,623,878,656 linear weights at 0.516 bytes, 197,200,896 others at 2 bytes.
    assert weight_bytes(phi, 2, four_bit=True) == 1_869_921_386 + 394_401_792


def test_a_conversation_holds_its_own_messages_and_what_it_reads_of_the_others() -> None:
    changes = ["discussion.max_new_tokens=10", "discussion.turns=3", "discussion.style=compact"]
    # opening 24, own 3 x 10, and before turns 2 and 3 two others' 10 + 4 and 4 around.
    assert conversation_tokens(load_config("pocket", changes)) == 24 + 30 + 2 * (2 * 14 + 4)
    limited = load_config("pocket", [*changes, "discussion.max_context=64"])
    assert conversation_tokens(limited) == 64


def test_caches_grow_with_rows_and_are_bounded_by_the_device() -> None:
    config = load_config("pocket", ["engine.max_batch=30", "train.problems_per_step=64"])
    per_token = 2 * SMALL.layers * SMALL.key_value * 4
    assert cache_bytes(config, SMALL, 3, 100, 4, 1 << 60) == 2 * 30 * 100 * per_token
    assert cache_bytes(config, SMALL, 1, 100, 4, 1 << 60) == 2 * 10 * 100 * per_token
    assert cache_bytes(config, SMALL, 3, 100, 4, 6000) == 2 * 1000


def test_more_agents_cost_adapters_not_bases() -> None:
    few = load_config("pocket")
    many = load_config("pocket", ["agents=[{name=A},{name=B},{name=C},{name=D},{name=E},{name=F}]"])
    small, large = (forecast(c, {"main": SMALL}, "cpu", 32 * GIB) for c in (few, many))
    assert large.weights == small.weights
    assert large.adapters == 2 * small.adapters
    assert large.peak > small.peak


def test_a_learned_verifier_costs_its_weights_and_gradients_but_no_moments() -> None:
    with_one = load_config("pocket-verifier")
    without = load_config("pocket-verifier", ["verifier.kind=rule"])
    more, fewer = (forecast(c, {"main": SMALL}, "cpu", 32 * GIB) for c in (with_one, without))
    assert more.adapters - fewer.adapters == 4 * 2 * adapter_weights(PolicyConfig(rank=16), SMALL)
    assert more.weights == fewer.weights
    assert more.checkpoint == fewer.checkpoint


def test_a_verifiers_own_model_is_counted_whole() -> None:
    config = load_config("pocket-verifier")
    policy = PolicyConfig(rank=4)
    shapes = {"main": SMALL, "(verifier)": KNOWN["HuggingFaceTB/SmolLM2-135M-Instruct"]}
    seat = Seat("(verifier)", BaseModelConfig(model="other"), policy, 550, "")
    apart = forecast(config, shapes, "cpu", 32 * GIB, seat)
    without = load_config("pocket-verifier", ["verifier.kind=rule"])
    alone = forecast(without, {"main": SMALL}, "cpu", 32 * GIB)
    assert apart.weights - alone.weights == 4 * 134_515_008  # the model's published size in fp32
    own = adapter_weights(policy, shapes["(verifier)"])
    assert apart.adapters - alone.adapters == 4 * 2 * own
    assert apart.update == alone.update
    refits = load_config("pocket-verifier", ["verifier.refit_every=5"])
    refitted = forecast(refits, shapes, "cpu", 32 * GIB, seat)
    assert refitted.adapters - alone.adapters == 4 * 4 * own
    assert refitted.checkpoint - alone.checkpoint == 4 * own
    assert refitted.update > 10 * alone.update


@pytest.mark.parametrize("style", sorted(STYLES))
def test_a_conversation_of_every_prompt_style_is_counted(style: str) -> None:
    assert conversation_tokens(load_config("gsm8k", [f"discussion.style={style}"])) > 900


@pytest.mark.parametrize("name", ["gsm8k", "anli", "qwen-0.5b"])
def test_presets_for_one_gpu_fit_24_gib(name: str) -> None:
    config = load_config(name)
    shapes = {"main": KNOWN[config.bases["main"].model]}
    assert forecast(config, shapes, "cuda", 24 * GIB).peak < 0.85 * 24 * GIB


# Findings ---------------------------------------------------------------------------------------


def texts(findings: list[Any], level: str) -> str:
    return "\n".join(finding.text for finding in findings if finding.level == level)


def test_the_device_is_the_one_the_run_would_take() -> None:
    auto, cuda, cpu = (load_config("pocket", [f"device={d}"]) for d in ("auto", "cuda", "cpu"))
    assert chosen_device(auto, (CPU, GPU)) == GPU
    assert chosen_device(auto, (CPU,)) == CPU
    assert chosen_device(cpu, (CPU, GPU)) == CPU
    assert chosen_device(cuda, (CPU,)) is None


def test_four_bit_bases_need_cuda_and_bitsandbytes() -> None:
    config = load_config("gsm8k")
    assert texts(needs(config, GPU, EVERYTHING, HUB), "error") == ""
    assert "need a CUDA device" in texts(needs(config, CPU, EVERYTHING, HUB), "error")
    assert "maporl[quant]" in texts(needs(config, GPU, NOTHING, HUB), "error")


def test_moments_in_eight_bits_need_bitsandbytes_and_take_a_quarter() -> None:
    plain, eight = (
        load_config("pocket", [f"update.optimiser={kind}"]) for kind in ("adamw", "adamw8bit")
    )
    assert "maporl[quant]" in texts(needs(eight, CPU, NOTHING, HUB), "error")
    assert needs(eight, CPU, EVERYTHING, HUB) == []
    one, other = (forecast(c, {"main": SMALL}, "cpu", 32 * GIB) for c in (plain, eight))
    weights = 3 * adapter_weights(PolicyConfig(rank=8), SMALL)
    assert one.adapters - other.adapters == 6 * weights  # 2 moments of 1 byte, not 4
    assert one.checkpoint - other.checkpoint == 6 * weights


def test_tasks_of_others_need_their_package() -> None:
    config = load_config("pocket", ["task.name=gym:chain_sum"])
    assert "maporl[tasks]" in texts(needs(config, CPU, NOTHING, HUB), "error")
    config = load_config("pocket", ["task.name=verifiers:any"])
    assert "maporl[verifiers]" in texts(needs(config, CPU, NOTHING, HUB), "error")


def test_without_the_hub_models_and_data_must_be_here() -> None:
    warned = texts(needs(load_config("gsm8k"), GPU, EVERYTHING, OFF), "warning")
    assert "microsoft/Phi-3-mini-128k-instruct" in warned
    assert "task.path" in warned
    assert needs(load_config("pocket"), CPU, NOTHING, OFF) == []


def test_a_forecast_is_held_against_memory_and_disk() -> None:
    config = load_config("pocket")
    made = forecast(config, {"main": SMALL}, "cpu", 32 * GIB)
    assert room(made, CPU, DISK, config) == []
    poor = Device("cpu", "cpu", GIB, made.peak - 1)
    assert "exceeds the free memory" in texts(room(made, poor, DISK, config), "error")
    tight = Device("cpu", "cpu", GIB, made.peak * 10 // 9)
    assert "90% of the free memory" in texts(room(made, tight, DISK, config), "warning")
    full = Disk("/", GIB, 1000)
    assert "disk" in texts(room(made, CPU, full, config), "error")


def test_more_agents_than_memory_is_found_before_a_run_is_started() -> None:
    agents = ",".join(f"{{name=A{i}}}" for i in range(2000))
    config = load_config("gsm8k", [f"agents=[{agents}]", "bases.main.quantize=none"])
    shapes, unknown = base_shapes(config)
    assert unknown == []
    made = forecast(config, shapes, "cuda", 24 * GIB)
    assert "exceeds the free memory" in texts(room(made, GPU, DISK, config), "error")


def test_a_hub_that_is_switched_off_is_not_asked() -> None:
    assert hub({"HF_HUB_OFFLINE": "1"}).state == "offline by setting"


def test_a_hub_that_does_not_answer_is_unreachable() -> None:
    found = hub({"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert found.state == "unreachable"
    assert found.detail
    assert hub({"HF_ENDPOINT": "nonsense"}).state == "unreachable"


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def quiet_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is looked for, so that nothing heavy is imported."""
    monkeypatch.setattr("maporl_core.runs.doctor.facts.gpus", lambda: ())


def test_the_machine_alone_is_examined_without_a_config(quiet_torch: None, tmp_path: Path) -> None:
    report = examine(None, tmp_path, HUB)
    assert isinstance(report, Report)
    assert report.forecast is None
    assert report.devices[0].kind == "cpu"
    assert report.disk.free > 0


@pytest.mark.usefixtures("quiet_torch")
def test_doctor_prints_facts_and_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "pocket", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "memory forecast on cpu" in shown
    assert "peak" in shown
    assert "MiB" in shown
    assert "ready" in shown


@pytest.mark.usefixtures("quiet_torch")
def test_doctor_speaks_json_and_ends_with_4_when_it_will_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "pocket", "--set", "device=cuda", "--json", "--root", str(tmp_path)]
    assert main(words) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["findings"][0]["level"] == "error"


def test_importing_the_doctor_loads_no_torch() -> None:
    import subprocess

    code = "import sys, maporl_core.runs.doctor; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    assert done.stdout.strip() == "False", done.stderr
