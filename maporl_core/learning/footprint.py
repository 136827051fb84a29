"""What a base, its adapters and one forward with its backward take of memory.

In: a model's dimensions (``models.shapes``), ranks, bytes per number.  Out: bytes, and the largest
micro-batch that fits.  Neighbours: ``micro_sizes`` picks a run's size with it, ``runs.doctor`` adds
a forecast up.  Pure; no torch.

Symbols: N weights, s bytes per number (4 in fp32, 2 in bf16), H hidden width, Q query width, K
key/value width, M MLP width, V vocabulary, D layers, R the sum of the ranks of all policies on a
base.
"""

from __future__ import annotations

from maporl_core.config.schema import BaseModelConfig, PolicyConfig, RunConfig
from maporl_core.models.shapes import ModelShape

PROCESS_CPU = 400 << 20
"""Resident memory of Python with torch and transformers loaded, before any model."""
CONTEXT_CUDA = 700 << 20
"""A CUDA context with its kernels, beside what torch allocates."""
NF4_BYTES = 0.516
"""Per weight: 4 bits, plus block scales quantised twice (8/64 + 32/(64·256) bits; QLoRA)."""
MOMENT_BYTES = {"adamw": 8, "adamw8bit": 2}
"""Of the two moments of a trained weight, which is fp32 itself, as its gradient is."""
LOGITS_AT_ONCE = 1 << 26
"""Logits of one piece (token_logprobs.MAX_LOGITS); larger batches go in pieces."""
LOGIT_COPIES = 4
"""fp32 copies of a piece in the backward: logits, divided by T, softmax, gradient."""
FILLED = 0.8
"""Share of a device's memory that a run plans to fill: a forecast is good to about 20%."""
FEWEST, MOST_CPU, MOST_CUDA = 256, 16_384, 65_536
"""Tokens of a forward that are picked from: above the most, nothing becomes faster."""


def number_bytes(base: BaseModelConfig, device: str) -> int:
    """s: 2 for bf16 and 4-bit bases, 4 for fp32; "auto" is bf16 on CUDA."""
    if base.dtype == "auto":
        return 2 if device == "cuda" else 4
    return 2 if base.dtype == "bfloat16" else 4


def weight_bytes(shape: ModelShape, number: int, four_bit: bool) -> int:
    """N·s; with 4-bit loading the decoder's linear layers take 0.516 bytes per weight."""
    if not four_bit:
        return shape.parameters * number
    rest = shape.parameters - shape.linear_parameters
    return round(shape.linear_parameters * NF4_BYTES) + rest * number


def adapter_weights(policy: PolicyConfig, shape: ModelShape, head: bool = True) -> int:
    """D · Σ r·(in + out) over the target layers, plus the H + 1 of a value ``head``."""
    targets = policy.target_modules
    per_layer = sum(
        policy.rank * (wide + out)
        for name, wide, out in shape.linears
        if targets == "all-linear" or name in targets
    )
    return shape.layers * per_layer + (shape.hidden + 1 if head else 0)


def layer_width(shape: ModelShape) -> int:
    """Numbers that one token has in one layer."""
    return 4 * shape.hidden + 2 * shape.query + 2 * shape.key_value + 4 * shape.mlp


def update_bytes(
    shape: ModelShape, tokens: int, rank: int, number: int, recompute: bool = False
) -> int:
    """Activations kept for the backward, plus logits, of one micro-batch of ``tokens`` tokens.

    Per token and layer s·(4H + 2Q + 2K + 4M) + 4·R per linear layer, in bf16 another 4·H for the
    norms' fp32 copies: the sizes of the tensors autograd saves in a Llama layer with frozen
    weights (tests/runs/test_doctor.py counts them).  With ``recompute`` (gradient checkpointing)
    each layer keeps its input, s·H, and one layer at a time is whole.  Logits: 4 copies of 4·V
    bytes for the tokens of one piece.
    """
    layer = number * layer_width(shape) + 4 * rank * len(shape.linears)
    if number == 2:
        layer += 4 * shape.hidden
    kept = shape.layers * number * shape.hidden + layer if recompute else shape.layers * layer
    piece = min(tokens, max(1, LOGITS_AT_ONCE // shape.vocabulary))
    return tokens * kept + LOGIT_COPIES * 4 * shape.vocabulary * piece


def micro_tokens(
    config: RunConfig, base: BaseModelConfig, shape: ModelShape, rank: int, device: str, room: int
) -> int:
    """Padded tokens of one forward: what ``update.micro_tokens`` says, or with "auto" the largest
    power of two whose forward and backward take at most ``room`` bytes.
    """
    asked = config.update.micro_tokens
    if asked != "auto":
        return asked
    number, recompute = number_bytes(base, device), base.gradient_checkpointing
    tokens = MOST_CUDA if device == "cuda" else MOST_CPU
    while tokens > FEWEST and update_bytes(shape, tokens, rank, number, recompute) > room:
        tokens //= 2
    return tokens
