"""Adapters on disk, in PEFT's own format: other tools load them as they are.

In and out: one policy and one folder with ``adapter_config.json``, ``adapter_model.safetensors``
(PEFT's key names) and, of a policy with a value head, ``value_head.safetensors`` (weight [H], bias
[1]; PEFT ignores it).
Neighbours: ``policy`` owns the weights; ``store`` wraps these folders into checkpoints.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from maporl_core.errors import ModelError, StoreError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file, share_as
from maporl_core.models.lora import StackedLoRALinear
from maporl_core.models.policy import Policy
from maporl_core.models.source import lasting_name

ADAPTER_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
VALUE_FILE = "value_head.safetensors"

_PREFIX = "base_model.model."
_MAX_CONFIG = 1 << 20  # bytes
_MAX_ALPHA = 1_000_000


def save_adapter(policy: Policy, folder: Path) -> None:
    """Write a policy's adapter and, where it has one, its value head.

    Raises StoreError when the disk refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_FILE).write_text(_config_text(policy), encoding="utf-8")
        save_file(_to_peft(policy.adapter), folder / ADAPTER_FILE, metadata={"format": "pt"})
        value = {name: view.detach().cpu().contiguous() for name, view in policy.value.items()}
        if value:
            save_file(value, folder / VALUE_FILE, metadata={"format": "pt"})
        for file in (ADAPTER_FILE, *([VALUE_FILE] if value else [])):
            share_as(folder / file, like=folder / CONFIG_FILE)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot write the adapter to {folder} ({error})") from error


def load_adapter(policy: Policy, folder: Path) -> None:
    """Read an adapter, made here or by PEFT, into a policy; its version grows.

    The file's scaling is kept: where its α / r differs from the policy's, B is scaled by the
    quotient.  A folder without a value head leaves the policy's as it is; a policy without one does
    not read the folder's.  Nothing else that the folder names or holds is looked at: no base model,
    no code, no pickled weights.  Raises ModelError for a file that is missing or broken, another
    rank, other layers or shapes, and weights that are not finite.
    """
    config = read_config(folder)
    rank = policy.config.rank
    if config.get("r") != rank:
        theirs = _shown(config.get("r"))
        raise ModelError(
            f"{folder}: adapter of rank {theirs}, policy {policy.name!r} has {rank}; "
            f"set policies.{policy.name}.rank = {theirs}"
        )
    found = _from_peft(read_tensors(folder / ADAPTER_FILE))
    _check_keys(folder, found, {name: view.shape for name, view in policy.adapter.items()})
    value_path = folder / VALUE_FILE
    value: dict[str, Tensor] = {}
    if policy.value and value_path.is_file():
        value = read_tensors(value_path)
        _check_keys(value_path, value, {name: view.shape for name, view in policy.value.items()})
    root = math.sqrt(rank) if config.get("use_rslora") is True else rank
    factor = (config["lora_alpha"] / root) / (policy.config.alpha / rank)
    with torch.no_grad():
        for name, view in policy.adapter.items():
            scale = factor if name.endswith(".lora_B") else 1.0
            view.copy_(found[name].to(torch.float32) * scale)
        for name, weight in value.items():
            policy.value[name].copy_(weight)
    policy.changed()


def _config_text(policy: Policy) -> str:
    """PEFT's own fields, in an order that does not depend on the process."""
    alpha = policy.config.alpha
    config = LoraConfig(
        r=policy.config.rank,
        lora_alpha=int(alpha) if alpha.is_integer() else alpha,  # some readers want an integer
        lora_dropout=policy.config.dropout,
        target_modules=_target_modules(policy),
        fan_in_fan_out=any(_stored_in_out(layer) for layer in policy.base.stack.layers.values()),
        base_model_name_or_path=lasting_name(policy.base.config.model),
        revision=policy.base.config.revision,
        task_type="CAUSAL_LM",
        inference_mode=True,
    )
    fields = {
        name: sorted(value) if isinstance(value, set) else value
        for name, value in config.to_dict().items()
    }
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"


def _stored_in_out(layer: StackedLoRALinear) -> bool:
    """Whether the base layer keeps its weight as [in, out]: transformers' Conv1D."""
    return type(layer.base_layer).__name__ == "Conv1D"


def _target_modules(policy: Policy) -> list[str]:
    """Last parts of the adapted layers' names, or whole names where those would match more."""
    adapted = set(policy.base.stack.layers)
    leaves = {name.rsplit(".", 1)[-1] for name in adapted}
    others = {
        name.removesuffix(".base_layer")
        for name, module in policy.base.model.named_modules()
        if not list(module.children())
    }
    matched = {name for name in others if name.rsplit(".", 1)[-1] in leaves}
    return sorted(leaves) if matched <= adapted else sorted(adapted)


def _to_peft(adapter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our "<layer>.lora_B" [r, out] becomes PEFT's "….lora_B.weight" [out, r]."""
    tensors = {}
    for name, view in adapter.items():
        weight = view.detach().cpu()
        weight = weight.t() if name.endswith(".lora_B") else weight
        # A fresh copy: views into the stack share storage, which safetensors refuses.
        tensors[f"{_PREFIX}{name}.weight"] = weight.clone(memory_format=torch.contiguous_format)
    return tensors


def _from_peft(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for key, weight in tensors.items():
        name = key.removeprefix(_PREFIX).removesuffix(".weight")
        found[name] = weight.t() if name.endswith(".lora_B") else weight
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """The config of an adapter folder.  Raises ModelError unless it is one of plain LoRA."""
    path = folder / CONFIG_FILE
    if not is_file(path):
        raise ModelError(f"{folder}: no {CONFIG_FILE}; give a PEFT adapter folder")
    try:
        if path.stat().st_size > _MAX_CONFIG:
            raise ModelError(f"{path}: is over 1 MiB; an adapter's config is a short JSON file")
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read ({one_line(error)})") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ModelError(f"{path}: not a LoRA adapter; only peft_type LORA can be read")
    alpha = config.get("lora_alpha")
    if (
        not isinstance(alpha, int | float)
        or isinstance(alpha, bool)
        or not 0 < alpha <= _MAX_ALPHA  # NaN lies in no interval
    ):
        raise ModelError(
            f"{path}: lora_alpha is {_shown(alpha)}; it must be a number above 0 and at most "
            f"{_MAX_ALPHA:,}"
        )
    for key, plain in (
        ("use_dora", False),
        ("lora_bias", False),
        ("bias", "none"),
        ("rank_pattern", {}),
        ("alpha_pattern", {}),
        ("modules_to_save", None),
    ):
        if config.get(key) not in (plain, None, [], {}):
            raise ModelError(
                f"{path}: {key} = {_shown(config[key])} is not supported; use plain LoRA"
            )
    return config


def _shown(value: Any) -> str:
    try:
        return one_line(repr(value), 60)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return "an enormous number"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Weights by name.  Raises ModelError for a file that is missing, broken or not all finite."""
    if not is_file(path):
        pickled = any(path.with_suffix(end).exists() for end in (".bin", ".pt", ".pth", ".pkl"))
        hint = "; its weights are pickled, save it with safetensors" if pickled else ""
        raise ModelError(f"{path.parent}: no {path.name}{hint}")
    try:
        tensors = dict(load_file(path))
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{path}: cannot be read ({one_line(error)})") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ModelError(f"{path}: {one_line(name, 80)} holds {tensor.dtype}, not floats")
        if not bool(torch.isfinite(tensor.float()).all()):
            raise ModelError(
                f"{path}: {one_line(name, 80)} holds NaN or infinity; the file is damaged or the "
                "training that made it broke down"
            )
    return tensors


def _check_keys(place: Path, found: Mapping[str, Tensor], wanted: Mapping[str, torch.Size]) -> None:
    for what, keys in (
        ("lacks", sorted(wanted.keys() - found.keys())),
        ("has unexpected", sorted(found.keys() - wanted.keys())),
    ):
        if keys:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise ModelError(
                f"{place}: the file {what} {one_line(', '.join(keys[:3]))}{more}; "
                "it was made for another model or other target_modules"
            )
    for name, shape in wanted.items():
        if found[name].shape != shape:
            raise ModelError(
                f"{place}: {name} has shape {list(found[name].shape)}, needed {list(shape)}; "
                "it was made for another model"
            )
