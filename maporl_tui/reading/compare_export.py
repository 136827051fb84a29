"""A comparison as a file: Markdown to read, JSON for machines.

In: a ``Comparison``, the listed items, both debates of one.  Out: text.  Pure.  Neighbours:
``debate_export`` writes the debates, the Compare screen asks for the path.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from maporl_core.types import Interval
from maporl_tui.reading.compare_items import Comparison, Item, Side
from maporl_tui.reading.compare_text import interval, p_value, points, remarks, shared
from maporl_tui.reading.debate_export import debate_json, debate_markdown, inline
from maporl_tui.reading.debate_records import MARKS, Debate

Pair = tuple[Debate | None, Debate | None]


def comparison_file(path: Path, found: Comparison, items: Sequence[Item], pair: Pair) -> str:
    """JSON when ``path`` ends in ``.json``, else Markdown."""
    if path.suffix.lower() == ".json":
        return comparison_json(found, items, pair)
    return comparison_markdown(found, items, pair)


def comparison_json(found: Comparison, items: Sequence[Item], pair: Pair) -> str:
    """One JSON object; numbers that are not finite are null."""
    pairing = found.pairing
    turns = [
        {
            "before": _interval(before),
            "after": _interval(after),
            "gain": _interval(gain),
            **asdict(flips),
            "p": flips.p,
        }
        for before, after, gain, flips in zip(
            pairing.before_T, pairing.after_T, pairing.gain_T, pairing.flips_T, strict=True
        )
    ]
    whole = {
        "before": _side(found.sides[0]),
        "after": _side(found.sides[1]),
        "shared": len(found.items),
        "unpaired": pairing.unpaired,
        "unknown": pairing.unknown,
        "differences": list(found.differences),
        "turns": turns,
        "items": [{**asdict(item), "flip": item.flip} for item in items],
        "debates": _debates([side.run.name for side in found.sides], pair),
    }
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def talk_file(path: Path, pair: Pair) -> str:
    """Both answers to a question of one's own."""
    if path.suffix.lower() == ".json":
        return json.dumps({"debates": _debates(("left", "right"), pair)}, indent=2) + "\n"
    sides = zip(("left", "right"), pair, strict=True)
    return "\n".join(debate_markdown(name, one, None) for name, one in sides if one is not None)


def _debates(names: Sequence[str], pair: Pair) -> list[Any]:
    """Debates as ``debate_json`` has them."""
    return [
        json.loads(debate_json(name, debate, None))
        for name, debate in zip(names, pair, strict=True)
        if debate is not None
    ]


def _side(side: Side) -> dict[str, Any]:
    summary = side.evaluation.summary
    facts = ("label", "policy_state", "task", "split", "questions", "temperature", "seed")
    return {
        "run": side.run.name,
        "evaluation": side.evaluation.id,
        "step": side.evaluation.step,
        **{name: getattr(summary, name) for name in facts},
        "agents": list(summary.agents),
    }


def _interval(value: Interval) -> dict[str, float] | None:
    return asdict(value) if math.isfinite(value.mean) else None


def comparison_markdown(found: Comparison, items: Sequence[Item], pair: Pair) -> str:
    """A page: totals, listed questions, both debates."""
    left, right = (inline(side.name) for side in found.sides)
    pairing = found.pairing
    lines = [f"# {left} | {right}", "", shared(found), ""]
    for remark in remarks(found):
        lines += [inline(remark[:1].upper() + remark[1:]), ""]
    lines += [
        "| turn | left | right | gain in points | gained | lost | McNemar p |",
        "|---|---|---|---|---|---|---|",
    ]
    for turn, flips in enumerate(pairing.flips_T):
        cells = [
            str(turn + 1),
            interval(pairing.before_T[turn]),
            interval(pairing.after_T[turn]),
            points(pairing.gain_T[turn]),
            str(flips.gained),
            str(flips.lost),
            p_value(flips.p),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| left | right | | question | gold | debates |", "|---|---|---|---|---|---|"]
    for item in items:
        marks = " | ".join(MARKS[verdict] for verdict in item.verdicts)
        ids = " \\| ".join(map(str, item.discussions))
        words = f"{inline(item.question)} | {inline(item.gold or '')} | {ids}"
        lines.append(f"| {marks} | {item.flip or ''} | {words} |")
    lines.append("")
    for side, debate in zip(found.sides, pair, strict=True):
        if debate is not None:
            lines.append(debate_markdown(side.run.name, debate, None))
    return "\n".join(lines)
