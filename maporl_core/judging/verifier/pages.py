"""The card of a fitted verifier for people: a page of Markdown and a reliability diagram.

In: the card, or one split's figures in it.  Out: text, and a PNG.  Neighbours: ``report`` makes the
figures, ``fitting`` writes the files.  matplotlib is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maporl_core.judging.verifier.cards import table
from maporl_core.judging.verifier.files import write_whole
from maporl_core.kit.plain_text import one_line

RESULTS = "results"
RESULTS_BEFORE = "results_before_refit"
"""Where the card of a verifier that a run has fitted anew keeps the figures of the first fit."""
REFITTED = "refitted"

FIGURES: tuple[tuple[str, str], ...] = (
    ("questions", "questions"),
    ("answers", "answers"),
    ("share_right", "share right"),
    ("auroc", "AUROC"),
    ("auroc_within_questions", "AUROC within questions"),
    ("accuracy", "accuracy at score .5"),
    ("log_loss", "log loss, nats"),
    ("brier", "Brier score"),
    ("ece", "calibration error, bins of equal width"),
    ("ece_equal_mass", "calibration error, bins of equal mass"),
    ("brier_before_temperature", "Brier score before temperature"),
    ("ece_before_temperature", "calibration error before temperature, equal width"),
    ("ece_equal_mass_before_temperature", "calibration error before temperature, equal mass"),
)
"""Keys of one split's figures, and what they are called."""


def result_rows(results: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    """(figure, on the validation questions, on the test questions)."""
    valid, test = results["valid"], results["test"]
    rows = [(name, valid[key], test[key]) for key, name in FIGURES]
    for key, name in (
        ("without_question", "shown the answer alone"),
        ("question_only", "shown the question alone"),
    ):
        part = results[key]
        rows.append((f"AUROC, {name}", None, part["auroc"]))
        rows.append((f"AUROC within questions, {name}", None, part["auroc_within_questions"]))
    return rows


def verifier_page(card: Mapping[str, Any]) -> str:
    """The card for people."""
    results = card.get(RESULTS) or card[RESULTS_BEFORE]
    test, settings, history = results["test"], card["settings"], card["history"]
    refits = refit_words(card)
    low, high = test["auroc_within_questions_interval"]
    interval = "" if low is None else f" (95% interval {low:.3f} to {high:.3f})"
    lines = [
        "# Verifier",
        "",
        f"Scores answers on `{one_line(card['base']['model'])}`: an adapter of rank "
        f"{settings['rank']} and one score head. The logit of the last token, divided by "
        f'{card["temperature"]:.4g}, is the log-odds of "right".',
        "",
        f"Trained for {history['steps']} of {history['planned']} steps of {settings['batch']} "
        f"answers at a rate of {settings['lr']:g}; the weights are those of step "
        f"{history['best_step']}, where held-out questions were scored best.",
        "",
        *([refits, ""] if refits else []),
        "## On questions not trained on",
        "",
        "The validation questions ended training and set the temperature; the test questions did "
        "neither. The AUROC within questions is a mean over the "
        f"{test['questions_with_both']} test questions that have both right and wrong answers"
        f"{interval}.",
        "",
        *table(("figure", "validation", "test"), result_rows(results)),
        "## Reliability on the test questions",
        "",
        *table(
            ("score", "answers", "mean score", "share right"),
            [
                (
                    f"{b['low']:.1f} to {b['high']:.1f}",
                    b["count"],
                    b["mean_score"],
                    b["share_right"],
                )
                for b in test["reliability"]
            ],
        ),
        "## By difficulty",
        "",
        "Test questions by the share of right answers they had when they were sampled.",
        "",
        *table(
            ("share right", "answers", "AUROC", "AUROC within questions", "accuracy"),
            [
                (name, v["answers"], v["auroc"], v["auroc_within_questions"], v["accuracy"])
                for name, v in test["by_difficulty"].items()
            ],
        ),
        "The data's own counts are under `data` in card.json.",
    ]
    return "\n".join(lines).rstrip() + "\n"


def refit_words(card: Mapping[str, Any]) -> str | None:
    """What a run made of it, if one has fitted it anew."""
    found = card.get(REFITTED)
    if not isinstance(found, Mapping):
        return None
    return (
        f"Fitted anew by run {one_line(found.get('run'), 80)} on its own messages, at steps "
        f"{one_line(str(found.get('fits')).strip('[]'), 200)}; the figures are of before."
    )


def draw_reliability(test: Mapping[str, Any], path: Path) -> None:
    """A PNG: share right against mean score of each bin, and how many answers each bin has."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bins = test["reliability"]
    figure = Figure(figsize=(4.6, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=(4, 1), sharex=True)
    upper.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="calibrated")
    upper.plot(
        [b["mean_score"] for b in bins],
        [b["share_right"] for b in bins],
        marker="o",
        color="tab:blue",
        label="test questions",
    )
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="share right")
    upper.legend(loc="upper left", frameon=False)
    lower.bar(
        [(b["low"] + b["high"]) / 2 for b in bins],
        [b["count"] for b in bins],
        width=[0.9 * (b["high"] - b["low"]) for b in bins],
        color="tab:blue",
    )
    lower.set(xlabel="score", ylabel="answers")
    write_whole(path, lambda part: figure.savefig(part, format="png", dpi=150))
