"""How large a base model is, read without loading it.

In: one ``[bases.<name>]`` section, or the config of a model that is loaded.  Out: a ``ModelShape``,
or a ShapeUnknown that says why not.  Neighbours: ``learning.footprint`` computes with it, the
doctor and the updater ask.  No torch: dimensions come from config.json, from a GGUF file's header,
or from the table of the models that presets name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.kit.user_paths import user_path
from maporl_core.models.assets import VARIANTS, asset_path


class ShapeUnknown(Exception):
    """Why a model's dimensions cannot be told; one line."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Dimensions of a dense decoder.

    ``query`` and ``key_value`` are widths (heads × head size), ``mlp`` the width inside the gated
    MLP.  ``fused``: query/key/value and gate/up are one linear layer each, as in Phi-3.
    """

    layers: int
    hidden: int
    query: int
    key_value: int
    mlp: int
    vocabulary: int
    context: int
    tied: bool
    fused: bool = False

    @property
    def linears(self) -> tuple[tuple[str, int, int], ...]:
        """(name, in, out) of the linear layers of one decoder layer."""
        h, q, kv, m = self.hidden, self.query, self.key_value, self.mlp
        if self.fused:
            heads = (("qkv_proj", h, q + 2 * kv), ("o_proj", q, h))
            return (*heads, ("gate_up_proj", h, 2 * m), ("down_proj", m, h))
        heads_apart = (("q_proj", h, q), ("k_proj", h, kv), ("v_proj", h, kv), ("o_proj", q, h))
        return (*heads_apart, ("gate_proj", h, m), ("up_proj", h, m), ("down_proj", m, h))

    @property
    def linear_parameters(self) -> int:
        """Weights in the linear layers of all decoder layers: what 4-bit loading shrinks."""
        return self.layers * sum(wide * out for _, wide, out in self.linears)

    @property
    def parameters(self) -> int:
        """All weights: linear layers, embeddings (once if tied) and two norms a layer plus one."""
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.linear_parameters + embeddings + (2 * self.layers + 1) * self.hidden


KNOWN: Mapping[str, ModelShape] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": ModelShape(30, 576, 576, 192, 1536, 49152, 8192, True),
    "Qwen/Qwen2.5-0.5B-Instruct": ModelShape(24, 896, 896, 128, 4864, 151936, 32768, True),
    "microsoft/Phi-3-mini-128k-instruct": ModelShape(
        32, 3072, 3072, 3072, 8192, 32064, 131072, False, fused=True
    ),
}
"""Models that presets name, so that their forecast needs no network.  From their config.json."""


def read_shape(base: BaseModelConfig) -> ModelShape:
    """Dimensions of a base.  Raises ShapeUnknown.  Reads local files and the hub's cache only."""
    name = base.model
    if name in VARIANTS:
        try:
            return _from_folder(asset_path(name))
        except ModelError as error:
            raise ShapeUnknown(str(error)) from None
    path = user_path(name)
    if path.suffix.lower() == ".gguf":
        return _from_gguf(path)
    if path.is_dir():
        return _from_folder(path)
    cached = _cached_config(base)
    if cached is not None:
        return _from_folder(cached.parent)
    if name in KNOWN:
        return KNOWN[name]
    raise ShapeUnknown(f"{name} is neither here nor in the hub's cache; download it first")


def _cached_config(base: BaseModelConfig) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(base.model, "config.json", revision=base.revision)
    except HFValidationError:
        raise ShapeUnknown(f"{base.model} is neither a local folder nor a hub id") from None
    return Path(found) if isinstance(found, str) else None


def _from_folder(folder: Path) -> ModelShape:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ShapeUnknown(f"{folder} has no readable config.json") from None
    return shape_of(config, str(folder))


def shape_of(config: Any, name: str) -> ModelShape:
    """Dimensions by the keys of a model's config.json.  Raises ShapeUnknown, naming ``name``."""
    config = config.get("text_config", config) if isinstance(config, Mapping) else config
    if not isinstance(config, Mapping):
        raise ShapeUnknown(f"{name}: its config.json is not that of a Llama-like decoder")
    if any(key in config for key in ("num_local_experts", "num_experts", "n_routed_experts")):
        raise ShapeUnknown(f"{name} is a mixture of experts; the forecast knows dense models only")
    try:
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        head = int(config.get("head_dim") or hidden // heads)
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            query=heads * head,
            key_value=int(config.get("num_key_value_heads") or heads) * head,
            mlp=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            context=int(config.get("max_position_embeddings") or 1 << 17),
            tied=bool(config.get("tie_word_embeddings", False)),
            fused=str(config.get("model_type", "")).startswith("phi3"),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        raise ShapeUnknown(f"{name}: its config.json is not that of a Llama-like decoder") from None


def _from_gguf(path: Path) -> ModelShape:
    """From the header's metadata; the weights are mapped, not read."""
    if not path.is_file():
        raise ShapeUnknown(f"{path}: no such file")
    from gguf import GGUFReader

    try:
        reader = GGUFReader(str(path))
        arch = str(reader.fields["general.architecture"].contents())

        def number(key: str, default: int | None = None) -> int:
            field = reader.fields.get(f"{arch}.{key}")
            if field is None and default is not None:
                return default
            if field is None:
                raise KeyError(key)
            return int(field.contents())

        names = {tensor.name: tensor.shape for tensor in reader.tensors}
        hidden, heads = number("embedding_length"), number("attention.head_count")
        head = number("attention.key_length", hidden // heads)
        return ModelShape(
            layers=number("block_count"),
            hidden=hidden,
            query=heads * head,
            key_value=number("attention.head_count_kv", heads) * head,
            mlp=number("feed_forward_length"),
            vocabulary=int(max(names["token_embd.weight"])),
            context=number("context_length", 1 << 17),
            tied="output.weight" not in names,
            fused=arch == "phi3",
        )
    except (KeyError, ValueError, TypeError, IndexError, OSError, ZeroDivisionError):
        raise ShapeUnknown(f"{path}: not a GGUF file of a Llama-like decoder") from None
