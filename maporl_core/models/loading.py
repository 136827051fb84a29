"""Reading a base model onto a device, and refusing what is no causal language model.

In: a ``source.Source``.  Out: a ``policy.LoadedModel``.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.models import safety
from maporl_core.models.policy import LoadedModel
from maporl_core.models.safety import ADAPTER_CONFIG, INDEX_FILE
from maporl_core.models.source import Source, find, named

_SANE_LENGTH = 1 << 24  # tokenizers without a limit name an astronomical one


def resolve_device(name: str) -> torch.device:
    """The device behind "auto", "cpu" or "cuda"; auto takes CUDA where there is one.

    Under a launcher each process takes the GPU of its local rank.  Raises ModelError when CUDA
    is asked for and missing.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    if name != "cuda":
        raise ModelError(f"no device {name!r}; choose auto, cpu or cuda")
    if not torch.cuda.is_available():
        raise ModelError('no CUDA device is usable here; set device = "cpu" or "auto"')
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def load(config: BaseModelConfig, device: torch.device, seed: int) -> LoadedModel:
    """The model in eval mode, its weights frozen, and its tokenizer.

    ``context`` is the model's own window, or the tokenizer's where that is shorter.  Loading
    neither reads nor moves the global random state.  Raises ModelError, in one line, for
    anything that cannot be found, read or used.
    """
    _check_quantization(config, device)
    source = find(config)
    devices = [device] if device.type == "cuda" else []
    with _quiet(source), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        if not source.gguf:
            _check_fetched(source)
        model_config = _read_config(source, config)
        tokenizer = _read_tokenizer(source, config)
        model = _read_model(source, config, model_config, device)
    model.requires_grad_(False)
    model.eval()
    safety.check_finite(source.shown, model)
    _check_vocabulary(source, model, tokenizer)
    _check_causal(source, model)
    return LoadedModel(model, tokenizer, _context(model, tokenizer))


def _check_quantization(config: BaseModelConfig, device: torch.device) -> None:
    if config.quantize == "none":
        return
    if device.type != "cuda":
        raise ModelError('quantize = "4bit" needs a CUDA device; set quantize = "none"')
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError('quantize = "4bit" needs bitsandbytes: pip install "maporl[quant]"')


def _check_fetched(source: Source) -> None:
    """What a hub model's own files name, before transformers follows them.

    A local folder was looked at when it was found.
    """
    if Path(source.path).is_dir():
        return
    with named(source):
        for file in (ADAPTER_CONFIG, INDEX_FILE):
            found = transformers.utils.cached_file(
                source.path, file, _raise_exceptions_for_missing_entries=False, **source.options
            )
            if found is not None and file == ADAPTER_CONFIG:
                safety.check_file_names(source.shown, [file])
            elif found is not None:
                safety.check_index(source.shown, Path(found))


def _read_config(source: Source, config: BaseModelConfig) -> Any:
    with named(source):
        model_config = AutoConfig.from_pretrained(
            source.path, trust_remote_code=config.trust_remote_code, **source.options
        )
    safety.check_attention(source.shown, model_config)
    remote = "AutoModelForCausalLM" in (getattr(model_config, "auto_map", None) or {})
    if getattr(model_config, "is_encoder_decoder", False) or not (
        remote or type(model_config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    ):
        raise ModelError(
            f"{source.shown}: a {model_config.model_type} model is no causal language model; "
            "choose a decoder-only one"
        )
    return model_config


def _read_tokenizer(source: Source, config: BaseModelConfig) -> Any:
    with named(source):
        tokenizer = AutoTokenizer.from_pretrained(
            source.path, trust_remote_code=config.trust_remote_code, **source.options
        )
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        # Only so that library calls that pad do not fail: masks here come from lengths.
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _read_model(
    source: Source, config: BaseModelConfig, model_config: Any, device: torch.device
) -> Any:
    options = dict(source.options)
    if not source.gguf:
        options["use_safetensors"] = True
    if device.type != "cpu":
        options["device_map"] = {"": device}
    if config.quantize == "4bit":
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    with named(source):
        model, report = AutoModelForCausalLM.from_pretrained(
            source.path,
            config=model_config,
            dtype=_dtype(config, device),
            trust_remote_code=config.trust_remote_code,
            output_loading_info=True,
            **options,
        )
    absent = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise ModelError(
            f"{source.shown}: weights missing or of the wrong shape: "
            f"{', '.join(absent[:3])}{more}; this is not a whole causal language model"
        )
    return _plain(model) if source.gguf else model


def _plain(model: Any) -> Any:
    """A GGUF model without its mark of quantisation, which its plain weights no longer have.

    With the mark, transformers refuses to save it.
    """
    model.is_quantized = False
    for holder, name in (
        (model, "hf_quantizer"),
        (model, "quantization_method"),
        (model.config, "quantization_config"),
    ):
        if hasattr(holder, name):
            delattr(holder, name)
    return model


def _check_vocabulary(source: Source, model: Any, tokenizer: Any) -> None:
    """Every id the tokenizer gives must have an embedding.

    Added tokens beyond it, which some converters invent, do no harm while nobody speaks them.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    spoken = [tokenizer.bos_token_id, tokenizer.eos_token_id]
    needed = max([tokenizer.vocab_size, *(i + 1 for i in spoken if i is not None)])
    if needed > rows:
        raise ModelError(
            f"{source.shown}: the tokenizer has {needed} tokens and the model {rows}; "
            "they do not belong together"
        )


def _dtype(config: BaseModelConfig, device: torch.device) -> torch.dtype:
    if config.dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


@torch.no_grad()
def _check_causal(source: Source, model: Any) -> None:
    """Changing the last token must leave what is read before it alone (an encoder fails this)."""
    with named(source):
        pair = torch.tensor([[0, 1, 2, 1], [0, 1, 2, 2]], device=model.device)
        logits = model(input_ids=pair, use_cache=False).logits[:, :3].float()
    bound = 1e-4 if model.dtype == torch.float32 else 1e-2
    if not bool((logits[0] - logits[1]).norm() <= bound * logits[0].norm()):
        raise ModelError(
            f"{source.shown}: {type(model).__name__} reads ahead, so it is no causal language "
            "model; choose a decoder-only one"
        )


def _context(model: Any, tokenizer: Any) -> int:
    """Tokens of the window: the shortest of what model and tokenizer say.

    A model with longrope reads all rows of a batch with another rotary table once one of them
    outgrows its original window.  It is used within that one, so that a row reads the same
    alone, in company and in training.
    """
    config = model.config.get_text_config(decoder=True)
    lengths = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        lengths.append(rope.get("original_max_position_embeddings"))
    sane = [int(length) for length in lengths if length and 0 < length < _SANE_LENGTH]
    return min(sane) if sane else _SANE_LENGTH


@contextmanager
def _quiet(source: Source) -> Iterator[None]:
    """Silence transformers while it loads; the hub's bars of downloaded bytes stay."""
    log = transformers.utils.logging
    verbosity = log.get_verbosity()
    bars, of_hub = log.is_progress_bar_enabled(), not are_progress_bars_disabled()
    log.set_verbosity_error()
    log.disable_progress_bar()  # turns off those of the hub too
    if of_hub:
        enable_progress_bars()
    try:
        # The GGUF converter draws a bar that no setting turns off; nothing is downloaded there.
        with redirect_stderr(io.StringIO()) if source.gguf else nullcontext():
            yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()
            if not of_hub:
                disable_progress_bars()
