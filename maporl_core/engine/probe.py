"""Whether a model's keys and values can live in this project's own cache: tried, not guessed.

In: a base.  Out: the shape of its cache, or None when the model needs transformers' own.
Neighbour: ``hf`` asks once when it is made.
"""

from __future__ import annotations

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from maporl_core.engine.batch import OwnBatch, Row
from maporl_core.engine.cache import CacheShape, Kept
from maporl_core.engine.model import BaseModel, Decoder

_TRIAL_ERRORS = (
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


@torch.no_grad()
def own_cache_shape(base: BaseModel, decoder: Decoder) -> CacheShape | None:
    """The shape, if a ragged batch over two turns then reads as each row does alone."""
    try:
        shape = _shape(base, decoder)
        if shape is not None and _agrees(base, decoder, shape):
            return shape
    except _TRIAL_ERRORS:
        # Remote and unusual model code may fail in any way on a cache it does not know.
        return None
    return None


def _shape(base: BaseModel, decoder: Decoder) -> CacheShape | None:
    cache = DynamicCache(config=base.model.config)
    ids = torch.tensor([[1, 2]], device=base.device)
    decoder(ids, torch.tensor([[0, 1]], device=base.device), None, cache)
    layers = cache.layers
    if not layers or any(
        type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers
    ):
        return None
    found = {
        (layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], layer.keys.dtype)
        for layer in layers
    }
    if len(found) > 1 or any(layer.values.dtype != layer.keys.dtype for layer in layers):
        return None
    heads, key_dim, value_dim, dtype = found.pop()
    windows = [
        int(layer.sliding_window)
        for layer in layers
        if isinstance(layer, DynamicSlidingWindowLayer)
    ]
    return CacheShape(
        len(layers), heads, key_dim, value_dim, dtype, min(windows) if windows else None
    )


def _agrees(base: BaseModel, decoder: Decoder, shape: CacheShape) -> bool:
    """Two turns of two rows of unequal length, against each row read alone without a cache."""
    first = [Row(0, (1, 2, 3), None, -1, 2, 0), Row(1, (2,), None, -1, 2, 0)]
    batch = OwnBatch(base, decoder, shape, first)
    got: dict[int, list[torch.Tensor]] = {0: [], 1: []}
    _collect(got, batch, batch.prefill())
    _collect(got, batch, batch.step(torch.tensor([3] * 2, device=base.device)))
    for row in batch.rows:
        row.ids = [3, 1]
    second = []
    for position, row in enumerate(batch.rows):
        ids = (*row.prompt, 3)
        taken = batch.take(position)
        new = (*ids, 1, 2)[: len(ids) + 1 + row.index]
        again = Row(row.index, new, None, -1, 1, 0)
        again.kept, again.reused = Kept(ids, None, 0, *taken), len(ids)
        second.append(again)
    batch = OwnBatch(base, decoder, shape, second)
    _collect(got, batch, batch.prefill())
    texts = {0: ((1, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3, 1)), 1: ((2,), (2, 3), (2, 3, 1, 2))}
    bound = 1e-3 if shape.dtype == torch.float32 else 5e-2
    for index, prompts in texts.items():
        for prompt, ours in zip(prompts, got[index], strict=True):
            ids_alone = torch.tensor([prompt], device=base.device)
            positions = torch.arange(len(prompt), device=base.device)[None]
            alone = decoder(ids_alone, positions, None, None)[0, -1].float()
            if not bool((ours.float() - alone).norm() <= bound * alone.norm()):
                return False
    return True


def _collect(got: dict[int, list[torch.Tensor]], batch: OwnBatch, hidden: torch.Tensor) -> None:
    for position, row in enumerate(batch.rows):
        got[row.index].append(hidden[position])
