"""Discussions to training rows: one row is one agent's whole conversation.

In: Discussions, their rewards and who is trained.  Out: rows of ids with the spans to be trained,
and flat per-token tables.  Neighbour: ``update`` runs rows through the model.

The prompt of turn t begins with the ids of turn t−1's prompt and completion, so all turns of an
agent are one sequence and its prefix is read once, not once per turn.  Where the context window
dropped something, the chain breaks and a new row starts.  Masks come from spans and lengths, never
from token values: an end token that equals the pad token keeps its loss and its reward.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from maporl_core.types import Discussion, RewardParts


@dataclass(frozen=True, slots=True)
class Span:
    """One trained message inside a row: ids[start:end] were sampled.

    ``key`` is (index of the discussion, turn, agent); ``reward`` its total R(t, a);
    ``logprobs`` are the sampler's, one per id; ``problem`` is the problem's id.
    """

    start: int
    end: int
    key: tuple[int, int, int]
    reward: float
    logprobs: tuple[float, ...]
    problem: str
    policy: str


@dataclass(slots=True)
class Row:
    """Ids of one conversation and the policy that is trained on it."""

    policy: str
    ids: tuple[int, ...]
    spans: list[Span] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Number of sampled tokens to train."""
        return sum(span.end - span.start for span in self.spans)


def pack(
    discussions: Sequence[Discussion],
    rewards: Sequence[Sequence[Sequence[RewardParts]]],
    policies: Sequence[str],
    trained_agents: Collection[int],
) -> list[Row]:
    """Rows of every trained agent; ``policies`` names each agent's policy.

    A message is trained when its agent is and when its policy (not the bare base) wrote it.
    Rows without a trained message are left out.
    """
    rows: list[Row] = []
    for d, discussion in enumerate(discussions):
        for a in sorted(trained_agents):
            current: Row | None = None
            for t, turn in enumerate(discussion.messages):
                message = turn[a]
                prompt = message.prompt_ids
                whole = prompt + message.ids
                if current is None or prompt[: len(current.ids)] != current.ids:
                    current = Row(policies[a], whole)
                    rows.append(current)
                else:
                    current.ids = whole
                if message.policy is not None and message.ids:
                    current.spans.append(
                        Span(
                            len(prompt),
                            len(whole),
                            (d, t, a),
                            rewards[d][t][a].total,
                            message.logprobs,
                            discussion.problem.id,
                            policies[a],
                        )
                    )
    return [row for row in rows if row.spans]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """All trained tokens of a batch of rows, flat: [N], row after row, span after span.

    ``message_N`` numbers the message each token belongs to, ``policy_N`` its policy's row index.
    ``offsets`` holds the first token of each row, with N at the end.
    """

    targets_N: Tensor
    positions_N: Tensor  # position in the row whose hidden state predicts the target
    message_N: Tensor
    policy_N: Tensor
    sampler_logprobs_N: Tensor
    offsets: tuple[int, ...]
    spans: tuple[Span, ...]  # M messages
    lengths_M: Tensor
    rewards_M: Tensor
    policy_M: Tensor


def tabulate(rows: Sequence[Row], indices: Sequence[int]) -> TokenTable:
    """The flat tables of ``rows``, whose policies have row ``indices`` on their base (CPU)."""
    targets: list[int] = []
    positions: list[int] = []
    message: list[int] = []
    policy: list[int] = []
    logprobs: list[float] = []
    offsets = [0]
    spans: list[Span] = []
    policy_of_message: list[int] = []
    for row, index in zip(rows, indices, strict=True):
        for span in row.spans:
            length = span.end - span.start
            targets += row.ids[span.start : span.end]
            positions += range(span.start - 1, span.end - 1)
            message += [len(spans)] * length
            policy += [index] * length
            logprobs += span.logprobs
            spans.append(span)
            policy_of_message.append(index)
        offsets.append(len(targets))
    return TokenTable(
        targets_N=torch.tensor(targets, dtype=torch.long),
        positions_N=torch.tensor(positions, dtype=torch.long),
        message_N=torch.tensor(message, dtype=torch.long),
        policy_N=torch.tensor(policy, dtype=torch.long),
        sampler_logprobs_N=torch.tensor(logprobs, dtype=torch.float32),
        offsets=tuple(offsets),
        spans=tuple(spans),
        lengths_M=torch.tensor([span.end - span.start for span in spans], dtype=torch.long),
        rewards_M=torch.tensor([span.reward for span in spans], dtype=torch.float32),
        policy_M=torch.tensor(policy_of_message, dtype=torch.long),
    )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A right-padded group of rows: ``ids`` [B, L], ``rows`` [B] policy indices.

    ``flat`` [n] indexes the hidden states of the flattened [B·L] batch that predict the trained
    tokens; ``tokens`` [n] their places in the TokenTable.
    """

    ids: Tensor
    rows: Tensor
    flat: Tensor
    tokens: Tensor


def micro_batches(
    rows: Sequence[Row],
    chosen: Sequence[int],
    indices: Sequence[int],
    table: TokenTable,
    max_tokens: int,
    device: torch.device,
) -> Iterator[MicroBatch]:
    """Groups of the ``chosen`` rows, sorted by length, of at most ``max_tokens`` padded tokens."""
    by_length = sorted(chosen, key=lambda r: len(rows[r].ids))
    group: list[int] = []
    for r in by_length:
        if group and len(rows[r].ids) * (len(group) + 1) > max_tokens:
            yield _micro_batch(rows, group, indices, table, device)
            group = []
        group.append(r)
    if group:
        yield _micro_batch(rows, group, indices, table, device)


def _micro_batch(
    rows: Sequence[Row],
    group: Sequence[int],
    indices: Sequence[int],
    table: TokenTable,
    device: torch.device,
) -> MicroBatch:
    width = max(len(rows[r].ids) for r in group)
    ids = torch.zeros(len(group), width, dtype=torch.long)
    flat: list[Tensor] = []
    tokens: list[Tensor] = []
    for b, r in enumerate(group):
        row = rows[r].ids
        ids[b, : len(row)] = torch.tensor(row)
        first, last = table.offsets[r], table.offsets[r + 1]
        flat.append(table.positions_N[first:last] + b * width)
        tokens.append(torch.arange(first, last))
    return MicroBatch(
        ids=ids.to(device),
        rows=torch.tensor([indices[r] for r in group], device=device),
        flat=torch.cat(flat).to(device),
        tokens=torch.cat(tokens).to(device),
    )
