"""What is told of one training step beside answers: pay, speed, memory, and what went wrong.

In: rewards, rows and seconds per phase; messages.  Out: metrics by name; words for the log.
Neighbours: ``train`` stores them, ``session`` says them.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from maporl_core.judging.metrics import outgrown
from maporl_core.learning.packing import Row
from maporl_core.types import Discussion, Part, Pay, Place


def reward_metrics(paid: Mapping[Place, Pay], parts: Sequence[Part]) -> dict[str, float]:
    """Mean of every declared part and of the total over all messages, and the total per turn."""
    metrics = {
        f"reward/{part.name}": float(np.mean([pay.parts[part.name] for pay in paid.values()]))
        for part in parts
    }
    metrics["reward/total"] = float(np.mean([pay.total for pay in paid.values()]))
    for t in sorted({place.turn for place in paid}):
        totals = [pay.total for place, pay in paid.items() if place.turn == t]
        metrics[f"reward/turn_{t + 1}"] = float(np.mean(totals))
    return metrics


def speed_metrics(
    discussions: Sequence[Discussion],
    rows: Sequence[Row],
    epochs: int,
    seconds: Mapping[str, float],
) -> dict[str, float]:
    """Seconds per phase; sampled tokens per second of rollout; row tokens per second of update.

    The update reads every row once without and ``epochs`` times with gradients by the policy, and
    once by the reference; row tokens are counted once per gradient epoch.
    """
    sampled = sum(len(m.ids) for d in discussions for row in d.messages for m in row)
    read = sum(len(row.ids) for row in rows) * epochs
    metrics = {f"time/{name}": value for name, value in seconds.items()}
    metrics["speed/rollout_tokens_per_second"] = sampled / max(seconds["rollout"], 1e-9)
    metrics["speed/update_tokens_per_second"] = read / max(seconds["update"], 1e-9)
    metrics["tokens/sampled"] = float(sampled)
    metrics["tokens/trained"] = float(sum(row.tokens for row in rows))
    return metrics


def memory_metrics() -> dict[str, float]:
    """Peak resident memory of the process and peak memory of the GPU, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    metrics = {"memory/peak_resident": float(peak)}
    if torch.cuda.is_available():
        metrics["memory/peak_gpu"] = float(torch.cuda.max_memory_allocated())
    return metrics


def out_of_context(
    discussions: Sequence[Discussion], turns: int, keys: Sequence[int] = (), most: int = 5
) -> str | None:
    """A line on the discussions that ended before ``turns`` for want of context; None without any.

    ``keys``: their ids in the store, named where they are given.
    """
    ended = outgrown(discussions, turns)
    if not ended:
        return None
    named = [f"discussion {keys[d]} after turn {discussions[d].turns}" for d in ended if keys]
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return (
        f"{len(ended)} of {len(discussions)} discussions ended early, the next turn did not fit "
        "the context window (discussion.max_context)"
        + (f": {', '.join(named[:most])}{more}" if named else "")
    )


def not_finite(
    places: Sequence[Place], discussions: Sequence[Discussion], keys: Sequence[int]
) -> str:
    """A line on an update that was not applied, with the messages that spoiled it."""
    return (
        "loss, gradient, reward or log-probability not finite, update not applied: "
        + named_messages(places, discussions, keys)
    )


def named_messages(
    places: Sequence[Place],
    discussions: Sequence[Discussion],
    keys: Sequence[int],
    most: int = 5,
) -> str:
    """Messages as a person finds them again.

    ``keys`` are the ids of the discussions in the store.
    """
    named = ", ".join(
        f"discussion {keys[at.discussion]} (problem {discussions[at.discussion].problem.id}) "
        f"turn {at.turn + 1} {discussions[at.discussion].agents[at.agent]}"
        for at in places[:most]
    )
    return named + (f" and {len(places) - most} more" if len(places) > most else "")
