"""How much memory a run will take, before it is started.

In: a RunConfig, the shape of each base, and where it would run.  Out: bytes per part and the peak.
Neighbours: ``models.shapes`` reads dimensions, ``learning.footprint`` has the formulas and their
symbols, ``doctor`` compares with what is there.  Pure; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from maporl_core.config.schema import BaseModelConfig, PolicyConfig, RunConfig
from maporl_core.learning.footprint import (
    CONTEXT_CUDA,
    FILLED,
    MOMENT_BYTES,
    PROCESS_CPU,
    adapter_weights,
    layer_width,
    micro_tokens,
    number_bytes,
    update_bytes,
    weight_bytes,
)
from maporl_core.models.shapes import ModelShape

CACHE_SHARE = 6
"""The engine gives running rows and kept conversations 1/6 of the device's memory each."""
WORDS_OF_QUESTION = {"compact": 24, "standard": 220, "short": 220}
"""Tokens of an opening prompt, by prompt style; GSM8K with its instruction is about 200."""
WORDS_AROUND = {"compact": 4, "standard": 30, "short": 26}
"""Tokens that introduce one message of another agent."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a learned verifier stands: ``name`` of its base, an agents' one or one of its own.

    ``words`` say so to people; ``max_length`` is in tokens.
    """

    name: str
    base: BaseModelConfig
    policy: PolicyConfig
    max_length: int
    words: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bytes.  ``peak`` adds what is there all the time to the larger of rollout and update."""

    weights: int
    adapters: int  # with gradients, Adam moments and value heads
    rollout: int  # keys and values
    update: int  # activations and logits
    overhead: int  # the process, or the CUDA context
    checkpoint: int  # one checkpoint on disk
    conversation: int  # tokens of one agent's whole conversation, at most
    micro_tokens: Mapping[str, int]  # of one forward of the update, by base

    @property
    def peak(self) -> int:
        return self.overhead + self.weights + self.adapters + max(self.rollout, self.update)


def forecast(
    config: RunConfig,
    shapes: Mapping[str, ModelShape],
    device: str,
    total_memory: int,
    seat: Seat | None = None,
) -> Forecast:
    """Sums over the bases that some policy stands on, and that of the verifier.

    ``shapes`` by base name; ``device`` "cpu" or "cuda"; ``total_memory`` of that device in bytes,
    which bounds the engine's caches.  Dense Llama-like models; about 20% either way.  A learned
    verifier counts as one more adapter, without Adam moments unless it is refitted, and one layer
    of its pass over messages; without ``seat`` it is taken to be of rank ``verifier.fit.rank`` on
    the first base.
    """
    policies = config.resolved_policies()
    speakers = config.agent_policies()
    parts = [0, 0, 0, 0]
    trained = 0
    ranks: dict[str, int] = {}
    lengths: dict[str, int] = {}
    bases = list(dict.fromkeys(policy.base for policy in policies.values()))
    if seat is None and config.verifier.on_model:
        seat = _presumed_seat(config, bases[0])
    for name in bases:
        shape, number = shapes[name], number_bytes(config.bases[name], device)
        own = {key: policy for key, policy in policies.items() if policy.base == name}
        length = min(conversation_tokens(config), shape.context)
        seats = sum(speaker in own for speaker in speakers)
        weights = sum(adapter_weights(policy, shape) for policy in own.values())
        trained += weights
        rank = sum(policy.rank for policy in own.values())
        if seat is not None and name == seat.name:
            rank += seat.policy.rank
        parts[0] += weight_bytes(shape, number, config.bases[name].quantize == "4bit")
        parts[1] += (8 + MOMENT_BYTES[config.update.optimiser]) * weights
        parts[2] += cache_bytes(config, shape, seats, length, number, total_memory)
        ranks[name], lengths[name] = rank, length
    saved = (4 + MOMENT_BYTES[config.update.optimiser]) * trained
    if seat is not None:
        shape = shapes[seat.name]
        for place, size in enumerate(_verifier_bytes(config, seat, shape, device)):
            parts[place] += size
        if config.verifier.refit_every:
            saved += 4 * adapter_weights(seat.policy, shape)
            if seat.name not in bases:
                parts[3] = _refit_bytes(config, seat, shape, device)
    overhead = CONTEXT_CUDA if device == "cuda" else PROCESS_CPU
    room = round(FILLED * total_memory) - overhead - parts[0] - parts[1]
    micro = {
        name: micro_tokens(config, config.bases[name], shapes[name], ranks[name], device, room)
        for name in bases
    }
    for name in bases:  # updated one after the other
        parts[3] = max(
            parts[3],
            update_bytes(
                shapes[name],
                max(micro[name], lengths[name]),
                ranks[name],
                number_bytes(config.bases[name], device),
                config.bases[name].gradient_checkpointing,
            ),
        )
    return Forecast(
        weights=parts[0],
        adapters=parts[1],
        rollout=parts[2],
        update=parts[3],
        overhead=overhead,
        checkpoint=saved,
        conversation=max(lengths.values()),
        micro_tokens=micro,
    )


def _refit_bytes(config: RunConfig, seat: Seat, shape: ModelShape, device: str) -> int:
    """Peak of fitting a verifier on a base of its own."""
    tokens = max(config.update.verifier_tokens, seat.max_length)
    number = number_bytes(seat.base, device)
    recompute = seat.base.gradient_checkpointing
    return update_bytes(shape, tokens, seat.policy.rank, number, recompute)


def _presumed_seat(config: RunConfig, first: str) -> Seat:
    """A verifier nothing is known of but what the config says."""
    name = config.verifier.base or first
    policy = PolicyConfig(rank=config.verifier.fit.rank)
    return Seat(name, config.bases[name], policy, config.verifier.fit.max_length, "")


def _verifier_bytes(
    config: RunConfig, seat: Seat, shape: ModelShape, device: str
) -> tuple[int, int, int]:
    """What a verifier adds to weights, adapters and rollout."""
    number = number_bytes(seat.base, device)
    shared = any(policy.base == seat.name for policy in config.resolved_policies().values())
    four_bit = seat.base.quantize == "4bit"
    # Weights and a base's gradient; AdamW's moments in fp32 while it is fitted.
    each = 8 + (MOMENT_BYTES["adamw"] if config.verifier.refit_every else 0)
    tokens = max(config.update.verifier_tokens, min(seat.max_length, shape.context))
    return (
        0 if shared else weight_bytes(shape, number, four_bit),
        each * adapter_weights(seat.policy, shape),
        tokens * number * layer_width(shape),
    )


def conversation_tokens(config: RunConfig) -> int:
    """Opening + T messages + what is read of A−1 others before turns 2 … T, at most the window."""
    discussion = config.discussion
    others = len(config.agents) - 1
    message = discussion.max_new_tokens
    read = (others * (message + WORDS_AROUND[discussion.style])) + WORDS_AROUND[discussion.style]
    tokens = (
        WORDS_OF_QUESTION[discussion.style]
        + discussion.turns * message
        + (discussion.turns - 1) * read
    )
    return min(tokens, discussion.max_context or tokens)


def cache_bytes(
    config: RunConfig, shape: ModelShape, seats: int, length: int, number: int, total_memory: int
) -> int:
    """2·D·K·s per token for the running rows, and again for the conversations that wait.

    Rows: as many problems as fit every engine's ``max_batch``, times the agents of this base;
    evaluation asks more questions, but no more rows.  Each half is bounded by the engine.
    """
    problems = config.discussions_at_once()
    asked = max(config.train.problems_per_step, config.eval.questions)
    rows = min(problems, asked) * seats
    half = rows * length * 2 * shape.layers * shape.key_value * number
    return 2 * min(half, total_memory // CACHE_SHARE)
