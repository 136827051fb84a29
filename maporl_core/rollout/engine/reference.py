"""The plainest correct engine: one row at a time, the whole text again for every token.

In and out as ``base`` says.  No cache, no batch, no padding: what the fast engine must agree with.
Neighbours: ``sampling`` draws the tokens, as for every engine in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from maporl_core.rollout.engine.base import Completion, Offer, OnTokens, Request, Sampling
from maporl_core.rollout.engine.model import BaseModel, Decoder
from maporl_core.rollout.engine.sampling import greedy, sample, uniforms


class PlainEngine:
    """Slow on purpose; for tests and for trusting ``HFEngine`` on a new model."""

    offers: frozenset[Offer] = frozenset({"exact_ids", "logprobs", "seeds", "stream"})

    def __init__(self, base: BaseModel) -> None:
        self.base = base
        self._decoder = Decoder(base)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_tokens: OnTokens | None = None
    ) -> list[Completion]:
        """Completions in request order."""
        return [
            self._one(index, request, sampling, on_tokens) for index, request in enumerate(requests)
        ]

    def sync(self, versions: Mapping[str, int]) -> None:
        """The weights are the trainer's own."""

    def forget(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is held."""

    @torch.no_grad()
    def _one(
        self, index: int, request: Request, sampling: Sampling, on_tokens: OnTokens | None
    ) -> Completion:
        limit = min(sampling.max_new_tokens, self.base.context - len(request.prompt_ids))
        draws = uniforms([request.seed], limit).to(self.base.device)
        device = self.base.device
        adapter = torch.tensor([self.base.row(request.policy)], device=device)
        ids: list[int] = []
        logprobs: list[float] = []
        for step in range(limit):
            text = torch.tensor([[*request.prompt_ids, *ids]], device=device)
            positions = torch.arange(text.shape[1], device=device)[None]
            with self.base.route(adapter):
                logits = self.base.logits(self._decoder(text, positions, None, None)[:, -1])
            if sampling.temperature > 0:
                token, logprob = sample(logits, draws[:, step], sampling.temperature)
            else:
                token, logprob = greedy(logits)
            ids.append(int(token))
            logprobs.append(float(logprob))
            if on_tokens is not None:
                on_tokens(index, ids)
            if ids[-1] in self.base.codec.end_ids:
                return Completion(tuple(ids), tuple(logprobs), "stop")
        return Completion(tuple(ids), tuple(logprobs), "length")
