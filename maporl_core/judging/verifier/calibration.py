"""How good scores are: discrimination, calibration, and one temperature that mends the latter.

In: scores or logits [M], labels [M] (True: right), and for some the question of each message.
Out: plain numbers.  Pure NumPy.  Neighbours: ``report`` puts them together, ``fit`` the scores.

AUROC is the chance that a right answer scores above a wrong one, equal scores counting one half.
*Within questions* it compares answers to the same question only, so a score that tells easy
questions from hard ones and nothing else has .5.  ECE follows Guo et al. (arXiv 1706.04599), which
also has temperature scaling; the bins of equal mass are those of Nguyen & O'Connor (D15-1182).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

BINS = 10
_COLDEST, _HOTTEST = 0.05, 20.0  # a temperature beyond these says that the scores are no use


@dataclass(frozen=True, slots=True)
class Bin:
    """Messages whose score lies from ``low`` to ``high``."""

    low: float
    high: float
    count: int
    mean_score: float
    share_right: float


@dataclass(frozen=True, slots=True)
class Within:
    """AUROC within questions: the mean over ``questions`` that have both right and wrong answers.

    ``low`` and ``high`` end the 95% bootstrap interval over questions; NaN without questions.
    """

    auroc: float
    low: float
    high: float
    questions: int


def sigmoid(logits: ArrayLike) -> Floats:
    """1 / (1 + e^−z), without overflow at either end."""
    z = np.asarray(logits, np.float64)
    e = np.exp(-np.abs(z))
    result: Floats = np.where(z >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
    return result


def auroc(scores: ArrayLike, labels: ArrayLike) -> float:
    """P(score of a right one > score of a wrong one) + ½ P(equal); NaN without both classes."""
    s, y = _pair(scores, labels)
    positives = int(y.sum())
    negatives = len(y) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    # The mean rank of equal scores: that of the first plus half of how many there are besides.
    _, place, counts = np.unique(s, return_inverse=True, return_counts=True)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    ranks = (first + (counts + 1) / 2.0)[place]
    wins = ranks[y].sum() - positives * (positives + 1) / 2.0
    return float(wins / (positives * negatives))


def within_auroc(
    scores: ArrayLike, labels: ArrayLike, questions: Sequence[str], seed: int = 0
) -> Within:
    """Mean over questions of the AUROC among their own answers."""
    s, y = _pair(scores, labels)
    places: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        places.setdefault(question, []).append(place)
    if sum(map(len, places.values())) != len(s):
        raise ValueError("one question per score is needed")
    found = np.array([auroc(s[p], y[p]) for p in places.values()], np.float64)
    found = found[~np.isnan(found)]
    if len(found) == 0:
        return Within(float("nan"), float("nan"), float("nan"), 0)
    rng = np.random.default_rng(seed)
    means = np.array([found[rng.integers(len(found), size=len(found))].mean() for _ in range(1000)])
    low, high = np.quantile(means, (0.025, 0.975))
    return Within(float(found.mean()), float(low), float(high), len(found))


def accuracy(scores: ArrayLike, labels: ArrayLike) -> float:
    """Share of messages on the right side of ½; a score of exactly ½ says "right"."""
    s, y = _pair(scores, labels)
    return float(np.mean((s >= 0.5) == y)) if len(s) else float("nan")


def brier(scores: ArrayLike, labels: ArrayLike) -> float:
    """Mean of (score − label)², in [0, 1]; .25 for a constant ½."""
    s, y = _pair(scores, labels)
    return float(np.mean((s - y) ** 2)) if len(s) else float("nan")


def log_loss(logits: ArrayLike, labels: ArrayLike) -> float:
    """Mean binary cross-entropy in nats of logits z: log(1 + e^z) − y·z."""
    z, y = _pair(logits, labels)
    return float(np.mean(np.logaddexp(0.0, z) - y * z)) if len(z) else float("nan")


def bins_of_equal_width(scores: ArrayLike, labels: ArrayLike, bins: int = BINS) -> list[Bin]:
    """[0, 1/n), [1/n, 2/n), …, the last one with 1; empty bins are left out."""
    s, y = _pair(scores, labels)
    place = np.minimum((s * bins).astype(np.int64), bins - 1)
    return [
        _bin(s[place == b], y[place == b], b / bins, (b + 1) / bins)
        for b in range(bins)
        if bool((place == b).any())
    ]


def bins_of_equal_mass(scores: ArrayLike, labels: ArrayLike, bins: int = BINS) -> list[Bin]:
    """About as many messages in each bin; messages of equal score are never parted."""
    s, y = _pair(scores, labels)
    order = np.argsort(s, kind="stable")
    s, y = s[order], y[order]
    ends: list[int] = []
    for b in range(1, bins + 1):
        end = len(s) * b // bins
        while 0 < end < len(s) and s[end] == s[end - 1]:
            end += 1
        if end > (ends[-1] if ends else 0):
            ends.append(end)
    starts = [0, *ends[:-1]]
    return [
        _bin(s[a:b], y[a:b], float(s[a]), float(s[b - 1]))
        for a, b in zip(starts, ends, strict=True)
    ]


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """Σ (n_b / n) · |mean score − share right|; NaN without messages."""
    total = sum(b.count for b in bins)
    if total == 0:
        return float("nan")
    return sum(b.count * abs(b.mean_score - b.share_right) for b in bins) / total


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """The T in [0.05, 20] for which σ(z / T) has the least cross-entropy.

    The loss is convex in β = 1/T with slope Σ z·(σ(βz) − y), so its zero is found by bisection.
    1 where there is nothing to fit: no messages, or logits that are all 0.
    """
    z, y = _pair(logits, labels)
    if len(z) == 0 or not bool(np.any(z)):
        return 1.0

    def slope(beta: float) -> float:
        return float(np.dot(z, sigmoid(beta * z) - y))

    low, high = 1.0 / _HOTTEST, 1.0 / _COLDEST
    if slope(low) >= 0.0:
        return _HOTTEST
    if slope(high) <= 0.0:
        return _COLDEST
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return float(1.0 / (low * high) ** 0.5)


def _bin(scores: Floats, labels: NDArray[np.bool_], low: float, high: float) -> Bin:
    return Bin(low, high, len(scores), float(scores.mean()), float(labels.mean()))


def _pair(values: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Raises ValueError for lengths that differ or values that are not finite."""
    v, y = np.asarray(values, np.float64), np.asarray(labels, np.bool_)
    if v.ndim != 1 or v.shape != y.shape:
        raise ValueError(f"scores {v.shape} and labels {y.shape} must be two rows of one length")
    if not bool(np.isfinite(v).all()):
        raise ValueError("a score is not finite")
    return v, y
