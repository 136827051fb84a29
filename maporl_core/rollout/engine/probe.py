"""How a model can be batched: tried on a few tokens, not guessed from its name.

In: a base.  Out: the shape of its keys and values if they can live in this project's own cache,
and whether transformers' own cache for it stands padded rows.
Neighbour: ``in_process`` asks once when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from maporl_core.rollout.engine.batch import Batch, LibraryBatch, OwnBatch, Row
from maporl_core.rollout.engine.cache import CacheShape, Kept
from maporl_core.rollout.engine.model import BaseModel, Decoder

_RAGGED = ((1, 2, 3), (2,))
_EQUAL = ((1, 2, 3), (2, 3, 1))
_STEPS = (3, 1)

# Remote and unusual model code may fail in any of these ways on a cache it does not know.
_TRIAL_ERRORS = (
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
        if shape is not None and _own_agrees(base, decoder, shape):
            return shape
    except _TRIAL_ERRORS:
        return None
    return None


@torch.no_grad()
def library_cache_pads(base: BaseModel, decoder: Decoder) -> bool | None:
    """Whether rows of unequal length read right in transformers' own cache.

    None if rows of equal length do not either.
    """
    for prompts, verdict in ((_RAGGED, True), (_EQUAL, False)):
        try:
            batch = LibraryBatch(base, decoder, _rows(prompts))
            if _reads_like_alone(base, decoder, batch):
                return verdict
        except _TRIAL_ERRORS:
            continue
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
    window = min(windows) if windows else None
    return CacheShape(len(layers), heads, key_dim, value_dim, dtype, window)


def _own_agrees(base: BaseModel, decoder: Decoder, shape: CacheShape) -> bool:
    """Two turns: the second puts back what the first one read, and adds unequal new parts."""
    first = OwnBatch(base, decoder, shape, _rows(_RAGGED))
    if not _reads_like_alone(base, decoder, first):
        return False
    again = []
    for position, row in enumerate(first.rows):
        ids = (*row.prompt, *row.ids[:-1])
        fresh = (row.ids[-1], 2, 3)[: 2 + row.index]
        prompt = (*ids, *fresh)
        kept = Kept(ids, None, 0, *first.take(position))
        again.append(Row(row.index, prompt, None, -1, 3, 0, kept=kept, reused=len(ids)))
    return _reads_like_alone(base, decoder, OwnBatch(base, decoder, shape, again))


def _rows(prompts: Sequence[tuple[int, ...]]) -> list[Row]:
    return [
        Row(index, prompt, policy=None, adapter=-1, limit=len(_STEPS) + 1, seed=0)
        for index, prompt in enumerate(prompts)
    ]


def _reads_like_alone(base: BaseModel, decoder: Decoder, batch: Batch) -> bool:
    """Feed a batch its prompts and some tokens, and each text so far alone without a cache."""
    hidden = batch.prefill()
    if not _same(base, decoder, batch, hidden):
        return False
    for token in _STEPS:
        for row in batch.rows:
            row.ids.append(token)
        hidden = batch.step(torch.tensor([token] * len(batch.rows), device=base.device))
        if not _same(base, decoder, batch, hidden):
            return False
    for row in batch.rows:
        row.ids.append(1)  # the last token drawn is never fed
    return True


def _same(base: BaseModel, decoder: Decoder, batch: Batch, hidden: Tensor) -> bool:
    # Half precision rounds the two ways differently; a wrong mask is far beyond either bound.
    bound = 1e-3 if hidden.dtype == torch.float32 else 5e-2
    for row, ours in zip(batch.rows, hidden.float(), strict=True):
        text = torch.tensor([[*row.prompt, *row.ids]], device=base.device)
        positions = torch.arange(text.shape[1], device=base.device)[None]
        alone = decoder(text, positions, None, None)[0, -1].float()
        if not bool((ours - alone).norm() <= bound * alone.norm()):
            return False
    return True
