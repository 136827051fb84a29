"""The network of a built-in model before it has learned anything.

In: a Variant and its tokenizer.  Out: a LlamaForCausalLM.  Neighbour: ``build`` teaches it.

Two starts save most of the training time.  Number tokens get, beside noise, the waves
cos(2πn/p) and sin(2πn/p) of their value n: sums of numbers are then sums of angles, and two-step
sums come out right after some 250 steps.  Score tokens "(0)" … "(9)" share one direction, by which
they are ordered.  Input and output embeddings are apart: where two numbers are equally likely, a
shared table would also raise the numbers between them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from maporl_core.runs.pocket.tokenizer import CONTEXT
from maporl_core.runs.pocket.variants import Variant

_SPREAD = 0.05  # standard deviation of fresh weights
_PERIODS = (2, 5, 10, 20, 25, 50, 100, 200)
_WAVE = 0.1  # amplitude of the waves in number tokens
_ORDER = 0.4  # length by which the scores 0 and 9 lie off their middle
_OWN = 0.3  # share of the fresh noise that number and score tokens keep
# Short texts: a low base makes neighbouring places differ enough for a head to tell them apart.
_ROPE_THETA = 100.0


def fresh_network(
    variant: Variant, tokenizer: PreTrainedTokenizerBase, seed: int
) -> LlamaForCausalLM:
    """Untrained weights; a pure function of the arguments."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=variant.hidden,
        intermediate_size=variant.mlp,
        num_hidden_layers=variant.layers,
        num_attention_heads=variant.heads,
        num_key_value_heads=variant.heads,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": _ROPE_THETA},
        tie_word_embeddings=False,
        initializer_range=_SPREAD,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LlamaForCausalLM(config)
        table = network.get_input_embeddings().weight.data
        numbers = [_token(tokenizer, f" {n}") for n in range(100)]
        waves = _waves() @ _directions(17, variant.hidden)
        table[numbers] = _OWN * table[numbers] + _WAVE * waves
        scores = [_token(tokenizer, f" ({digit})") for digit in range(10)]
        order = torch.linspace(-1.0, 1.0, 10)[:, None] * _directions(1, variant.hidden)
        common = _SPREAD * torch.randn(variant.hidden)
        table[scores] = _OWN * table[scores] + common + _ORDER * order
    return network


def _waves() -> Tensor:
    """[100, 17]: the value itself in [-1, 1), then a cosine and a sine per period."""
    n = torch.arange(100.0)
    columns = [n / 50 - 1]
    for period in _PERIODS:
        columns += [torch.cos(2 * math.pi * n / period), torch.sin(2 * math.pi * n / period)]
    return torch.stack(columns, dim=1)


def _directions(count: int, width: int) -> Tensor:
    """[count, width]: random orthonormal rows."""
    rows: Tensor = torch.linalg.qr(torch.randn(width, count))[0].T
    return rows


def _token(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    (index,) = tokenizer(text, add_special_tokens=False)["input_ids"]
    return int(index)
