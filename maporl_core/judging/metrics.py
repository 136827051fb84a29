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
    """1.0 right, 0.0 wrong; shape [Q, T, A].  Agents stand at what they last said.

    NaN where an agent has not spoken yet or no gold answer tells; early stops are carried forward.
    """
    agents = len(discussions[0].agents) if discussions else 0
    table = np.full((len(discussions), turns, agents), np.nan)
    for q, discussion in enumerate(discussions):
        for t in range(turns):
            for message in discussion.standing(t):
                if message.correct is not None:
                    table[q, t, message.agent] = float(message.correct)
    return table


def known_QTA(discussions: Sequence[Discussion], turns: int) -> NDArray[np.float64]:
    """``correctness_QTA`` of the questions whose every message has a verdict: NaN is not spoken."""
    known = [
        all(message.correct is not None for t in range(d.turns) for message in d.said(t))
        for d in discussions
    ]
    table = correctness_QTA(discussions, turns)
    return np.asarray(table[np.array(known, dtype=bool)])


def over_agents_QT(known_QTA: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the agents that have spoken by each turn."""
    return np.asarray(np.nanmean(known_QTA, axis=2))


def spoken_mean(values: NDArray[np.float64]) -> float:
    """Mean over those that have spoken; NaN if none has."""
    spoken = values[~np.isnan(values)]
    return float(spoken.mean()) if spoken.size else float("nan")


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
        held = [
            majority_right(discussion.standing(t), discussion.problem, same)
            for t in range(discussion.turns)
        ]
        table[q] = [held[min(t, discussion.turns - 1)] for t in range(turns)]
    return table


def agreement_T(discussions: Sequence[Discussion], turns: int, same: Same) -> list[float]:
    """Share of problems per turn on which all agents gave the same answer."""
    agreed = np.zeros(turns)
    for discussion in discussions:
        for t in range(turns):
            row = discussion.standing(t)
            found = groups(row, discussion.problem, same)
            agreed[t] += bool(found) and len(found[0]) == len(row)
    return [float(share) for share in agreed / max(1, len(discussions))]


def others_verdict(row: Sequence[Message], agent: int) -> str:
    """Majority verdict of the other agents as they stand (method: M(t, a))."""
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
        for t in range(1, discussion.turns):
            before = discussion.standing(t - 1)
            stood = {message.agent: message for message in before}
            for new in discussion.said(t):
                old = stood.get(new.agent)
                if old is None or old.correct is None or new.correct is None:
                    continue
                change = f"{_word(old.correct)}→{_word(new.correct)}"
                counts[f"{change} | {others_verdict(before, old.agent)}"] += 1
    return dict(sorted(counts.items()))


def _word(correct: bool) -> str:
    return "right" if correct else "wrong"


def step_metrics(discussions: Sequence[Discussion], turns: int, same: Same) -> Mapping[str, float]:
    """Everything a training step keeps about its discussions, by metric name."""
    metrics: dict[str, float] = {}
    known = known_QTA(discussions, turns)
    agents = discussions[0].agents
    if len(known):
        majority = votes_QT(discussions, turns, same)
        majority = majority[~np.isnan(majority).any(axis=1)]
        for t in range(turns):
            metrics[f"accuracy/turn_{t + 1}"] = spoken_mean(known[:, t])
            metrics[f"oracle/turn_{t + 1}"] = float(np.nanmax(known[:, t], axis=1).mean())
            if len(majority):
                metrics[f"majority/turn_{t + 1}"] = float(majority[:, t].mean())
            for a, name in enumerate(agents):
                if not np.isnan(known[:, t, a]).all():
                    metrics[f"accuracy/{name}/turn_{t + 1}"] = spoken_mean(known[:, t, a])
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
