"""Every figure in the card of a fitted verifier, computed once more from its scores."""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from maporl_core.config.schema import BaseModelConfig
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Example
from maporl_core.judging.verifier.fit import FitSettings
from maporl_core.kit.progress import Silent
from maporl_core.runs.verifier.fitting import fit_verifier, load_verifier

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Answers of which four in five show by their first number what they are, and a verifier."""
    root = tmp_path_factory.mktemp("figures")
    data, fitted = root / "data", root / "fitted"
    dice = random.Random(0)
    rows = []
    for n in range(150):
        split = ("train", "train", "train", "valid", "test")[n % 5]
        question = f"Mia has {dice.randint(2, 9)} pens, gets {dice.randint(2, 9)}. How many?"
        for label in (True, True, False, False):
            first = "8" if label ^ (dice.random() < 0.2) else "3"
            text = (
                f"{first}: {dice.randint(10, 40)} + {dice.randint(2, 9)} = {dice.randint(10, 40)}"
            )
            rows.append(Example(f"q{n}", question, text, label, split, "1", n / 150))
    files.write_examples(data / files.TABLE, rows)
    files.write_json(data / files.CARD, {"kind": "verifier data"})
    settings = FitSettings(rank=4, alpha=8.0, lr=5e-3, epochs=3, batch=16)
    fit_verifier(data, BaseModelConfig(model="pocket"), settings, fitted, Silent(), "cpu")
    return data, fitted


@pytest.fixture(scope="module")
def card(folders: tuple[Path, Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folders[1] / "card.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def scored(folders: tuple[Path, Path]) -> dict[str, tuple[Floats, Floats, list[str]]]:
    """Split → logits, labels (1: right) and the question of each answer, each scored alone."""
    data, fitted = folders
    verifier = load_verifier(fitted, Silent(), device="cpu")
    sides: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in parquet.read_table(data / "data.parquet").to_pylist():
        sides[row["split"]].append(row)
    return {
        side: (
            np.array(
                [float(verifier.logits([(r["question"], r["text"])]).logits[0]) for r in rows]
            ),
            np.array([float(r["label"]) for r in rows]),
            [r["question_id"] for r in rows],
        )
        for side, rows in sides.items()
        if side != "train"
    }


def auroc_of_pairs(scores: Floats, labels: Floats) -> float:
    """The share of (right, wrong) pairs in order; a tie is half of one."""
    differences = np.subtract.outer(scores[labels == 1], scores[labels == 0])
    return float(np.mean((np.sign(differences) + 1) / 2))


def calibration_error(scores: Floats, labels: Floats, edges: list[float]) -> float:
    """Σ n/N |mean score − share right| over [edge, next edge), the last one closed."""
    total = 0.0
    for place, (low, high) in enumerate(itertools.pairwise(edges)):
        last = place == len(edges) - 2
        inside = (scores >= low) & ((scores <= high) if last else (scores < high))
        if inside.any():
            total += inside.sum() * abs(scores[inside].mean() - labels[inside].mean())
    return total / len(scores)


@pytest.mark.parametrize("side", ["valid", "test"])
def test_discrimination(
    side: str, card: dict[str, Any], scored: dict[str, tuple[Floats, Floats, list[str]]]
) -> None:
    logits, labels, questions = scored[side]
    found = card["results"][side]
    assert found["auroc"] == pytest.approx(auroc_of_pairs(logits, labels), abs=1e-6)
    assert found["auroc"] > 0.6  # it learned something, so the figures are of real scores
    own = [np.array([q == one for q in questions]) for one in dict.fromkeys(questions)]
    each = [auroc_of_pairs(logits[mask], labels[mask]) for mask in own]
    assert found["auroc_within_questions"] == pytest.approx(np.mean(each), abs=1e-6)
    # The bootstrap interval is about 1.96 standard errors of the mean on either side.
    low, high = found["auroc_within_questions_interval"]
    spread = 1.96 * np.std(each, ddof=1) / len(each) ** 0.5
    assert (high - low) / 2 == pytest.approx(spread, rel=0.25)
    assert low < found["auroc_within_questions"] < high
    scores = 1 / (1 + np.exp(-logits / card["temperature"]))
    assert found["accuracy"] == pytest.approx(np.mean((scores >= 0.5) == (labels == 1)))


@pytest.mark.parametrize("side", ["valid", "test"])
@pytest.mark.parametrize("tempered", [True, False])
def test_calibration(
    side: str,
    tempered: bool,
    card: dict[str, Any],
    scored: dict[str, tuple[Floats, Floats, list[str]]],
) -> None:
    logits, labels, _ = scored[side]
    scores = 1 / (1 + np.exp(-logits / (card["temperature"] if tempered else 1.0)))
    found, end = card["results"][side], "" if tempered else "_before_temperature"
    assert found[f"brier{end}"] == pytest.approx(np.mean((scores - labels) ** 2), abs=1e-6)
    tenths = [n / 10 for n in range(11)]
    error = calibration_error(scores, labels, tenths)
    assert found[f"ece{end}"] == pytest.approx(error, abs=1e-5)
    assert len(set(scores.tolist())) == len(scores)  # no ties, so bins of equal mass are plain
    ranked = np.sort(scores)
    edges = [ranked[len(ranked) * n // 10] for n in range(10)] + [1.0]
    error = calibration_error(scores, labels, [float(edge) for edge in edges])
    assert found[f"ece_equal_mass{end}"] == pytest.approx(error, abs=1e-5)


def test_the_temperature_has_the_least_loss_of_a_fine_grid(
    card: dict[str, Any], scored: dict[str, tuple[Floats, Floats, list[str]]]
) -> None:
    logits, labels, _ = scored["valid"]
    grid = np.geomspace(0.05, 20, 6001)
    signed = np.where(labels == 1, -logits, logits)
    losses = np.log1p(np.exp(signed[None, :] / grid[:, None])).mean(axis=1)
    assert card["temperature"] == pytest.approx(grid[losses.argmin()], rel=2e-3)
    assert card["results"]["valid"]["log_loss"] == pytest.approx(losses.min(), abs=1e-6)


def test_the_bins_of_the_picture_hold_all_test_answers(
    card: dict[str, Any], scored: dict[str, tuple[Floats, Floats, list[str]]]
) -> None:
    logits, labels, _ = scored["test"]
    scores = 1 / (1 + np.exp(-logits / card["temperature"]))
    bins = card["results"]["test"]["reliability"]
    assert len(bins) >= 3
    for one in bins:
        inside = np.floor(scores * 10) == round(one["low"] * 10)
        assert one["count"] == inside.sum()
        assert one["mean_score"] == pytest.approx(scores[inside].mean(), abs=1e-6)
        assert one["share_right"] == pytest.approx(labels[inside].mean())
    assert sum(one["count"] for one in bins) == len(scores)
