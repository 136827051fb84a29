"""Words of the Compare screen: totals, lines of the list, headings between turns.

In: a ``Comparison``, items, debates.  Out: Textual content and strings.  Pure.  Neighbours: the
Compare screen shows them, ``compare_export`` writes the same numbers into files.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from maporl_core.judging.pairing import Pairing
from maporl_core.store.reader import Evaluation
from maporl_core.types import Interval
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.compare_items import (
    FLIP_MARKS,
    Comparison,
    Flip,
    Item,
    evaluation_name,
    flip_of,
)
from maporl_tui.reading.debate_records import MARKS, Debate

FLIP_STYLES: dict[Flip, str] = {"gained": "bold $right", "lost": "bold $wrong"}
_WORDS: dict[Flip | None, str] = {"gained": "▲ gained", "lost": "▼ lost", None: ""}
NO_RUN = (
    "no run to compare in: choose one on 1 Runs (enter), or mark two there with space and press v"
)
_SHORT = 3
_LONG = 6
"""Turns that the totals have room for; of more, the first and the last ones are shown."""


def nothing_fits(run: str, evaluations: Sequence[Evaluation]) -> str:
    """What to do where a run holds no two evaluations that go together."""
    word = shlex.quote(one_line(run, 64))
    if not evaluations:
        return (
            f"{run} holds no evaluation yet: a run measures itself before and after training "
            f"(eval.questions). Make two with the commands\n\n"
            f"    maporl eval {word} --base\n    maporl eval {word}\n\n"
            "or press a to ask its agents a question now, c to choose from another run."
        )
    held = ", ".join(one_line(e.summary.label, 30) for e in evaluations[-5:])
    base = any(e.summary.policy_state == "base" for e in evaluations)
    missing = f"maporl eval {word}" if base else f"maporl eval {word} --base"
    return (
        f"{run} holds only: {held}. The other side comes with the end of the run, or with the "
        f"command\n\n    {missing}\n\nor press c to choose two, a to ask its agents a question."
    )


def pair_does_not_fit(left: str, right: str) -> str:
    """What to do where two runs hold no trained evaluations on the same questions."""
    return (
        f"{left} and {right} hold no evaluations of trained agents on the same questions. "
        f"Measure both alike, for example with\n\n"
        f"    maporl eval {shlex.quote(left)} --questions 200\n"
        f"    maporl eval {shlex.quote(right)} --questions 200\n\n"
        "or press c to choose others, a to ask both a question."
    )


# Totals -------------------------------------------------------------------------------------------


def totals(found: Comparison, wide: bool) -> Content:
    """Who is compared, what differs, and a line per turn."""
    pairing = found.pairing
    left, right = side_names(found, 44 if wide else 25)
    head = Content.assemble(
        (left, "bold $before"), " │ ", (right, "bold $after"), f" · {shared(found)}"
    )
    lines = [head]
    if notes := remarks(found):
        lines.append(Content.styled(one_line("; ".join(notes), 300), "$warning"))
    shown = _turns(len(pairing.flips_T), _LONG if wide else _SHORT)
    lines += [_turn_line(pairing, turn, wide) for turn in shown]
    return Content("\n").join(lines)


def side_names(found: Comparison, longest: int) -> tuple[str, str]:
    """What tells the sides apart: run and evaluation, without the run where it is one."""
    left, right = found.sides
    if left.run.path == right.run.path:
        names = (evaluation_name(left.evaluation), evaluation_name(right.evaluation))
    else:
        names = (left.name, right.name)
    return one_line(names[0], longest), one_line(names[1], longest)


def shared(found: Comparison) -> str:
    """ "60 shared questions"."""
    count = len(found.items)
    return f"{count:,} shared question{'s' * (count != 1)}"


def remarks(found: Comparison) -> list[str]:
    """What keeps a comparison from being clean: "3 only on one side", "temperature 1 | 0"."""
    pairing = found.pairing
    words = []
    if pairing.unpaired:
        words.append(f"{pairing.unpaired:,} only on one side")
    if pairing.unknown:
        words.append(f"{pairing.unknown:,} without gold")
    if found.differences:
        words.append(f"not the same on both sides: {'; '.join(found.differences)}")
    return words


def _turns(count: int, room: int) -> list[int]:
    if count <= room:
        return list(range(count))
    return [0, *range(count - room + 1, count)]


def _turn_line(pairing: Pairing, turn: int, wide: bool) -> Content:
    before, after, gain = pairing.before_T[turn], pairing.after_T[turn], pairing.gain_T[turn]
    flips = pairing.flips_T[turn]
    style = "bold $right" if gain.low > 0 else "bold $wrong" if gain.high < 0 else ""
    if wide:
        accuracies = f"{interval(before)} │ {interval(after)}"
    else:
        accuracies = f"{_percent(before.mean)} │ {_percent(after.mean)}"
    return Content.assemble(
        (f"turn {turn + 1}  ", "bold"),
        accuracies,
        "  gain " if wide else "  ",
        (points(gain), style),
        "  ",
        (f"▲ {flips.gained:,} gained", "$right"),
        " ",
        (f"▼ {flips.lost:,} lost", "$wrong"),
        f"  {'McNemar ' if wide else ''}p {p_value(flips.p)}",
    )


def interval(value: Interval) -> str:
    """ "51.2% [49.0, 53.4]"."""
    if not math.isfinite(value.mean):
        return "–"
    return f"{_percent(value.mean)} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def points(value: Interval) -> str:
    """A difference in percentage points: "+18.3 [+15.1, +21.4]"."""
    if not math.isfinite(value.mean):
        return "–"
    mean, low, high = (100 * x + 0.0 for x in (value.mean, value.low, value.high))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def p_value(p: float) -> str:
    """Three decimals, or the power of ten."""
    if p >= 0.001:
        return f"{p:.3f}"
    return f"{p:.0e}" if p > 0 else "<1e-300"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if math.isfinite(share) else "–"


# The list, the board ------------------------------------------------------------------------------


def item_line(item: Item, width: int) -> tuple[str, str]:
    """A line of the list in two parts, ``width`` cells at most: verdicts and flip, question."""
    before, after = (MARKS[verdict] for verdict in item.verdicts)
    head = f"{before}→{after} {_WORDS[item.flip]:<8} "
    room = max(1, width - cell_len(head))
    question = one_line(item.question, room)
    if cell_len(question) > room:  # wide characters
        question = set_cell_size(question, room - 1).rstrip() + "…"
    return head, question


def item_title(item: Item, place: int, count: int) -> Content:
    """The line above the two debates."""
    gold = "no gold answer" if item.gold is None else f"gold {one_line(item.gold, 30)}"
    parts: list[str | tuple[str, str]] = [f"{place + 1:,} of {count:,} · {gold}"]
    if item.flip is not None:
        parts += [" · ", (FLIP_MARKS[item.flip], FLIP_STYLES[item.flip])]
    parts.append(f" · debates {item.discussions[0]} │ {item.discussions[1]}")
    return Content.assemble(*parts)


def turn_heading(left: Debate | None, right: Debate | None, turn: int) -> Content:
    """ "turn 2 · 1 of 3 right │ 3 of 3 right · ▲ wrong→right"."""
    sides = [right_count(debate, turn) for debate in (left, right)]
    words = " │ ".join("–" if side is None else f"{side[0]} of {side[1]} right" for side in sides)
    teams = [None if side is None else 2 * side[0] > side[1] for side in sides]
    flip = flip_of(*teams)
    if flip is None:
        return Content.assemble((f"turn {turn + 1}", "bold"), f" · {words}")
    return Content.assemble(
        (f"turn {turn + 1}", "bold"), f" · {words} · ", (FLIP_MARKS[flip], FLIP_STYLES[flip])
    )


def right_count(debate: Debate | None, turn: int) -> tuple[int, int] | None:
    """(right agents, agents) of a turn; None where it is not there or not judged."""
    if debate is None or turn >= debate.turns:
        return None
    row = [said for said in debate.row(turn) if said.chosen]
    if any(said.correct is None or not said.is_over for said in row):
        return None
    return sum(bool(said.correct) for said in row), len(row)
