"""Nested training state on disk, exactly, without pickle.

In: dicts, lists, tuples, None, booleans, integers of any size, floats, text, bytes, NumPy arrays
and scalars, torch tensors, nested as they like.  Out: ``<path>.safetensors`` for the arrays and
``<path>.json`` for the rest; loading gives equal values of the same types, bit for bit.
Neighbours: ``run_state`` saves optimisers and random states with it inside a checkpoint folder.
torch and safetensors are imported on first use.

Tensors come back on the CPU, contiguous, without gradient; two that shared memory come back apart.
"""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

from maporl_core.errors import StoreError
from maporl_core.kit.user_paths import share_as
from maporl_core.store.failures import store_errors

_TAG = "$"  # JSON objects whose only key starts with it stand for something JSON lacks


def save_state(path: Path, state: Any) -> None:
    """Write ``state`` as ``<path>.safetensors`` and ``<path>.json``.

    Raises StoreError for a value of a kind that is not named above, saying where it is, and when
    the disk refuses.
    """
    import safetensors.torch

    tensors: dict[str, Any] = {}
    tree = _encode(state, "state", tensors)
    _separate(tensors)
    with store_errors("write", path):
        arrays, rest = _with_end(path, ".safetensors"), _with_end(path, ".json")
        safetensors.torch.save_file(tensors, arrays)
        rest.write_text(json.dumps(tree, allow_nan=False), encoding="utf-8")
        share_as(arrays, like=rest)


def load_state(path: Path) -> Any:
    """What ``save_state`` was given.  Raises StoreError when a file is missing or damaged."""
    import safetensors.torch
    from safetensors import SafetensorError

    with store_errors("read", path):
        try:
            tree = json.loads(_with_end(path, ".json").read_text(encoding="utf-8"))
            tensors = safetensors.torch.load_file(_with_end(path, ".safetensors"))
            return _decode(tree, tensors)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: the saved state is damaged ({error})") from error


def _with_end(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)  # not with_suffix: names may hold dots


def _encode(value: Any, where: str, tensors: dict[str, Any]) -> Any:
    if value is None or isinstance(value, bool) or type(value) in (int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) is list:
        return [_encode(item, f"{where}[{i}]", tensors) for i, item in enumerate(value)]
    if type(value) is tuple:
        return {"$tuple": [_encode(item, f"{where}[{i}]", tensors) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return _encode_dict(value, where, tensors)
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    return _encode_array(value, where, tensors)


def _encode_dict(value: dict[Any, Any], where: str, tensors: dict[str, Any]) -> Any:
    pairs = [(key, _encode(item, f"{where}[{key!r}]", tensors)) for key, item in value.items()]
    if all(type(key) is str and not key.startswith(_TAG) for key in value):
        return dict(pairs)
    return {"$dict": [[_encode(key, f"a key of {where}", tensors), item] for key, item in pairs]}


def _encode_array(value: Any, where: str, tensors: dict[str, Any]) -> Any:
    import numpy as np
    import torch

    name = f"t{len(tensors)}"
    if isinstance(value, torch.Tensor) and not value.is_sparse:
        tensors[name] = value.detach().cpu().contiguous()
        return {"$tensor": name}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        native = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
        # 0-d arrays would be made 1-d; a copy also takes read-only ones
        tensors[name] = torch.from_numpy(native.copy().reshape(value.shape))
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": name}
    raise StoreError(f"{where} is a {type(value).__name__}, which a state file cannot hold")


def _separate(tensors: dict[str, Any]) -> None:
    """Copy tensors that share memory with an earlier one: the file format keeps them apart."""
    seen: set[int] = set()
    for name, tensor in tensors.items():
        start = tensor.untyped_storage().data_ptr()
        if start in seen:
            tensors[name] = tensor.clone()
        elif start:
            seen.add(start)


def _decode(tree: Any, tensors: dict[str, Any]) -> Any:
    if isinstance(tree, list):
        return [_decode(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        tag, value = next(iter(tree.items()))
        if tag.startswith(_TAG):
            return _decode_tagged(tag, value, tensors)
    return {key: _decode(item, tensors) for key, item in tree.items()}


def _decode_tagged(tag: str, value: Any, tensors: dict[str, Any]) -> Any:
    if tag == "$tensor":
        return tensors[value]
    if tag == "$array":
        return tensors[value].numpy()
    if tag == "$scalar":
        return tensors[value].numpy()[()]
    if tag == "$tuple":
        return tuple(_decode(item, tensors) for item in value)
    if tag == "$dict":
        return {_decode(key, tensors): _decode(item, tensors) for key, item in value}
    if tag == "$float":
        return float(value)
    if tag == "$bytes":
        return base64.b64decode(value)
    raise ValueError(f"unknown mark {tag!r}")
