"""Discussions to training rows: one row is one agent's whole conversation.

In: Discussions, what their messages were paid and the step's plan.  Out: rows of ids with the spans
to be trained, and flat per-token tables.  Neighbours: ``base_update`` runs rows through the model.

The prompt of turn t begins with the ids of turn t−1's prompt and completion, so all turns of an
agent are one sequence and its prefix is read once, not once per turn.  Where the context window
dropped something, the chain breaks and a new row starts.  A candidate that the discussion did not
go on with is a row of its own: the prefix it shares, then its ids.  Masks come from spans and
lengths, never from token values: an end token that equals the pad token keeps its loss and reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from maporl_core.learning.keys import MessageKey
from maporl_core.learning.methods.base import RolloutPlan
from maporl_core.types import Discussion, Message, Pay, Place


@dataclass(frozen=True, slots=True)
class Span:
    """One trained message inside a row: ids[start:end] were sampled.

    ``reward`` is its total R(t, a); ``logprobs`` are the sampler's, one per id.
    """

    start: int
    end: int
    key: MessageKey
    reward: float
    logprobs: tuple[float, ...]

    @property
    def place(self) -> Place:
        return self.key.place


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
    held: Sequence[Discussion],
    paid: Mapping[Place, Pay],
    plan: RolloutPlan,
) -> list[Row]:
    """Rows of every trained agent, discussion after discussion.

    A message is trained when its agent is, when a policy (not the bare base) wrote it, and when the
    discussion went on with it or the plan trains the other candidates too.  Rows without a trained
    message are left out.
    """
    rows: list[Row] = []
    for d, discussion in enumerate(held):
        for agent in sorted(plan.trained):
            rows += _conversation(d, discussion, agent, paid)
            if plan.train_unchosen:
                rows += _branches(d, discussion, agent, paid)
    return rows


def _conversation(
    d: int, discussion: Discussion, agent: int, paid: Mapping[Place, Pay]
) -> list[Row]:
    """What one agent said as far as the discussion went on with it: a row per unbroken chain."""
    chains: list[list[Message]] = []
    whole: tuple[int, ...] = ()
    for message in discussion.by(agent):
        if not chains or message.prompt_ids[: len(whole)] != whole:
            chains.append([])
        chains[-1].append(message)
        whole = message.prompt_ids + message.ids
    rows = []
    for chain in chains:
        found = [span for m in chain if (span := _span(d, discussion, m, paid)) is not None]
        if found:  # an agent speaks with one policy
            rows.append(Row(found[0].key.policy, chain[-1].prompt_ids + chain[-1].ids, found))
    return rows


def _branches(d: int, discussion: Discussion, agent: int, paid: Mapping[Place, Pay]) -> list[Row]:
    """One agent's candidates that the discussion did not go on with, a row each."""
    rows = []
    for message in discussion.everything():
        if message.agent == agent and not message.chosen:
            span = _span(d, discussion, message, paid)
            if span is not None:
                rows.append(Row(span.key.policy, message.prompt_ids + message.ids, [span]))
    return rows


def _span(
    d: int, discussion: Discussion, message: Message, paid: Mapping[Place, Pay]
) -> Span | None:
    """The trained message at the end of its prompt; None where no policy wrote a token of it."""
    if message.policy is None or not message.ids:
        return None
    place = Place(d, message.turn, message.agent, message.branch)
    start = len(message.prompt_ids)
    return Span(
        start,
        start + len(message.ids),
        MessageKey(place, discussion.problem.id, message.policy, discussion.sample, message.phase),
        paid[place].total,
        message.logprobs,
    )


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
