"""What a built-in model must be able to do before it may be shipped, measured on held-out numbers.

In: a network and its codec.  Out: Measures, and the names of the gates they fail.
Neighbour: ``build`` refuses to save a model that fails.

Agents of one base discuss problems of the split "test" under the noisy verifier, as at the start
of a co-training run.  Each problem is held twice, once per hidden reading, from the same first
turn: the question cannot tell the two apart, and so chance does not tilt the accuracies.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import LlamaForCausalLM

from maporl_core.models.chat_codec import ChatCodec
from maporl_core.rollout.prompts import STYLES, Seen, score_digit
from maporl_core.runs.pocket.lessons import NOISY_SCORE
from maporl_core.runs.pocket.tokenizer import TRUST_ROLE
from maporl_core.tasks.pocket import Numbers, PocketTask, draw_numbers, draw_question

AGENTS = ("Ada", "Bo", "Cy")
TURNS = 3
_NEW_TOKENS = 16
_ROWS = 512  # generated at once


@dataclass(frozen=True, slots=True)
class Measures:
    """Shares of messages in [0, 1], of three agents and three turns.

    ``accuracy`` and ``greedy_accuracy`` are per turn.  ``well_formed``: give an answer and end.
    ``arithmetic`` (sampled) and ``greedy_arithmetic``: worked out right, of those that name one of
    the two readings.  ``copied``: worked out right, of later messages whose agent saw nothing but
    right workings.  ``followed``: take the reading with the best score, of later messages whose
    agent saw both readings, their best scores at least two digits apart; ``told_followed`` and
    ``told_accuracy`` are of agents with the role to trust scores.
    """

    accuracy: tuple[float, ...]
    greedy_accuracy: tuple[float, ...]
    told_accuracy: tuple[float, ...]
    well_formed: float
    arithmetic: float
    greedy_arithmetic: float
    copied: float
    followed: float
    told_followed: float


def failures(measures: Measures) -> tuple[str, ...]:
    """One line per gate that is not passed."""
    spread = max(measures.accuracy) - min(measures.accuracy)
    gates = (
        ("turn-1 accuracy", measures.accuracy[0], 0.47, 0.53),
        ("accuracy over turns, highest - lowest", spread, 0.0, 0.03),
        ("well-formed messages", measures.well_formed, 0.98, 1.0),
        ("right arithmetic, sampled", measures.arithmetic, 0.95, 1.0),
        ("right arithmetic, greedy", measures.greedy_arithmetic, 0.97, 1.0),
        ("right copies", measures.copied, 0.95, 1.0),
        ("best score followed when told to", measures.told_followed, 0.9, 1.0),
    )
    return tuple(
        f"{name} {value:.3f} is not in {low:g} … {high:g}"
        for name, value, low, high in gates
        if not low <= value <= high
    )


@dataclass(slots=True)
class _Thread:
    """One agent in one discussion: ids so far and what it said, turn by turn."""

    numbers: Numbers
    true: int
    ids: list[int]
    said: list[str]
    ended: list[bool]


def measure(network: LlamaForCausalLM, codec: ChatCodec, questions: int, seed: int) -> Measures:
    """Hold ``questions`` problems twice at temperature 1, a quarter with the role or greedily."""
    few = max(1, questions // 4)
    sampled, scores = _discuss(network, codec, questions, seed)
    told, told_scores = _discuss(network, codec, few, seed, role=TRUST_ROLE)
    greedy, _ = _discuss(network, codec, few, seed, sample=False)
    threads = [thread for table in sampled for thread in table]
    verdicts = [_arithmetic(thread, turn) for thread in threads for turn in range(TURNS)]
    greedy_verdicts = [
        _arithmetic(thread, turn) for table in greedy for thread in table for turn in range(TURNS)
    ]
    task = PocketTask()
    formed = [
        ended and task.extract(said) is not None
        for thread in threads
        for said, ended in zip(thread.said, thread.ended, strict=True)
    ]
    return Measures(
        accuracy=_accuracy(sampled),
        greedy_accuracy=_accuracy(greedy),
        told_accuracy=_accuracy(told),
        well_formed=_mean(formed),
        arithmetic=_mean([verdict for verdict in verdicts if verdict is not None]),
        greedy_arithmetic=_mean([verdict for verdict in greedy_verdicts if verdict is not None]),
        copied=_mean(_copies(sampled)),
        followed=_mean(_follows(sampled, scores)),
        told_followed=_mean(_follows(told, told_scores)),
    )


def _discuss(
    network: LlamaForCausalLM,
    codec: ChatCodec,
    questions: int,
    seed: int,
    role: str = "",
    sample: bool = True,
) -> tuple[list[list[_Thread]], list[list[list[float]]]]:
    """Tables of threads [2 · questions][A], and the scores shown [2 · questions][T − 1][A]."""
    rng = random.Random(f"pocket/gates/{seed}")
    opened: list[list[_Thread]] = []
    for _ in range(questions):
        numbers = draw_numbers(rng, "test")
        ids = codec.opening_ids(role, draw_question(rng, numbers))
        opened.append([_Thread(numbers, 0, list(ids), [], []) for _ in AGENTS])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _speak(network, codec, [thread for table in opened for thread in table], sample)
        tables = [
            [_Thread(t.numbers, true, [*t.ids], [*t.said], [*t.ended]) for t in table]
            for true in range(2)
            for table in opened
        ]
        scores: list[list[list[float]]] = [[] for _ in tables]
        for _ in range(1, TURNS):
            for table, shown in zip(tables, scores, strict=True):
                shown.append(_read_each_other(codec, table, rng))
            _speak(network, codec, [thread for table in tables for thread in table], sample)
    return tables, scores


def _read_each_other(codec: ChatCodec, table: Sequence[_Thread], rng: random.Random) -> list[float]:
    """Append the next prompt to every thread of a discussion; the scores that were shown."""
    scores = [min(1.0, max(0.0, rng.gauss(*NOISY_SCORE[_right(t, -1)]))) for t in table]
    seen = [
        Seen(name, thread.said[-1], score)
        for name, thread, score in zip(AGENTS, table, scores, strict=True)
    ]
    for own, thread in enumerate(table):
        text = STYLES["compact"].later(seen[own], [*seen[:own], *seen[own + 1 :]])
        thread.ids += codec.next_ids(thread.ids, text)
    return scores


@torch.no_grad()
def _speak(
    network: LlamaForCausalLM, codec: ChatCodec, threads: Sequence[_Thread], sample: bool
) -> None:
    """Let every thread's agent say its next message."""
    pad, end = codec.tokenizer.pad_token_id, codec.tokenizer.eos_token_id
    for start in range(0, len(threads), _ROWS):
        rows = threads[start : start + _ROWS]
        length = max(len(thread.ids) for thread in rows)
        ids = torch.full((len(rows), length), pad)
        mask = torch.zeros(len(rows), length, dtype=torch.long)
        for index, thread in enumerate(rows):
            ids[index, length - len(thread.ids) :] = torch.tensor(thread.ids)
            mask[index, length - len(thread.ids) :] = 1
        out = network.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=_NEW_TOKENS,
            do_sample=sample,
            top_k=0 if sample else None,
            pad_token_id=pad,
            eos_token_id=end,
        )
        for thread, said in zip(rows, out[:, length:].tolist(), strict=True):
            ended = end in said
            said = said[: said.index(end) + 1] if ended else said
            thread.ids += said
            thread.said.append(codec.decode(said).strip())
            thread.ended.append(ended)


def _right(thread: _Thread, turn: int) -> bool:
    return PocketTask().extract(thread.said[turn]) == str(thread.numbers.result(thread.true))


def _arithmetic(thread: _Thread, turn: int) -> bool | None:
    """Whether the reading named first is worked out right; None if it is neither of the two."""
    read = thread.said[turn].partition(":")[0]
    numbers = thread.numbers
    for reading, triple in enumerate(numbers.triples):
        if read == str(triple[numbers.smudged]):
            return thread.said[turn] == numbers.worked(reading)
    return None


def _accuracy(tables: Sequence[Sequence[_Thread]]) -> tuple[float, ...]:
    return tuple(
        _mean([_right(thread, turn) for table in tables for thread in table])
        for turn in range(TURNS)
    )


def _copies(tables: Sequence[Sequence[_Thread]]) -> list[bool]:
    return [
        bool(_arithmetic(thread, turn))
        for table in tables
        for turn in range(1, TURNS)
        if all(_arithmetic(seen, turn - 1) for seen in table)
        for thread in table
    ]


def _follows(
    tables: Sequence[Sequence[_Thread]], scores: Sequence[Sequence[Sequence[float]]]
) -> list[bool]:
    follows = []
    for table, shown in zip(tables, scores, strict=True):
        for turn in range(1, TURNS):
            if not all(_arithmetic(seen, turn - 1) for seen in table):
                continue
            best: dict[str, int] = {}  # message → the best digit it was shown with
            for thread, score in zip(table, shown[turn - 1], strict=True):
                said = thread.said[turn - 1]
                best[said] = max(best.get(said, 0), score_digit(score))
            digits = sorted(best.values())
            if len(digits) == 2 and digits[1] - digits[0] >= 2:
                top = max(best, key=best.__getitem__)
                follows += [thread.said[turn] == top for thread in table]
    return follows


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
