"""The in-process engine: the trainer's own weights, one batch for all policies of a base.

In: requests (prompt ids, policy, seed).  Out: completions with the log-probabilities of the
distribution that was sampled from.
Neighbours: ``batch`` feeds the model, ``sampling`` draws, ``discussion`` asks; ``policy.Base`` is
the base it stands on.

Rows of any mix of policies decode together and leave as they end.  A conversation's keys and
values are kept when its row leaves; its next prompt is read from where it departs from what was
kept, if the same policy at the same version wrote it.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence

import psutil
import torch
from torch import Tensor

from maporl_core.errors import ModelError
from maporl_core.kit.nearest import nearest
from maporl_core.rollout.engine.base import Completion, Offer, OnTokens, Request, Sampling
from maporl_core.rollout.engine.batch import Batch, LibraryBatch, OwnBatch, Row, fill_holes
from maporl_core.rollout.engine.cache import CacheShape, Kept
from maporl_core.rollout.engine.model import BaseModel, Decoder
from maporl_core.rollout.engine.probe import library_cache_pads, own_cache_shape
from maporl_core.rollout.engine.sampling import greedy, sample, uniforms
from maporl_core.types import Finish

_LOGITS = 1 << 25
"""Logits held at once: a big vocabulary is drawn from in slices of the batch."""

_MEMORY_SHARE = 6
"""The running batch and the kept conversations may each take 1/6 of the device's memory."""

_log = logging.getLogger(__name__)


class HFEngine:
    """Batched key/value-cached decoding with mixed adapters.

    ``max_batch`` rows run at once, fewer where their keys and values would take more than
    ``cache_bytes`` (default: a share of the device's whole memory, so that the same machine
    always forms the same batches).
    """

    offers: frozenset[Offer] = frozenset({"exact_ids", "logprobs", "seeds", "stream"})

    def __init__(self, base: BaseModel, max_batch: int, cache_bytes: int | None = None) -> None:
        self.base = base
        self.max_batch = max_batch
        self.cache_bytes = _memory(base.device) // _MEMORY_SHARE
        if cache_bytes is not None:
            self.cache_bytes = cache_bytes
        self.decoder = Decoder(base)
        self.shape: CacheShape | None = own_cache_shape(base, self.decoder)
        self._pads = True
        if self.shape is None or self.shape.window is not None:
            self._pads = self._library_pads()
        self._slice = max(1, _LOGITS // self.decoder.config.vocab_size)  # rows
        self._kept: dict[Hashable, Kept] = {}
        self._kept_tokens = 0

    # Not inference mode: rotary tables that grow with the text would become inference tensors,
    # which the update's backward then refuses.
    @torch.no_grad()
    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_tokens: OnTokens | None = None
    ) -> list[Completion]:
        """Completions in request order.

        Raises ModelError for an unknown policy, a prompt that is empty or fills the context,
        and logits that are not finite.
        """
        rows = [self._row(index, request, sampling) for index, request in enumerate(requests)]
        self._make_room()
        completions: dict[int, Completion] = {}
        for batch in self._batches(rows):
            for row in self._decode(batch, sampling.temperature, on_tokens):
                completions[row.index] = _completion(row, self.base.codec.end_ids)
        return [completions[index] for index in range(len(requests))]

    def sync(self, versions: Mapping[str, int]) -> None:
        """The weights are the trainer's own, and what is kept names the version that wrote it."""

    def forget(self) -> None:
        """Drop the keys and values kept for conversations."""
        self._kept.clear()
        self._kept_tokens = 0

    def close(self) -> None:
        self.forget()

    def _library_pads(self) -> bool:
        pads = library_cache_pads(self.base, self.decoder)
        name = type(self.base.model).__name__
        if pads is None:
            raise ModelError(f"{name} does not decode token by token here; choose another model")
        _log.info("%s: keys and values are not kept past its window", name)
        return pads

    def _row(self, index: int, request: Request, sampling: Sampling) -> Row:
        prompt = tuple(request.prompt_ids)
        if not prompt:
            raise ModelError(f"request {index} has an empty prompt; give it at least one token")
        room = self.base.context - len(prompt)
        if room < 1:
            raise ModelError(
                f"a prompt of {len(prompt)} tokens leaves no room in a context of "
                f"{self.base.context}; shorten it or set fewer turns"
            )
        row = Row(
            index=index,
            prompt=prompt,
            policy=request.policy,
            adapter=self._adapter(request.policy),
            limit=min(sampling.max_new_tokens, room),
            seed=request.seed,
            conversation=request.conversation,
        )
        kept = self._pop(request.conversation)
        if (
            kept is not None
            and kept.policy == request.policy
            and kept.version == self._version(request.policy)
        ):
            row.kept, row.reused = kept, kept.shared(prompt)
        return row

    def _adapter(self, policy: str | None) -> int:
        if policy is not None and policy not in self.base.policies:
            near = nearest(policy, self.base.policies)
            hint = f"did you mean {near!r}?" if near else "see [policies] in the config"
            raise ModelError(f"no policy {policy!r} on this base; {hint}")
        return self.base.row(policy)

    def _version(self, policy: str | None) -> int:
        return 0 if policy is None else self.base.policies[policy].version

    def _batches(self, rows: Sequence[Row]) -> Iterator[Batch]:
        """Rows of similar length together, so that little of a batch is padding."""
        group: list[Row] = []
        longest = 0
        for row in sorted(rows, key=lambda row: (len(row.prompt), row.limit)):
            if group and not self._fits(group, longest, row):
                yield self._batch(group)
                group, longest = [], 0
            group.append(row)
            longest = max(longest, row.most)
        if group:
            yield self._batch(group)

    def _fits(self, group: Sequence[Row], longest: int, row: Row) -> bool:
        """Whether a row can join a group whose rows come to ``longest`` tokens at most."""
        if len(group) >= self.max_batch:
            return False
        shape = self._own(max(longest, row.most))
        if shape is None:
            together = self._own(longest) is None
            return together and (self._pads or len(row.prompt) == len(group[0].prompt))
        return (len(group) + 1) * max(longest, row.most) * shape.token_bytes <= self.cache_bytes

    def _own(self, longest: int) -> CacheShape | None:
        """The shape of the own cache, if rows of this length may use it."""
        shape = self.shape
        if shape is None or (shape.window is not None and longest > shape.window):
            return None
        return shape

    def _batch(self, rows: Sequence[Row]) -> Batch:
        shape = self._own(max(row.most for row in rows))
        if shape is None:
            return LibraryBatch(self.base, self.decoder, rows)
        return OwnBatch(self.base, self.decoder, shape, rows)

    def _decode(
        self, batch: Batch, temperature: float, on_tokens: OnTokens | None
    ) -> Iterator[Row]:
        """Rows as they end."""
        hidden = batch.prefill()
        draws = None
        if temperature > 0:
            steps = max(row.limit for row in batch.rows)
            draws = uniforms([row.seed for row in batch.rows], steps).to(self.base.device)
        for step in range(max(row.limit for row in batch.rows)):
            uniform = None if draws is None else draws[:, step]
            tokens, logprobs = self._draw(hidden, uniform, temperature)
            alive = self._append(batch.rows, tokens, logprobs, on_tokens)
            if not all(alive):
                for position, row in enumerate(batch.rows):
                    if not alive[position]:
                        self._keep(batch, position)
                        yield row
                order = fill_holes(alive)
                if not order:
                    return
                batch.leave(order)
                tokens = tokens[order]
                draws = None if draws is None else draws[order]
            hidden = batch.step(tokens)

    def _draw(
        self, hidden: Tensor, uniform: Tensor | None, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Next tokens [B] and their log-probabilities [B]."""
        tokens, logprobs = [], []
        for lo in range(0, len(hidden), self._slice):
            logits = self.base.logits(hidden[lo : lo + self._slice])
            if uniform is None:
                token, logprob = greedy(logits)
            else:
                token, logprob = sample(logits, uniform[lo : lo + self._slice], temperature)
            tokens.append(token)
            logprobs.append(logprob)
        return torch.cat(tokens), torch.cat(logprobs)

    def _append(
        self, rows: Sequence[Row], tokens: Tensor, logprobs: Tensor, on_tokens: OnTokens | None
    ) -> list[bool]:
        """Give every row its token; True for those that go on."""
        ends = self.base.codec.end_ids
        values = logprobs.tolist()
        if any(value != value for value in values):
            raise ModelError(
                "the model's logits are not finite; lower the learning rate, or load it in float32"
            )
        alive = []
        for row, token, value in zip(rows, tokens.tolist(), values, strict=True):
            row.ids.append(token)
            row.logprobs.append(value)
            alive.append(token not in ends and len(row.ids) < row.limit)
            if on_tokens is not None:
                on_tokens(row.index, tuple(row.ids))
        return alive

    def _keep(self, batch: Batch, position: int) -> None:
        """Keep a leaving row's keys and values for its conversation, while there is room."""
        row = batch.rows[position]
        if row.conversation is None or self.shape is None or not isinstance(batch, OwnBatch):
            return
        self._pop(row.conversation)
        if (self._kept_tokens + row.length) * self.shape.token_bytes > self.cache_bytes:
            return
        taken = batch.take(position)
        ids = (*row.prompt, *row.ids[:-1])
        version = self._version(row.policy)
        self._kept[row.conversation] = Kept(ids, row.policy, version, *taken)
        self._kept_tokens += len(ids)

    def _pop(self, conversation: Hashable) -> Kept | None:
        """Hand over what is kept of a conversation, so that it is held once."""
        kept = self._kept.pop(conversation, None)
        if kept is not None:
            self._kept_tokens -= len(kept.ids)
        return kept

    def _make_room(self) -> None:
        """Drop what nobody in this call continues, once it takes half of the room."""
        held = self._kept_tokens * (0 if self.shape is None else self.shape.token_bytes)
        if 2 * held > self.cache_bytes:
            self.forget()


def _completion(row: Row, ends: frozenset[int]) -> Completion:
    finish: Finish = "stop" if row.ids[-1] in ends else "length"
    return Completion(tuple(row.ids), tuple(row.logprobs), finish)


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)
