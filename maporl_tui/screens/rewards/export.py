"""One debate's rewards as a file: Markdown, JSON or CSV.

In: an ``Account`` of the debate and a path.  Out: the text for it.  Neighbours: the Rewards screen
asks for the path, ``app.export`` writes it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from maporl_core.store.reader import DiscussionRow
from maporl_core.types import REWARD_PARTS
from maporl_tui.drawing.text import one_line, safe
from maporl_tui.reading.why import Account, arithmetic, explain_message


def export_table(path: Path, row: DiscussionRow, paid: Account) -> str:
    """The table as Markdown, or as JSON or CSV where the path ends so."""
    rows = list(_rows(paid))
    ending = path.suffix.lower()
    if ending == ".json":
        return _json(row, paid, rows)
    if ending == ".csv":
        return _csv(rows)
    return _markdown(row, paid, rows)


def _rows(paid: Account) -> list[dict[str, Any]]:
    """One record per message; turns count from 1, as everywhere people read them."""
    return [
        {
            "turn": t + 1,
            "agent": paid.name(a),
            "answer": None if message.answer is None else safe(message.answer),
            "correct": message.correct,
            "score": message.score,
            **{name: getattr(reward.parts, name) for name in (*REWARD_PARTS, "total")},
            "advantage": reward.advantage,
            "kl": reward.kl,
        }
        for t, (messages, rewards) in enumerate(
            zip(paid.discussion.messages, paid.rewards_TA, strict=True)
        )
        for a, (message, reward) in enumerate(zip(messages, rewards, strict=True))
    ]


def _json(row: DiscussionRow, paid: Account, rows: list[dict[str, Any]]) -> str:
    for place, record in enumerate(rows):
        t, a = divmod(place, len(paid.discussion.agents))
        record["why"] = [line.text for line in explain_message(paid, t, a)]
    problem = paid.discussion.problem
    found = {
        "debate": row.id,
        "step": row.step,
        "problem": safe(problem.id),
        "question": safe(problem.question),
        "gold": None if problem.gold is None else safe(problem.gold),
        "stopped_early": row.stopped_early,
        "messages": [{key: _plain(value) for key, value in r.items()} for r in rows],
    }
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _markdown(row: DiscussionRow, paid: Account, rows: list[dict[str, Any]]) -> str:
    problem = paid.discussion.problem
    gold = "none" if problem.gold is None else _cell(problem.gold)
    lines = [
        f"# Rewards of debate {row.id}, step {row.step}",
        "",
        f"{_cell(problem.question, 2000)} (gold answer: {gold})",
        "",
        f"| {' | '.join(rows[0])} |",
        f"|{'---|' * len(rows[0])}",
    ]
    lines += [f"| {' | '.join(_cell(value) for value in r.values())} |" for r in rows]
    lines.append("")
    for place in range(len(rows)):
        t, a = divmod(place, len(paid.discussion.agents))
        lines.append(f"- {_cell(paid.name(a))}, turn {t + 1}: {arithmetic(paid, t, a)}")
    return "\n".join(lines) + "\n"


def _cell(value: Any, limit: int = 200) -> str:
    """A value inside a Markdown table: one line, no bar or markup of its own."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    text = one_line(value, limit)
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
