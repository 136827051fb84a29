"""The card of a verifier's data: what is in it and how it came about, as JSON and as a page.

In: settings, counts, examples.  Out: a dict for ``card.json`` and Markdown for ``card.md``.
Neighbours: ``sampling`` writes both, ``fitting`` copies the dict into the verifier's own
card, ``report`` has the page of that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from maporl_core.judging.verifier.data import SPLITS, Counts, Example, Selection, difficulty_name
from maporl_core.kit.plain_text import one_line

DATA_KIND = "verifier data"
VERSION = 1
FITTED_ANEW = "fitted anew"
"""How a run's log says that a fit on its own messages was kept."""

STAGES: tuple[tuple[str, str], ...] = (
    ("questions", "questions asked"),
    ("answers", "answers sampled"),
    ("right", "of them right"),
    ("unparsable", "answers left out: no answer can be read"),
    ("repeated", "answers left out: same text again for the question"),
    ("distinct_right", "distinct right answers"),
    ("distinct_wrong", "distinct wrong answers"),
    ("only_right", "questions left out: only right answers"),
    ("only_wrong", "questions left out: only wrong answers"),
    ("none_parsable", "questions left out: no answer can be read"),
    ("surplus", "answers left out: more than balance allows"),
    ("kept_questions", "questions kept"),
    ("kept_right", "right answers kept"),
    ("kept_wrong", "wrong answers kept"),
)
"""Fields of ``Counts`` in the order they come about, and what they are."""


def data_card(
    settings: Mapping[str, Any],
    selection: Selection,
    counts: Counts,
    examples: Sequence[Example],
    left_out: int,
) -> dict[str, Any]:
    """``settings`` decide what was sampled; ``left_out`` questions did not fit the window.

    Nothing in it depends on when or in how many pieces the sampling was done.
    """
    sides = {side: [e for e in examples if e.split == side] for side in SPLITS}
    return {
        "kind": DATA_KIND,
        "version": VERSION,
        "settings": settings,
        "selection": asdict(selection),
        "counts": asdict(counts) | {"too_long": left_out},
        "splits": {side: _side(rows) for side, rows in sides.items()},
        "difficulty": dict(
            sorted(Counter(difficulty_name(e.difficulty) for e in examples).items())
        ),
    }


def _side(rows: Sequence[Example]) -> dict[str, Any]:
    return {
        "questions": len({row.question_id for row in rows}),
        "answers": len(rows),
        "share_right": round(sum(row.label for row in rows) / len(rows), 4) if rows else None,
    }


def data_page(card: Mapping[str, Any]) -> str:
    """The card for people."""
    settings = card["settings"]
    sampling, bases = settings["sampling"], settings["bases"]
    models = ", ".join(f"`{one_line(base['model'])}`" for base in bases.values())
    balanced = card["selection"]["balance"]
    lines = [
        "# Verifier data",
        "",
        f"Answers of {models} ({_who(settings)}) to questions of task "
        f"`{settings['task']['name']}`, split `{sampling['split']}`, labelled by the task's rule.",
        "",
        *table(
            ("setting", "value"),
            (
                ("answers per question", sampling["samples"]),
                ("temperature", sampling["temperature"]),
                ("turns", sampling["turns"]),
                ("seed", settings["seed"]),
                ("balanced per question", "yes" if balanced else "no"),
                ("most right (and wrong) answers per question", card["selection"]["per_question"])
                if balanced
                else ("answers per question", "all distinct ones"),
            ),
        ),
        "## Counts",
        "",
        *table(("stage", "count"), [(text, card["counts"][key]) for key, text in STAGES]),
        "## Splits",
        "",
        "A question is in one split only, decided by hash of its text.",
        "",
        *table(
            ("split", "questions", "answers", "share right"),
            [
                (s, v["questions"], v["answers"], v["share_right"])
                for s, v in card["splits"].items()
            ],
        ),
        "## Difficulty",
        "",
        "Answers kept, by the share of right answers among all that were sampled for the question.",
        "",
        *table(("share right", "answers kept"), card["difficulty"].items()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _who(settings: Mapping[str, Any]) -> str:
    if settings["sampling"]["policy_state"] == "base":
        return "untrained"
    return f"trained for {settings['step']} steps"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table and an empty one."""
    cells = [[*head], ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return ["| " + " | ".join(row) + " |" for row in cells] + [""]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:.4g}" if isinstance(value, float) else one_line(value)
    return text.replace("|", "\\|")
