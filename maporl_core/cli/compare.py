"""``maporl compare``: two stored evaluations on the same questions, without loading a model.

In: a run, or two; which of their evaluations.  Out: accuracy per turn of both, the paired gain,
flipped questions, and in what the two differ.  Neighbours: ``compare_choose`` finds the two,
``pairing`` does the statistics; the app's Compare screen shows the same with the texts.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from maporl_core.cli.compare_choose import Side, choose
from maporl_core.cli.shared import DEFAULT_ROOT, JsonOption, RootOption, complete_run, examples
from maporl_core.cli.views.tables import conditions, interval_text, points_text, simple_table
from maporl_core.cli.views.terminal import number, out_console, plain, print_json
from maporl_core.errors import StoreError
from maporl_core.judging.pairing import Pairing, by_question, differences, pair, team_right
from maporl_core.kit.plain_text import one_line
from maporl_core.store.reader import DiscussionFilter, DiscussionRow, StoreReader

EXAMPLES = examples(
    ("maporl compare pocket", "before against after training"),
    ("maporl compare run-a run-b", "the trained agents of two runs, same questions"),
    ("maporl compare pocket@before pocket@12", "by label or number; see: maporl runs show"),
    ("maporl compare pocket --flips 10", "and ten questions whose verdict changed"),
)
_BATCH = 500
_LONGEST_QUESTION = 200

Rows = dict[str, DiscussionRow]


def compare_command(
    first: Annotated[
        str,
        typer.Argument(
            metavar="RUN[@WHICH]",
            help="A run; @ and a label, a number or a policy state choose an evaluation of it.",
            autocompletion=complete_run,
            show_default=False,
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN][@WHICH]",
            help="What to hold against it. Default: the first is shown before and after.",
            autocompletion=complete_run,
            show_default=False,
        ),
    ] = None,
    flips: Annotated[
        int, typer.Option("--flips", min=0, help="List so many questions whose verdict changed.")
    ] = 0,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Compare two stored evaluations question by question; nothing is asked anew.

    One RUN: its newest evaluation before against after training. Two: the newest evaluations of
    their trained agents under the same conditions. RUN@WHICH is compared with the run's untrained
    agents, or with the second one; a second @WHICH alone is of the same run.
    """
    sides = choose(root, first, second)
    before, after = (_rows(side) for side in sides)
    found = pair(
        {key: row.correct_TA for key, row in before.items()},
        {key: row.correct_TA for key, row in after.items()},
        sides[0].evaluation.summary.seed,
    )
    if not found.problems:
        raise StoreError(_nothing_shared(sides, found))
    differ = differences(*(side.evaluation.summary for side in sides))
    changed = _flipped(found, before, after)
    if json:
        print_json(_as_json(sides, found, differ, changed, flips))
    else:
        _print(out_console(), sides, found, differ, changed[:flips])


def _rows(side: Side) -> Rows:
    """Every question of an evaluation, by id and text."""
    wanted = DiscussionFilter(evaluation=side.evaluation.id)
    found: list[DiscussionRow] = []
    with StoreReader(side.run) as reader:
        while page := reader.page(wanted, after=found[-1].id if found else 0, limit=_BATCH):
            found += reversed(page)
    return by_question(found)


def _nothing_shared(sides: tuple[Side, Side], found: Pairing) -> str:
    names = " and ".join(one_line(side.name, 80) for side in sides)
    if found.unknown:
        return f"{names}: their questions have no gold answers, so nothing can be counted"
    return (
        f"{names} share no question; questions follow task, split and the config's seed: see "
        "maporl eval --help for how to ask the same ones"
    )


def _flipped(found: Pairing, before: Rows, after: Rows) -> list[dict[str, Any]]:
    """Questions on which the team's last verdict changed, gained ones first."""
    changed = []
    for key in found.problems:
        old, new = team_right(before[key].correct_TA), team_right(after[key].correct_TA)
        if old != new:
            row = before[key]
            changed.append(
                {
                    "problem_id": row.problem_id,
                    "question": row.question,
                    "gold": row.gold,
                    "change": "gained" if new else "lost",
                    "discussions": [before[key].id, after[key].id],
                }
            )
    return sorted(changed, key=lambda one: one["change"])


def _as_json(
    sides: tuple[Side, Side],
    found: Pairing,
    differ: tuple[str, ...],
    changed: list[dict[str, Any]],
    flips: int,
) -> dict[str, Any]:
    before, after = (
        {
            "run": side.run.name,
            "evaluation": side.evaluation.id,
            "step": side.evaluation.step,
            "summary": side.evaluation.summary,
        }
        for side in sides
    )
    return {
        "before": before,
        "after": after,
        "shared": len(found.problems),
        "unpaired": found.unpaired,
        "unknown": found.unknown,
        "differences": differ,
        "turns": [
            {"before": old, "after": new, "gain": gain, **asdict(flip), "p": flip.p}
            for old, new, gain, flip in zip(
                found.before_T, found.after_T, found.gain_T, found.flips_T, strict=True
            )
        ],
        "flips": changed[:flips],
    }


def _print(
    console: Console,
    sides: tuple[Side, Side],
    found: Pairing,
    differ: tuple[str, ...],
    changed: list[dict[str, Any]],
) -> None:
    asked = [conditions(side.evaluation.summary) for side in sides]
    for word, side, how in zip(("before", "after "), sides, asked, strict=True):
        about = f"{word}  {one_line(side.name, 200)}"
        console.print(plain(about if asked[0] == asked[1] else f"{about}, {how}", "bold"))
    if asked[0] == asked[1]:
        console.print(plain(f"on {asked[0]}"))
    table = simple_table("accuracy", "before", "after", "gain in points")
    for turn, (old, new, gain) in enumerate(
        zip(found.before_T, found.after_T, found.gain_T, strict=True), 1
    ):
        style = "green" if gain.low > 0 else "red" if gain.high < 0 else ""
        table.add_row(
            plain(f"turn {turn}"),
            plain(interval_text(old)),
            plain(interval_text(new)),
            plain(points_text(gain), style),
        )
    console.print(table)
    votes = simple_table("more than half right", "gained", "lost", "both", "neither", "McNemar p")
    for turn, flip in enumerate(found.flips_T, 1):
        counts = (flip.gained, flip.lost, flip.both_right, flip.both_wrong)
        votes.add_row(plain(f"turn {turn}"), *map(plain, counts), plain(number(flip.p)))
    console.print(votes)
    shared = len(found.problems)
    foot = f"{shared} shared question{'s' * (shared != 1)}, 95% intervals over questions"
    if found.unpaired:
        foot += f"; {found.unpaired} only on one side"
    if found.unknown:
        foot += f"; {found.unknown} without a gold answer"
    console.print(plain(foot, "dim"))
    if differ:
        console.print(plain(f"not the same on both sides: {'; '.join(differ)}", "yellow"))
    for one in changed:
        mark, style = ("▲ gained", "green") if one["change"] == "gained" else ("▼ lost", "red")
        ids = "{} | {}".format(*one["discussions"])
        console.print(plain(f"{mark}  debates {ids}  gold {_gold(one)}", style))
        console.print(plain(f"  {one_line(one['question'], _LONGEST_QUESTION)}"))


def _gold(one: dict[str, Any]) -> str:
    return one_line(one["gold"] or "unknown", 40)
