"""One logit per (question, answer): adapted backbone, last real token, one linear layer.

In: rows of ids, each closed by its end token, and the policy that is the verifier: its adapter
reads, its value head is the score head.  Out: logits; σ(logit) is the probability of "right".
Neighbours: ``fit`` trains with this, ``learned`` scores with it, ``policy`` owns the weights.

Rows are padded on the right by their lengths.  Attention is causal, so no real token sees a pad
token, and the token that is read is found by length: an end token that is also the pad token is
read like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from maporl_core.models.chat_codec import ChatCodec
from maporl_core.models.policy import Base


def encode(codec: ChatCodec, question: str, answer: str, max_length: int) -> tuple[list[int], bool]:
    """Ids of one row, and whether it was cut to the last ``max_length`` of them.

    A row is the chat of one question and one answer as an agent without a role has it, closed by
    the end token.  What is lost first is the question's beginning: answers end with the result.
    """
    ids = codec.closed_ids(question, answer)
    return ids[-max_length:], len(ids) > max_length


def row_batches(lengths: Sequence[int], micro_tokens: int) -> list[list[int]]:
    """Places of rows, short ones first, in batches of at most ``micro_tokens`` padded tokens.

    A row longer than that has a batch of its own.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batches and (len(batches[-1]) + 1) * lengths[place] <= micro_tokens:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


@contextmanager
def row_logits(
    base: Base, policy: str, rows: Sequence[Sequence[int]], training: bool = False
) -> Iterator[Tensor]:
    """fp32 logits [B] of rows in one forward; run the backward inside.

    ``training`` turns on adapter dropout and gradient checkpointing.
    """
    lengths = torch.tensor([len(row) for row in rows], device=base.device)
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
    indices = torch.full((len(rows),), base.row(policy), device=base.device)
    with base.route(indices, training):
        hidden = base.hidden(ids.to(base.device))
        last = hidden[torch.arange(len(rows), device=base.device), lengths - 1]
        yield base.values(last, indices)


@torch.no_grad()
def all_logits(
    base: Base, policy: str, rows: Sequence[Sequence[int]], micro_tokens: int
) -> list[float]:
    """Logits of any number of rows, in order."""
    found = [0.0] * len(rows)
    for batch in row_batches([len(row) for row in rows], micro_tokens):
        with row_logits(base, policy, [rows[place] for place in batch]) as logits:
            for place, logit in zip(batch, logits.tolist(), strict=True):
                found[place] = logit
    return found
