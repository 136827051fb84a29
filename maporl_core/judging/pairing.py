"""Two policies on the same questions: who changed, by how much, and whether it could be chance.

In: correctness tables of two evaluations, by question; summaries to choose two from.  Out: a
``Pairing``; which two belong together, and in what they differ.  Pure: no store, no torch.
Neighbours: ``evaluate`` reports the gain of a run with it, ``maporl compare`` and the app's
Compare screen hold any two evaluations side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from maporl_core.types import EvalSummary, Interval

RESAMPLES = 2_000
"""Bootstrap resamples over questions behind every 95% interval."""

_CHUNK = 200_000  # questions drawn at once: bounds memory

CONDITIONS = ("task", "split", "questions", "temperature", "seed")
"""Two evaluations that agree in these differ by their policies alone."""

Correct_TA = Sequence[Sequence[bool | None]]
"""Verdicts of one discussion, [T][A]; None where there is no gold answer."""


@dataclass(frozen=True, slots=True)
class Flips:
    """How the team's verdict of one turn changed from before to after, in questions.

    The team is right when more than half of its agents are.  ``p`` is the two-sided p-value of the
    exact McNemar test: the chance of a split of the changed questions at least as uneven as this
    one if a change in either direction were equally likely; 1 when nothing changed.
    """

    both_right: int
    both_wrong: int
    gained: int  # wrong before, right after
    lost: int  # right before, wrong after

    @property
    def p(self) -> float:
        return mcnemar_p(self.gained, self.lost)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two evaluations, question by question; T is the larger number of turns.

    ``problems`` were asked in both and have known verdicts, in the order of ``before``.
    ``unpaired`` counts questions of either side that the other lacks, ``unknown`` those without a
    gold answer.  ``before_T``, ``after_T``: accuracy, mean over agents; ``gain_T``: their
    difference, paired per question; all with 95% bootstrap intervals over questions.
    """

    problems: tuple[str, ...]
    unpaired: int
    unknown: int
    before_T: tuple[Interval, ...]
    after_T: tuple[Interval, ...]
    gain_T: tuple[Interval, ...]
    flips_T: tuple[Flips, ...]


def pair(
    before: Mapping[str, Correct_TA], after: Mapping[str, Correct_TA], seed: int = 0
) -> Pairing:
    """Compare two evaluations by the ids of their questions.

    A discussion that ended early counts with its last turn in every later one.  The two sides may
    have different numbers of agents and turns.
    """
    asked = [problem for problem in before if problem in after]
    shared = [p for p in asked if _is_known(before[p]) and _is_known(after[p])]
    turns = max([len(table[p]) for table in (before, after) for p in shared], default=0)
    old, new = (
        np.array([accuracy_T(table[p], turns) for p in shared]).reshape(len(shared), turns)
        for table in (before, after)
    )
    # One set of resamples for all three: drawing them is most of the work.
    intervals = bootstrap_T(np.hstack([old, new, new - old]), seed)
    return Pairing(
        problems=tuple(shared),
        unpaired=len(before) + len(after) - 2 * len(asked),
        unknown=len(asked) - len(shared),
        before_T=intervals[:turns],
        after_T=intervals[turns : 2 * turns],
        gain_T=intervals[2 * turns :],
        flips_T=tuple(_flips(old[:, t] > 0.5, new[:, t] > 0.5) for t in range(turns)),
    )


class Asked(Protocol):
    """One question of an evaluation and how it went."""

    @property
    def problem_id(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def correct_TA(self) -> Correct_TA: ...


AskedT = TypeVar("AskedT", bound=Asked)


def by_question(asked: Iterable[AskedT]) -> dict[str, AskedT]:
    """Questions by id and text: an id alone may mean another question in other data."""
    return {f"{one.problem_id}\n{one.question}": one for one in asked}


def own_pair(stored: Sequence[EvalSummary]) -> tuple[int, int] | None:
    """Places of "before" and "after" among the evaluations of one run, oldest first.

    The run's own labels are preferred to other evaluations of untrained and trained agents; see
    ``newest_pair``.  None when one of the two sorts is missing.
    """
    base = [i for i, one in enumerate(stored) if one.policy_state == "base"]
    trained = [i for i, one in enumerate(stored) if one.policy_state != "base"]
    labelled = (
        [i for i in base if stored[i].label == "before"],
        [i for i in trained if stored[i].label == "after"],
    )
    for befores, afters in (labelled, (base, trained)):
        found = newest_pair([stored[i] for i in befores], [stored[i] for i in afters])
        if found is not None:
            return befores[found[0]], afters[found[1]]
    return None


def newest_pair(
    befores: Sequence[EvalSummary], afters: Sequence[EvalSummary]
) -> tuple[int, int] | None:
    """Places of the newest two under the same conditions, else of the same task and split.

    Both are oldest first; the newest ``after`` that has a partner wins.
    """
    for conditions in (CONDITIONS, ("task", "split")):
        for late in reversed(range(len(afters))):
            for early in reversed(range(len(befores))):
                if _agree(befores[early], afters[late], conditions):
                    return early, late
    return None


def differences(before: EvalSummary, after: EvalSummary) -> tuple[str, ...]:
    """In what two evaluations differ beside their policies, such as "temperature 1 | 0"."""
    found = [
        f"{name} {_shown(before, name)} | {_shown(after, name)}"
        for name in (*CONDITIONS, "agents")
        if getattr(before, name) != getattr(after, name)
    ]
    turns = len(before.accuracy_T), len(after.accuracy_T)
    if turns[0] != turns[1]:
        found.append(f"turns {turns[0]} | {turns[1]}")
    return tuple(found)


def team_right(correct_TA: Correct_TA, turn: int = -1) -> bool | None:
    """Whether more than half of the agents are right in a turn; None where that is unknown.

    A discussion that ended early counts with its last turn in every later one.
    """
    if not _is_known(correct_TA):
        return None
    row = correct_TA[min(turn, len(correct_TA) - 1)]
    return 2 * sum(map(bool, row)) > len(row)


def accuracy_T(correct_TA: Correct_TA, turns: int) -> NDArray[np.float64]:
    """Mean correctness over agents per turn, [T]; NaN where unknown; early stops carried on."""
    rows = [correct_TA[min(t, len(correct_TA) - 1)] for t in range(turns)]
    return np.array([sum(np.nan if c is None else c for c in row) / len(row) for row in rows])


def bootstrap_T(values_QT: NDArray[np.float64], seed: int) -> tuple[Interval, ...]:
    """Mean per turn with a 95% percentile interval from resampling questions; NaN if none."""
    questions, turns = len(values_QT), int(values_QT.shape[1])
    if questions == 0:
        return (Interval(float("nan"), float("nan"), float("nan")),) * turns
    rng = np.random.default_rng(seed)
    means = np.empty((RESAMPLES, turns))
    chunk = max(1, _CHUNK // questions)
    for start in range(0, RESAMPLES, chunk):
        drawn = rng.integers(0, questions, (min(chunk, RESAMPLES - start), questions))
        means[start : start + len(drawn)] = values_QT[drawn].mean(axis=1)
    low = np.percentile(means, 2.5, axis=0)
    high = np.percentile(means, 97.5, axis=0)
    return tuple(
        Interval(float(m), float(lo), float(hi))
        for m, lo, hi in zip(values_QT.mean(axis=0), low, high, strict=True)
    )


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact McNemar test: min(1, 2 · P(X ≤ min)), X ~ Binomial(gained + lost, 1/2).

    Source: McNemar (1947), in the exact binomial form.  Computed with logarithms, so that any
    number of questions fits.
    """
    changed, fewer = gained + lost, min(gained, lost)
    if changed == 0:
        return 1.0
    logs = [
        math.lgamma(changed + 1) - math.lgamma(k + 1) - math.lgamma(changed - k + 1)
        for k in range(fewer + 1)
    ]
    top = max(logs)
    tail = math.exp(top - changed * math.log(2)) * math.fsum(math.exp(x - top) for x in logs)
    return min(1.0, 2.0 * tail)


def _flips(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Flips:
    return Flips(
        both_right=int((before & after).sum()),
        both_wrong=int((~before & ~after).sum()),
        gained=int((~before & after).sum()),
        lost=int((before & ~after).sum()),
    )


def _is_known(correct_TA: Correct_TA) -> bool:
    return bool(correct_TA) and all(c is not None for row in correct_TA for c in row)


def _agree(a: EvalSummary, b: EvalSummary, names: Sequence[str]) -> bool:
    return all(getattr(a, name) == getattr(b, name) for name in names)


def _shown(summary: EvalSummary, name: str) -> str:
    value = getattr(summary, name)
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
