"""What a fitted verifier is worth: every figure of its card, from logits and labels.

In: logits of examples, the examples, a temperature.  Out: plain dicts for ``card.json``.
Neighbours: ``calibration`` has the formulas, ``pages`` the words and the picture, ``fitting``
asks for a report on the held-out questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maporl_core.judging.verifier import calibration as cal
from maporl_core.judging.verifier.data import Example, difficulty_name


def measure(
    logits: NDArray[np.float64], examples: Sequence[Example], temperature: float
) -> dict[str, Any]:
    """All figures of one split.  A figure that does not exist (no such answers) is None."""
    labels = [example.label for example in examples]
    questions = [example.question_id for example in examples]
    scores = cal.sigmoid(logits / temperature)
    within = cal.within_auroc(logits, labels, questions)
    report = {
        "questions": len(set(questions)),
        "answers": len(examples),
        "share_right": _mean(labels),
        "auroc": cal.auroc(logits, labels),
        "auroc_within_questions": within.auroc,
        "auroc_within_questions_interval": [within.low, within.high],
        "questions_with_both": within.questions,
        "accuracy": cal.accuracy(scores, labels),
        "log_loss": cal.log_loss(logits / temperature, labels),
        **_calibrated("", scores, labels),
        **_calibrated("_before_temperature", cal.sigmoid(logits), labels),
        "reliability": [asdict(b) for b in cal.bins_of_equal_width(scores, labels)],
        "by_difficulty": _by_difficulty(logits, scores, examples),
    }
    return {key: _finite(value) for key, value in report.items()}


def _calibrated(end: str, scores: NDArray[np.float64], labels: Sequence[bool]) -> dict[str, float]:
    width = cal.bins_of_equal_width(scores, labels)
    mass = cal.bins_of_equal_mass(scores, labels)
    return {
        f"brier{end}": cal.brier(scores, labels),
        f"ece{end}": cal.expected_calibration_error(width),
        f"ece_equal_mass{end}": cal.expected_calibration_error(mass),
    }


def _by_difficulty(
    logits: NDArray[np.float64], scores: NDArray[np.float64], examples: Sequence[Example]
) -> dict[str, Any]:
    """Figures by the share of right answers that the question had when it was sampled."""
    groups: dict[str, list[int]] = {}
    for place, example in enumerate(examples):
        groups.setdefault(difficulty_name(example.difficulty), []).append(place)
    found = {}
    for name, places in sorted(groups.items()):
        labels = [examples[place].label for place in places]
        own = [examples[place].question_id for place in places]
        found[name] = {
            "answers": len(places),
            "share_right": _mean(labels),
            "auroc": cal.auroc(logits[places], labels),
            "auroc_within_questions": cal.within_auroc(logits[places], labels, own).auroc,
            "accuracy": cal.accuracy(scores[places], labels),
        }
    return found


def ablation(logits: NDArray[np.float64], examples: Sequence[Example]) -> dict[str, Any]:
    """AUROC of logits that were made with a part of the input taken away."""
    labels = [example.label for example in examples]
    within = cal.within_auroc(logits, labels, [example.question_id for example in examples])
    found = {"auroc": cal.auroc(logits, labels), "auroc_within_questions": within.auroc}
    return {key: _finite(value) for key, value in found.items()}


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _finite(value: Any) -> Any:
    """NaN as None, through dicts and lists: a card is strict JSON."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
