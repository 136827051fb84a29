"""Finding, reading and refusing base models, without a hub."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from small import EOS, small_llama, word_tokenizer

from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.models import loading, source
from maporl_core.models.loading import load, resolve_device

CPU = torch.device("cpu")


def read(name: Path | str, **settings: Any) -> Any:
    return load(BaseModelConfig(model=str(name), **settings), CPU, 0)


def refusal(name: Path | str, **settings: Any) -> str:
    with pytest.raises(ModelError) as caught:
        read(name, **settings)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    small_llama(seed=4).save_pretrained(path)
    word_tokenizer(chat_template="{{ messages[0]['content'] }}").save_pretrained(path)
    return path


def copy_of(folder: Path, tmp_path: Path) -> Path:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_local_folder_gives_a_frozen_model_in_eval_mode(folder: Path) -> None:
    loaded = read(folder)
    ids = torch.tensor([[2, 3, 4]])
    with torch.no_grad():
        expected = small_llama(seed=4)(input_ids=ids).logits
        assert torch.equal(loaded.model(input_ids=ids).logits, expected)
    assert loaded.model.dtype == torch.float32
    assert not loaded.model.training
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    assert loaded.tokenizer.decode([2, 3]) == "w2 w3"
    assert loaded.tokenizer.chat_template
    assert loaded.context == 512


def test_dtype_is_taken_from_the_config(folder: Path) -> None:
    assert read(folder, dtype="bfloat16").model.dtype == torch.bfloat16


def test_context_is_the_shorter_of_model_and_tokenizer(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    settings = path / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "model_max_length": 100}))
    assert read(path).context == 100


def test_context_of_a_longrope_model_is_its_original_window(tmp_path: Path) -> None:
    config = transformers.Phi3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        original_max_position_embeddings=32,
        pad_token_id=EOS,
        eos_token_id=EOS,
        bos_token_id=0,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
        },
    )
    transformers.Phi3ForCausalLM(config).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    assert read(tmp_path).context == 32


def test_loading_leaves_the_random_state_alone(folder: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    read(folder)
    assert torch.equal(torch.rand(3), expected)


def test_bars_of_downloads_stay_while_those_of_the_libraries_are_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(*arguments: object, **options: object) -> object:
        of_library = transformers.utils.logging.is_progress_bar_enabled()
        seen.append((of_library, are_progress_bars_disabled()))
        return transformers.AutoConfig.from_pretrained(*arguments, **options)

    class Watched:
        from_pretrained = staticmethod(watched)

    monkeypatch.setattr(loading, "AutoConfig", Watched)
    read(folder)
    assert seen == [(False, False)]
    disable_progress_bars()
    try:
        read(folder)
        assert are_progress_bars_disabled()
    finally:
        enable_progress_bars()
    assert seen[1:] == [(False, True)]


def test_loading_is_silent(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bars = transformers.utils.logging.is_progress_bar_enabled()
    level = logging.getLogger("transformers").level
    read(folder)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert transformers.utils.logging.is_progress_bar_enabled() == bars
    assert logging.getLogger("transformers").level == level


def test_a_tokenizer_without_pad_token_gets_its_end_token(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    settings = json.loads((path / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert read(path).tokenizer.pad_token == "<eos>"


def test_builtin_names_are_no_folders_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    loaded = read("pocket")
    assert loaded.tokenizer.chat_template
    ids = loaded.tokenizer("12 + 7", add_special_tokens=False)["input_ids"]
    assert loaded.tokenizer.decode(ids) == "12 + 7"
    assert "no config.json" in refusal("./pocket")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/no/such/folder", "no such folder"),
        ("./nowhere", "no such folder"),
        ("~/nowhere-at-all", "no such folder"),
        ("a/b/c", "no such folder"),
        ("missing.gguf", "no such file"),
        ("two words", "neither a local folder nor a hub id"),
        ("someone/some-model", "give a local folder or a .gguf file instead"),
    ],
)
def test_names_that_lead_nowhere(name: str, words: str) -> None:
    text = refusal(name)
    assert words in text
    assert name in text


def test_a_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    assert "give the model's folder" in refusal(path)


def test_a_folder_of_gguf_files_hints_at_one(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"")
    assert "did you mean" in refusal(tmp_path)
    assert str(tmp_path / "tiny.gguf") in refusal(tmp_path)


def test_pickled_weights_are_refused_unread(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    (path / "model.safetensors").unlink()
    assert "no .safetensors file" in refusal(path)
    (path / "pytorch_model.bin").write_bytes(b"anything")
    assert "pickled" in refusal(path)


def test_broken_files_are_named(folder: Path, tmp_path: Path) -> None:
    for file, content in (
        ("config.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("model.safetensors", b"\x00" * 20),
    ):
        path = tmp_path / file
        path.mkdir()
        copy_of(folder, path)
        (path / file).write_bytes(content)
        assert f"{path}: cannot be loaded" in refusal(path)


def test_a_missing_tokenizer_is_named(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    for file in path.glob("tokenizer*"):
        file.unlink()
    assert str(path) in refusal(path)


def test_weights_that_are_not_in_the_file_are_an_error(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    edit_config(path, num_hidden_layers=3)
    text = refusal(path)
    assert "missing" in text
    assert "model.layers.2" in text
    edit_config(path, num_hidden_layers=2, vocab_size=65)
    refusal(path)


def test_a_tokenizer_of_another_model_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    word_tokenizer(vocabulary=80).save_pretrained(path)
    assert "80 tokens and the model 64" in refusal(path)


def test_encoder_decoders_and_encoders_are_no_policies(tmp_path: Path) -> None:
    t5 = transformers.T5Config(
        vocab_size=64, d_model=32, d_ff=48, num_layers=1, num_heads=4, d_kv=8
    )
    transformers.T5ForConditionalGeneration(t5).save_pretrained(tmp_path / "t5")
    bert = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
    )
    transformers.BertLMHeadModel(bert).save_pretrained(tmp_path / "bert")
    for name, words in (("t5", "a t5 model is no causal"), ("bert", "reads ahead")):
        word_tokenizer().save_pretrained(tmp_path / name)
        assert words in refusal(tmp_path / name)


def test_a_model_with_code_of_its_own_runs_it_only_if_asked(folder: Path, tmp_path: Path) -> None:
    path = copy_of(folder, tmp_path)
    edit_config(
        path,
        model_type="homemade",
        auto_map={
            "AutoConfig": "homemade.HomeConfig",
            "AutoModelForCausalLM": "homemade.HomeForCausalLM",
        },
    )
    (path / "homemade.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class HomeConfig(LlamaConfig):\n"
        "    model_type = 'homemade'\n"
        "class HomeForCausalLM(LlamaForCausalLM):\n"
        "    config_class = HomeConfig\n"
    )
    assert "set trust_remote_code = true" in refusal(path)
    assert not (tmp_path / "ran").exists()
    loaded = read(path, trust_remote_code=True)
    assert type(loaded.model).__name__ == "HomeForCausalLM"
    assert (tmp_path / "ran").exists()


def test_hub_without_safe_weights_is_refused_before_any_download(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def model_info(_api: Any, name: str, **options: Any) -> Any:
        asked.append((name, options["revision"]))
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename="pytorch_model.bin")])

    monkeypatch.setattr(source.HfApi, "model_info", model_info)
    assert "no .safetensors weights" in refusal("some/model", revision="v2")
    assert asked == [("some/model", "v2")]


def test_4bit_needs_cuda() -> None:
    assert "needs a CUDA device" in refusal("pocket", quantize="4bit")


def test_4bit_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install"):
        load(BaseModelConfig(quantize="4bit"), torch.device("cuda"), 0)


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == resolve_device("cpu") == CPU
    with pytest.raises(ModelError, match="no CUDA device"):
        resolve_device("cuda")
    with pytest.raises(ModelError, match="choose auto, cpu or cuda"):
        resolve_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert resolve_device("auto") == torch.device("cuda", 2)


def write_gguf(path: Path, model: Any) -> None:
    """A Llama and a byte-level tokenizer of one token per character."""
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    tokens = ["<unk>", "<eos>", *(chr(33 + i) for i in range(config.vocab_size - 3)), "!!"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(["! !"])
    writer.add_eos_token_id(EOS)
    writer.add_bos_token_id(EOS)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "model.layers": "blk",
    }
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        array = weight.numpy().astype(np.float32)
        for leaf, count in heads.items():
            if leaf in name:  # GGUF pairs the rotary dimensions up
                split = array.reshape(count, 2, -1, array.shape[1])
                array = split.swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_file_gives_the_same_model_and_its_tokenizer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = small_llama(seed=6)
    path = tmp_path / "tiny.gguf"
    write_gguf(path, model)
    capfd.readouterr()
    loaded = read(path)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    ids = torch.tensor([[2, 3, 4, 9]])
    with torch.no_grad():
        expected = model(input_ids=ids).logits
        assert (loaded.model(input_ids=ids).logits - expected).abs().max() < 1e-5
    assert loaded.tokenizer.decode([2, 3]) == '!"'
    assert loaded.tokenizer.chat_template
    assert loaded.context == 512
    # Its weights are plain ones, so it can be saved like any model.
    loaded.model.save_pretrained(tmp_path / "saved")
    loaded.tokenizer.save_pretrained(tmp_path / "saved")
    again = read(tmp_path / "saved")
    with torch.no_grad():
        assert (again.model(input_ids=ids).logits - expected).abs().max() < 1e-5


def test_a_broken_gguf_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 40)
    assert f"{path}: cannot be loaded" in refusal(path)
