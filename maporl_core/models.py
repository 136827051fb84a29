"""Base models: from a name to a frozen causal LM with its tokenizer, on a device.

In: one ``[bases.<name>]`` section.  Out: a ``policy.LoadedModel``.
A name is, in this order: a built-in model, a ``.gguf`` file, a local folder, a hub id.
Neighbours: ``train`` and ``evaluate`` call ``load`` and hand the result to ``policy.Policies``.

Weights are read from safetensors or GGUF only, never unpickled, and no code that comes with a
model runs unless ``trust_remote_code`` is set.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from maporl_core.config import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.pocket import VARIANTS, asset_path
from maporl_core.policy import LoadedModel

_HUB_TIMEOUT = 10.0  # seconds for the first question to the hub
_SANE_LENGTH = 1 << 24  # tokenizers without a limit name an astronomical one
_LOCAL_HINT = "give a local folder or a .gguf file instead"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a model is read from, as from_pretrained takes it."""

    shown: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)
    gguf: bool = False


def resolve_device(name: str) -> torch.device:
    """ "auto", "cpu" or "cuda" as a device; auto takes CUDA where there is one.

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
    source = _find(config)
    devices = [device] if device.type == "cuda" else []
    with _quiet(source), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        model_config = _read_config(source, config)
        tokenizer = _read_tokenizer(source, config)
        model = _read_model(source, config, model_config, device)
    model.requires_grad_(False)
    model.eval()
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"{source.shown}: the tokenizer has {len(tokenizer)} tokens and the model {rows}; "
            "they do not belong together"
        )
    _check_causal(source, model)
    return LoadedModel(model, tokenizer, _context(model, tokenizer))


def _check_quantization(config: BaseModelConfig, device: torch.device) -> None:
    if config.quantize == "none":
        return
    if device.type != "cuda":
        raise ModelError('quantize = "4bit" needs a CUDA device; set quantize = "none"')
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError('quantize = "4bit" needs bitsandbytes: pip install "maporl[quant]"')


def _find(config: BaseModelConfig) -> _Source:
    name = config.model
    if name in VARIANTS:
        return _Source(name, str(asset_path(name)))
    path = Path(name).expanduser()
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise ModelError(f"{name}: no such file")
        return _Source(name, str(path.parent), {"gguf_file": path.name}, gguf=True)
    if path.is_dir():
        _check_folder(name, path)
        return _Source(name, str(path))
    if path.is_file():
        raise ModelError(f"{name}: is a file; give the model's folder or a .gguf file")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(f"{name}: no such folder")
    return _ask_hub(config)


def _check_folder(name: str, path: Path) -> None:
    if not (path / "config.json").is_file():
        found = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"; did you mean {path / found[0]}?" if found else ""
        raise ModelError(f"{name}: no config.json in this folder{hint}")
    if any(path.glob("*.safetensors")):
        return
    if any(path.glob("*.bin")) or any(path.glob("*.pt")) or any(path.glob("*.pth")):
        raise ModelError(
            f"{name}: its weights are pickled, and unpickling can run code; "
            "convert them to safetensors first"
        )
    raise ModelError(f"{name}: no .safetensors file in this folder")


def _ask_hub(config: BaseModelConfig) -> _Source:
    """One question before any download: is it there, has it safe weights, or are we offline?"""
    name = config.model
    options = {"revision": config.revision} if config.revision else {}
    try:
        info = HfApi().model_info(name, revision=config.revision, timeout=_HUB_TIMEOUT)
    except HfHubHTTPError as error:
        raise ModelError(
            f"{name}: neither a local folder nor a model the hub gives out ({_line(error)}); "
            f"check the name, log in with: hf auth login, or {_LOCAL_HINT}"
        ) from error
    except HFValidationError as error:
        raise ModelError(f"{name}: neither a local folder nor a hub id") from error
    except Exception:  # noqa: BLE001  the hub client's network errors change with its HTTP library
        # No hub in reach: what an earlier run downloaded is good enough.
        return _Source(name, name, {**options, "local_files_only": True})
    files = [sibling.rfilename for sibling in info.siblings or []]
    if files and not any(file.endswith(".safetensors") for file in files):
        raise ModelError(f"{name}: the hub has no .safetensors weights of it; choose another model")
    return _Source(name, name, options)


def _read_config(source: _Source, config: BaseModelConfig) -> Any:
    with _named(source):
        model_config = AutoConfig.from_pretrained(
            source.path, trust_remote_code=config.trust_remote_code, **source.options
        )
    remote = "AutoModelForCausalLM" in (getattr(model_config, "auto_map", None) or {})
    if getattr(model_config, "is_encoder_decoder", False) or not (
        remote or type(model_config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    ):
        raise ModelError(
            f"{source.shown}: a {model_config.model_type} model is no causal language model; "
            "choose a decoder-only one"
        )
    return model_config


def _read_tokenizer(source: _Source, config: BaseModelConfig) -> Any:
    with _named(source):
        tokenizer = AutoTokenizer.from_pretrained(
            source.path, trust_remote_code=config.trust_remote_code, **source.options
        )
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        # Only so that library calls that pad do not fail: masks here come from lengths.
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _read_model(
    source: _Source, config: BaseModelConfig, model_config: Any, device: torch.device
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
    with _named(source):
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


def _dtype(config: BaseModelConfig, device: torch.device) -> torch.dtype:
    if config.dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


@torch.no_grad()
def _check_causal(source: _Source, model: Any) -> None:
    """Changing the last token must leave what is read before it alone (an encoder fails this)."""
    with _named(source):
        pair = torch.tensor([[0, 1, 2, 1], [0, 1, 2, 2]], device=model.device)
        logits = model(input_ids=pair, use_cache=False).logits[:, :3].float()
    if not torch.allclose(logits[0], logits[1], rtol=1e-3, atol=1e-3):
        raise ModelError(
            f"{source.shown}: {type(model).__name__} reads ahead, so it is no causal language "
            "model; choose a decoder-only one"
        )


def _context(model: Any, tokenizer: Any) -> int:
    config = model.config.get_text_config(decoder=True)
    lengths = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    sane = [int(length) for length in lengths if length and 0 < length < _SANE_LENGTH]
    return min(sane) if sane else _SANE_LENGTH


@contextmanager
def _named(source: _Source) -> Iterator[None]:
    """Turn whatever a loader raises into one line that names the model."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        text = str(error)
        if "trust_remote_code" in text:
            raise ModelError(
                f"{source.shown}: this model needs code of its own; "
                "set trust_remote_code = true for its base if you trust it"
            ) from error
        if source.options.get("local_files_only"):
            raise ModelError(
                f"{source.shown}: not a local folder, the hub cannot be reached and no copy of "
                f"it was downloaded before; {_LOCAL_HINT}"
            ) from error
        raise ModelError(f"{source.shown}: cannot be loaded ({_line(error)})") from error


def _line(error: Exception) -> str:
    """The first line an error has to say, of bounded length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return line if len(line) <= 200 else f"{line[:199]}…"


@contextmanager
def _quiet(source: _Source) -> Iterator[None]:
    """Silence transformers while it loads; the hub's own download bars stay."""
    log = transformers.utils.logging
    verbosity = log.get_verbosity()
    bars = log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        # The GGUF converter draws a bar that no setting turns off; nothing is downloaded there.
        with redirect_stderr(io.StringIO()) if source.gguf else nullcontext():
            yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()
