"""What a set of discussions shows: accuracy, votes, agreement, who changed whose mind.

In: Discussions with graded messages.  Out: plain numbers.  Neighbours: ``train`` stores them every
step, ``evaluate`` puts intervals around them.  A problem whose discussion stopped early (consensus)
counts with its last turn in every later turn.  Problems without a gold answer are left out of
everything that needs correctness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from maporl_core.types import Discussion, Message, Problem

Same = Callable[[str, str, Problem], bool]

VERDICTS = ("others right", "others wrong", "others tied", "no others")


def correctness_QTA(discussions: Sequence[Discussion], turns: int) -> NDArray[np.float64]:
    """1.0 right, 0.0 wrong, NaN unknown; shape [Q, T, A], early stops carried forward."""
    agents = len(discussions[0].agents) if discussions else 0
    table = np.full((len(discussions), turns, agents), np.nan)
    for q, discussion in enumerate(discussions):
        for t in range(turns):
            row = discussion.messages[min(t, discussion.turns - 1)]
            for a, message in enumerate(row):
                if message.correct is not None:
                    table[q, t, a] = float(message.correct)
    return table


def outgrown(discussions: Sequence[Discussion], turns: int) -> list[int]:
    """Indices of those that ended before ``turns`` because the next one did not fit the context."""
    return [q for q, d in enumerate(discussions) if not d.stopped_early and d.turns < turns]


def groups(row: Sequence[Message], problem: Problem, same: Same) -> list[list[Message]]:
    """Messages of one turn that gave the same answer, largest group first; no-answers left out."""
    found: list[list[Message]] = []
    for message in row:
        if message.answer is None:
            continue
        for group in found:
            first = group[0].answer
            assert first is not None
            if same(first, message.answer, problem):
                group.append(message)
                break
        else:
            found.append([message])
    return sorted(found, key=len, reverse=True)


def majority_right(row: Sequence[Message], problem: Problem, same: Same) -> float:
    """Chance that the vote of one turn is right: 1 or 0; equal first places share by chance."""
    found = groups(row, problem, same)
    if not found:
        return 0.0
    if any(message.correct is None for message in row):
        return float("nan")
    first = [group for group in found if len(group) == len(found[0])]
    return sum(float(bool(group[0].correct)) for group in first) / len(first)


def votes_QT(discussions: Sequence[Discussion], turns: int, same: Same) -> NDArray[np.float64]:
    """``majority_right`` per problem and turn, shape [Q, T]."""
    table = np.empty((len(discussions), turns))
    for q, discussion in enumerate(discussions):
        held = [majority_right(row, discussion.problem, same) for row in discussion.messages]
        table[q] = [held[min(t, discussion.turns - 1)] for t in range(turns)]
    return table


def agreement_T(discussions: Sequence[Discussion], turns: int, same: Same) -> list[float]:
    """Share of problems per turn on which all agents gave the same answer."""
    agreed = np.zeros(turns)
    for discussion in discussions:
        for t in range(turns):
            row = discussion.messages[min(t, discussion.turns - 1)]
            found = groups(row, discussion.problem, same)
            agreed[t] += bool(found) and len(found[0]) == len(row)
    return [float(share) for share in agreed / max(1, len(discussions))]


def others_verdict(row: Sequence[Message], agent: int) -> str:
    """Majority verdict of the other agents of one turn (method: M(t, a))."""
    others = [bool(m.correct) for m in row if m.agent != agent]
    if not others:
        return "no others"
    right = sum(others)
    if 2 * right == len(others):
        return "others tied"
    return "others right" if 2 * right > len(others) else "others wrong"


def transitions(discussions: Sequence[Discussion]) -> dict[str, int]:
    """Counts of "wrong→right | others right" and kin over all agents and held turns ≥ 2."""
    counts: Counter[str] = Counter()
    for discussion in discussions:
        for before, after in zip(discussion.messages, discussion.messages[1:], strict=False):
            for old, new in zip(before, after, strict=True):
                if old.correct is None or new.correct is None:
                    continue
                change = f"{_word(old.correct)}→{_word(new.correct)}"
                counts[f"{change} | {others_verdict(before, old.agent)}"] += 1
    return dict(sorted(counts.items()))


def _word(correct: bool) -> str:
    return "right" if correct else "wrong"


def step_metrics(discussions: Sequence[Discussion], turns: int, same: Same) -> Mapping[str, float]:
    """Everything a training step keeps about its discussions, by metric name."""
    metrics: dict[str, float] = {}
    correct = correctness_QTA(discussions, turns)
    known = correct[~np.isnan(correct).any(axis=(1, 2))]
    agents = discussions[0].agents
    if len(known):
        majority = votes_QT(discussions, turns, same)
        majority = majority[~np.isnan(majority).any(axis=1)]
        for t in range(turns):
            metrics[f"accuracy/turn_{t + 1}"] = float(known[:, t].mean())
            metrics[f"oracle/turn_{t + 1}"] = float(known[:, t].max(axis=1).mean())
            if len(majority):
                metrics[f"majority/turn_{t + 1}"] = float(majority[:, t].mean())
            for a, name in enumerate(agents):
                metrics[f"accuracy/{name}/turn_{t + 1}"] = float(known[:, t, a].mean())
    for t, share in enumerate(agreement_T(discussions, turns, same)):
        metrics[f"agreement/turn_{t + 1}"] = share
    counts = transitions(discussions)
    for change in ("wrong→right", "right→wrong"):
        for verdict in VERDICTS[:3]:
            key = f"{change} | {verdict}"
            ascii_key = key.replace("→", "_to_").replace(" | ", "/").replace(" ", "_")
            metrics[f"transitions/{ascii_key}"] = float(counts.get(key, 0))
    messages = [m for d in discussions for row in d.messages for m in row]
    metrics["messages/count"] = float(len(messages))
    metrics["messages/length"] = float(np.mean([len(m.ids) for m in messages]))
    metrics["messages/unfinished"] = float(np.mean([m.finish == "length" for m in messages]))
    metrics["messages/unparsable"] = float(np.mean([m.answer is None for m in messages]))
    metrics["messages/dropped_context"] = float(np.sum([m.dropped_context for m in messages]))
    scores = [m.score for m in messages if m.score is not None]
    if scores:
        metrics["verifier/score"] = float(np.mean(scores))
    metrics["discussions/stopped_early"] = float(np.mean([d.stopped_early for d in discussions]))
    metrics["discussions/out_of_context"] = len(outgrown(discussions, turns)) / len(discussions)
    metrics["discussions/turns"] = float(np.mean([d.turns for d in discussions]))
    return metrics
