"""Evaluations as tables: accuracy per turn with intervals, before and after side by side.

In: EvalSummary and PairedGain.  Out: Rich renderables that fit 80 columns and lose nothing on
fewer.  Neighbours: ``live`` and ``lines`` end a run with them; ``evaluate``, ``runs`` print them.
"""

from __future__ import annotations

import math

from rich.console import Group, RenderableType

from maporl_core.cli.views.fitting_table import FittingTable
from maporl_core.cli.views.terminal import NO_NUMBER, duration, percent, plain
from maporl_core.types import EvalSummary, Interval, PairedGain

_CHANGES = (
    ("wrong→right", "corrected"),
    ("right→wrong", "broken"),
)
_VERDICTS = ("others right", "others wrong", "others tied", "no others")


def interval_text(interval: Interval) -> str:
    """ "51.2% [49.0, 53.4]"."""
    if not math.isfinite(interval.mean):
        return NO_NUMBER
    return f"{percent(interval.mean)} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def points_text(interval: Interval) -> str:
    """A difference of accuracies in percentage points: "+18.3 [+15.1, +21.4]"."""
    if not math.isfinite(interval.mean):
        return NO_NUMBER
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def conditions(summary: EvalSummary) -> str:
    """What was measured: "500 questions of pocket/test, temperature 1, seed 0"."""
    how = "greedy" if summary.temperature == 0 else f"temperature {summary.temperature:g}"
    return (
        f"{summary.questions} questions of {summary.task}/{summary.split}, {how}, "
        f"seed {summary.seed}"
    )


def simple_table(*columns: str) -> FittingTable:
    """Words on the left, numbers on the right, no lines."""
    # No box: before, after and gain of three intervals each need every column of 80.
    table = FittingTable(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold underline"
    )
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", no_wrap=True)
    return table


def gain_table(gain: PairedGain) -> RenderableType:
    """Before, after and the paired gain per turn; the majority vote of the last turn below."""
    table = simple_table("accuracy", "before training", "after training", "gain in points")
    before, after = gain.before, gain.after
    for turn, (old, new, plus) in enumerate(
        zip(before.accuracy_T, after.accuracy_T, gain.gain_T, strict=True), 1
    ):
        clear = plus.low > 0 or plus.high < 0
        style = ("green" if plus.low > 0 else "red") if clear else ""
        table.add_row(
            plain(f"turn {turn}"),
            plain(interval_text(old)),
            plain(interval_text(new)),
            plain(points_text(plus), style),
        )
    if before.majority_T and after.majority_T:
        table.add_row(
            plain("last vote"),
            plain(interval_text(before.majority_T[-1])),
            plain(interval_text(after.majority_T[-1])),
            plain(""),
        )
    head = plain(f"On {conditions(after)}; 95% intervals", "bold")
    return Group(head, table)


def summary_table(summary: EvalSummary) -> RenderableType:
    """One evaluation: per turn accuracy, each agent's, vote, oracle and agreement."""
    wide = sum(max(6, len(name)) + 2 for name in summary.agents) <= 28
    agents = summary.agents if wide else ()
    table = simple_table("turn", "accuracy", *agents, "vote", "oracle", "agree")
    for turn in range(len(summary.accuracy_T)):
        of_agents = summary.accuracy_TA[turn] if wide else ()
        table.add_row(
            plain(turn + 1),
            plain(interval_text(summary.accuracy_T[turn])),
            *(plain(percent(value)) for value in of_agents),
            plain(percent(summary.majority_T[turn].mean)),
            plain(percent(summary.oracle_T[turn])),
            plain(percent(summary.agreement_T[turn])),
        )
    state = "" if summary.policy_state in summary.label else f" ({summary.policy_state})"
    head = plain(f"{summary.label}{state}: {conditions(summary)}", "bold")
    foot = plain(
        f"no answer in {percent(summary.unparsable)} of messages, cut short "
        f"{percent(summary.unfinished)}, took {duration(summary.seconds)}",
        "dim",
    )
    changes = transitions_table(summary)
    return Group(head, table, *([changes] if changes is not None else []), foot)


def transitions_table(summary: EvalSummary) -> RenderableType | None:
    """How answers changed from turn to turn, by what the others were; None if nothing did."""
    counts = summary.transitions
    known = [v for v in _VERDICTS if any(key.endswith(f"| {v}") for key in counts)]
    if not known:
        return None
    table = simple_table("changes between turns", *known)
    for change, word in _CHANGES:
        table.add_row(
            plain(f"{word} ({change})"),
            *(plain(counts.get(f"{change} | {verdict}", 0)) for verdict in known),
        )
    return table
