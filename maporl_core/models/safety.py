"""What a model's files may be, looked at before anything is read from them.

In: the folder or the file names of a model that somebody handed over.  Out: nothing, or a
ModelError in one line.  Neighbours: ``source`` finds the place, ``loading`` reads it.

Weights are safetensors only: transformers would unpickle whatever file an index names, put an
adapter that lies beside a model on top of it, and fetch the attention kernel that a config names.
None of this is what somebody asked for who named a model, so each is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from maporl_core.errors import ModelError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file

INDEX_FILE = "model.safetensors.index.json"
ADAPTER_CONFIG = "adapter_config.json"

_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_MAX_INDEX = 64 << 20  # bytes; a trillion-parameter model's index takes a few MiB
_ATTENTION = (None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def check_folder(name: str, path: Path) -> None:
    """Refuses a local folder that is no model with safetensors weights of its own."""
    files = sorted(file.name for file in _entries(name, path))
    if not is_file(path / "config.json"):
        if ADAPTER_CONFIG in files:
            raise ModelError(_is_adapter(name))
        ggufs = [file for file in files if file.endswith(".gguf")]
        hint = f"; did you mean {one_line(path / ggufs[0])}?" if ggufs else ""
        raise ModelError(f"{name}: no config.json in this folder{hint}")
    if ADAPTER_CONFIG in files:
        raise ModelError(_is_adapter(name))
    if not any(file.endswith(".safetensors") for file in files):
        if any(file.endswith(_PICKLED) for file in files):
            raise ModelError(
                f"{name}: its weights are pickled, and unpickling can run code; "
                "convert them to safetensors first"
            )
        raise ModelError(f"{name}: no .safetensors file in this folder")
    if INDEX_FILE in files:
        check_index(name, path / INDEX_FILE)


def check_beside(name: str, gguf: Path) -> None:
    """Refuses a .gguf file in an adapter's folder: another model would be read instead of it."""
    if is_file(gguf.with_name(ADAPTER_CONFIG)):
        raise ModelError(
            f"{name}: {ADAPTER_CONFIG} lies beside it and would name another model; move the "
            ".gguf file into a folder of its own"
        )


def check_file_names(name: str, files: Iterable[str]) -> None:
    """The same for a hub model, by the names the hub gives; none given, none refused."""
    files = list(files)
    if ADAPTER_CONFIG in files:
        raise ModelError(_is_adapter(name))
    if files and not any(file.endswith(".safetensors") for file in files):
        raise ModelError(f"{name}: the hub has no .safetensors weights of it; choose another model")


def check_index(name: str, path: Path) -> None:
    """Refuses an index of shards that names anything but safetensors files beside it."""
    try:
        if path.stat().st_size > _MAX_INDEX:
            raise ModelError(f"{name}: {INDEX_FILE} is far too long for an index of weights")
        shards = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{name}: {INDEX_FILE} cannot be read; copy the model again") from error
    for shard in sorted(map(str, shards)):
        if not shard.endswith(".safetensors") or "/" in shard or "\\" in shard:
            raise ModelError(
                f"{name}: {INDEX_FILE} takes weights from {one_line(shard, 80)!r}; only "
                ".safetensors files beside it are read"
            )


def check_attention(name: str, config: Any) -> None:
    """Refuses a config that names an attention kernel, which is code to be fetched and run."""
    wanted = getattr(config, "_attn_implementation", None)
    if wanted not in _ATTENTION:
        raise ModelError(
            f"{name}: its config.json asks for the attention kernel {one_line(wanted, 80)!r}, code "
            "from elsewhere; take attn_implementation out of it"
        )


@torch.no_grad()
def check_finite(name: str, model: torch.nn.Module) -> None:
    """Refuses weights that hold NaN or infinity: nothing they say would mean anything."""
    for key, weight in model.named_parameters():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise ModelError(
                f"{name}: weight {one_line(key, 80)} holds NaN or infinity; the files are damaged, "
                "copy the model again"
            )


def _entries(name: str, path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise ModelError(f"{name}: cannot be read ({error.strerror})") from error


def _is_adapter(name: str) -> str:
    return (
        f"{name}: holds an adapter ({ADAPTER_CONFIG}), which would be put on another model; name "
        "the model itself as base, and the adapter's folder as policies.<name>.adapter"
    )
