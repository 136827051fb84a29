"""``maporl verifier show``: what a fitted verifier is and what it is worth, read from its card.

In: a folder of ``maporl verifier fit``, or a card just made.  Out: tables and the reliability
diagram.  Neighbours: ``verifier`` prints the same after a fit, ``reliability`` draws,
``verifier.figures`` checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from maporl_core.cli.shared import JsonOption, examples
from maporl_core.cli.views.fitting_table import FittingTable
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.reliability import print_reliability
from maporl_core.cli.views.terminal import err_console, number, out_console, plain, print_json

SHOW_EXAMPLES = examples(
    ("maporl verifier show my-verifier", "figures and reliability diagram"),
    ("maporl verifier show pocket", "of the built-in one"),
    ("maporl verifier show runs/pocket-verifier/verifier --json", "a run's copy, for machines"),
)


def show_command(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Of maporl verifier fit, or a run's copy; pocket: built in."
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Show what a fitted verifier is worth: figures on held-out questions, and how reliable it is.

    Reads the card; no model is loaded.
    """
    with StageBar(err_console()) as bar:
        if not json:  # stdout and stderr of --json are for machines
            bar.stage("loading libraries")
        from maporl_core.judging.verifier.figures import results_of
        from maporl_core.judging.verifier.pages import refit_words
        from maporl_core.judging.verifier.placing import named_folder
        from maporl_core.judging.verifier.saved import read_card, saved_of

        place = named_folder(folder)
        card = read_card(place)
        saved = saved_of(card, place)
        results = results_of(card, place)
    if json:
        print_json({"folder": folder, "card": card})
        return
    console = out_console()
    console.print(
        plain(
            f"adapter of rank {saved.policy.rank} and one score head on {saved.base.model}, "
            f"temperature {saved.temperature:.3g}, at most {saved.max_length} tokens"
        )
    )
    refits = refit_words(card)
    if refits is not None:
        console.print(plain(refits, "yellow"))
    print_results(console, results)


def print_results(console: Console, results: Mapping[str, Any]) -> None:
    """Figures, diagram, bins and difficulty: ``results`` of a card."""
    from maporl_core.judging.verifier.figures import reliability_bins
    from maporl_core.judging.verifier.pages import result_rows

    test = results["test"]
    bins = reliability_bins(test)
    console.print(_table(("", "validation", "test"), result_rows(results)))
    console.print()
    print_reliability(console, bins, "the test questions")
    console.print()
    rows = [(f"{b.low:.1f}-{b.high:.1f}", b.count, b.mean_score, b.share_right) for b in bins]
    console.print(_table(("score", "answers", "mean score", "share right"), rows))
    groups = [
        (name, group["answers"], group["auroc"], group["auroc_within_questions"], group["accuracy"])
        for name, group in test["by_difficulty"].items()
    ]
    console.print()
    head = ("questions with share right", "answers", "AUROC", "within questions", "accuracy")
    console.print(_table(head, groups))


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> FittingTable:
    table = FittingTable(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left", no_wrap=bool(place))
    for row in rows:
        table.add_row(*(plain(value) if isinstance(value, str) else number(value) for value in row))
    return table
