"""Held-out evaluation: the same questions and seeds for every policy, with intervals.

In: an ``Assembly`` and whose words to use (the bare base, or the adapters as they are).  Out: an
``EvalSummary`` and the discussions themselves, so that two policies can be compared pair by pair.
Neighbours: ``train`` calls it around and during a run, ``cli`` for ``maporl eval``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maporl_core.assembly import Assembly
from maporl_core.discussion import Listeners
from maporl_core.metrics import agreement_T, correctness_QTA, transitions, votes_QT
from maporl_core.progress import Progress
from maporl_core.types import Discussion, EvalSummary, Interval, PairedGain, Problem

RESAMPLES = 2_000
"""Bootstrap resamples over questions behind every 95% interval."""


def evaluate(
    assembly: Assembly,
    problems: Sequence[Problem],
    *,
    label: str,
    policy_state: str,
    temperature: float,
    seed: int,
    progress: Progress,
) -> tuple[EvalSummary, list[Discussion]]:
    """Hold one discussion per problem and sum up.

    ``policy_state`` "base" lets the bare base speak in every turn; anything else uses the adapters
    as they are now.  Seeds depend on ``seed`` and a problem's place only: two calls with the same
    problems differ by the policies alone.
    """
    started = time.perf_counter()
    turns, agents = assembly.config.discussion.turns, len(assembly.speakers)
    progress.stage(f"evaluating {label}", len(problems) * turns * agents)
    rules = assembly.rules(seed, temperature, untrained=policy_state == "base")
    discussions = assembly.hold(
        problems, range(len(problems)), rules, Listeners(turn=progress.advance)
    )
    summary = summarise(
        discussions,
        assembly,
        label=label,
        policy_state=policy_state,
        temperature=temperature,
        seed=seed,
        seconds=time.perf_counter() - started,
    )
    progress.evaluated(summary)
    return summary, discussions


def summarise(
    discussions: Sequence[Discussion],
    assembly: Assembly,
    *,
    label: str,
    policy_state: str,
    temperature: float,
    seed: int,
    seconds: float,
) -> EvalSummary:
    """Numbers of one evaluation; questions without a gold answer count in no accuracy."""
    turns = assembly.config.discussion.turns
    correct = _known(correctness_QTA(discussions, turns))
    votes = votes_QT(discussions, turns, assembly.same)
    votes = votes[~np.isnan(votes).any(axis=1)]
    messages = [m for d in discussions for row in d.messages for m in row]
    first = discussions[0]
    return EvalSummary(
        label=label,
        policy_state=policy_state,
        task=first.problem.task,
        split=first.problem.split,
        questions=len(discussions),
        agents=first.agents,
        temperature=temperature,
        seed=seed,
        accuracy_T=bootstrap_T(correct.mean(axis=2), seed),
        accuracy_TA=tuple(tuple(float(x) for x in row) for row in _mean(correct)),
        majority_T=bootstrap_T(votes, seed),
        oracle_T=tuple(float(x) for x in _mean(correct.max(axis=2, initial=0.0))),
        agreement_T=tuple(agreement_T(discussions, turns, assembly.same)),
        transitions=transitions(discussions),
        unparsable=float(np.mean([m.answer is None for m in messages])),
        unfinished=float(np.mean([m.finish == "length" for m in messages])),
        seconds=seconds,
    )


def paired_gain(
    before: tuple[EvalSummary, Sequence[Discussion]],
    after: tuple[EvalSummary, Sequence[Discussion]],
) -> PairedGain:
    """After minus before on the same questions, paired per question."""
    turns = len(before[0].accuracy_T)
    old = correctness_QTA(before[1], turns).mean(axis=2)
    new = correctness_QTA(after[1], turns).mean(axis=2)
    difference = new - old
    difference = difference[~np.isnan(difference).any(axis=1)]
    return PairedGain(before[0], after[0], bootstrap_T(difference, before[0].seed))


def bootstrap_T(values_QT: NDArray[np.float64], seed: int) -> tuple[Interval, ...]:
    """Mean per turn with a 95% percentile interval from resampling questions; NaN if none."""
    questions, turns = values_QT.shape
    if questions == 0:
        return (Interval(float("nan"), float("nan"), float("nan")),) * turns
    rng = np.random.default_rng(seed)
    means = np.empty((RESAMPLES, turns))
    for i in range(RESAMPLES):
        means[i] = values_QT[rng.integers(0, questions, questions)].mean(axis=0)
    low, high = np.percentile(means, (2.5, 97.5), axis=0)
    return tuple(
        Interval(float(m), float(lo), float(hi))
        for m, lo, hi in zip(values_QT.mean(axis=0), low, high, strict=True)
    )


def _known(correct_QTA: NDArray[np.float64]) -> NDArray[np.float64]:
    return correct_QTA[~np.isnan(correct_QTA).any(axis=(1, 2))]


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over questions; NaN (not a warning) when there are none."""
    return values.mean(axis=0) if len(values) else np.full(values.shape[1:], np.nan)
