"""What an engine is: token ids in, token ids and their log-probabilities out.

No tasks, prompts or rewards in here.  ``table`` makes the requests; ``in_process`` and
``reference`` answer them.  One engine serves one base model and all adapters on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from maporl_core.types import Finish


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt for one policy.

    ``policy`` None means the base with adapters off.  ``seed`` alone decides the sampled
    tokens: the same request gives the same completion whatever else is in the batch.
    Requests that name the same ``conversation`` over several calls continue each other, so an
    engine may reuse the key/value cache where the same weights wrote it.
    """

    prompt_ids: tuple[int, ...]
    policy: str | None
    seed: int
    conversation: Hashable | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature 0 is greedy.  No top-p or top-k: training needs the true distribution.

    ``logprobs`` of the completion are those of softmax(logits / temperature); for greedy
    decoding those of softmax(logits).
    """

    temperature: float
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """``ids`` holds the end token when ``finish`` is "stop"; one log-probability per id."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish


OnTokens = Callable[[int, Sequence[int]], None]
"""Called as tokens appear: (index of the request, all ids of its completion so far)."""


Offer = Literal["exact_ids", "logprobs", "seeds", "stream"]
"""What an engine may be able to do: give the very ids that it sampled; give the log-probability of
each under the distribution sampled from; sample the same for the same seed; call back as tokens
appear."""


class Engine(Protocol):
    @property
    def offers(self) -> frozenset[Offer]:
        """Agents are trained only on an engine that offers exact_ids and logprobs."""
        ...

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_tokens: OnTokens | None = None
    ) -> list[Completion]:
        """Completions in request order."""
        ...

    def sync(self, versions: Mapping[str, int]) -> None:
        """Policies were trained: sample from their weights of these versions from now on."""
        ...

    def forget(self) -> None:
        """Drop caches kept for conversations (weights changed or the discussion ended)."""
        ...

    def close(self) -> None:
        """Let go of everything; nothing is asked after this."""
        ...
