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
from maporl_core.types import Message
from maporl_tui.drawing.text import one_line, safe
from maporl_tui.reading.why import Account, arithmetic, explain_message
from maporl_tui.reading.why_account import spot_of


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
    return [_row(paid, message) for message in paid.messages]


def _row(paid: Account, message: Message) -> dict[str, Any]:
    reward = paid.rewards[spot_of(message)]
    found = {
        "turn": message.turn + 1,
        "agent": paid.name(message.agent),
        "answer": None if message.answer is None else safe(message.answer),
        "correct": message.correct,
        "score": message.score,
        **{name: reward.pay.parts.get(name, 0.0) for name in paid.names},
        "total": reward.pay.total,
        "advantage": reward.advantage,
        "kl": reward.kl,
    }
    if not all(m.chosen for m in paid.messages):  # several were written at some place
        found |= {"branch": message.branch + 1, "chosen": message.chosen}
    if len({m.phase for m in paid.messages}) > 1:
        found["phase"] = message.phase
    return found


def _json(row: DiscussionRow, paid: Account, rows: list[dict[str, Any]]) -> str:
    for message, record in zip(paid.messages, rows, strict=True):
        record["why"] = [line.text for line in explain_message(paid, *spot_of(message))]
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
    for message in paid.messages:
        who = f"{_cell(paid.name(message.agent))}, turn {message.turn + 1}"
        lines.append(f"- {who}: {arithmetic(paid, *spot_of(message))}")
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
