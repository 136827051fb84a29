"""The list of runs as text: cells, order, filter, tables for a file, and one run in short.

In: ``RunRow`` and ``Overview``.  Out: strings and ``Content``; pure.  Neighbours: ``run_list``
reads them, the Runs screen shows them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from textual.content import Content

from maporl_core.config.schema import RunConfig
from maporl_core.kit.sparkline import sparkline
from maporl_core.types import EvalSummary
from maporl_tui.drawing.text import age, amount, one_line, percent, size
from maporl_tui.reading.run_list import Overview, RunRow

STATES: Mapping[str, tuple[str, str]] = {
    "new": ("·", "unknown"),
    "running": ("▶", "after"),
    "paused": ("‖", "unknown"),
    "finished": ("✓", "right"),
    "interrupted": ("■", "unknown"),
    "failed": ("✗", "wrong"),
    "died": ("✗", "wrong"),
    "unreadable": ("✗", "wrong"),
}
"""Mark and colour variable of each state."""

COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("state", "state", 14),
    ("name", "run", 12),
    ("algorithm", "alg.", 6),
    ("task", "task", 8),
    ("step", "step", 9),
    ("reward", "reward", 9),
    ("accuracy", "last", 5),
    ("age", "age", 7),
)
"""Key, heading and width in cells, the blank after it included; the name takes what is left."""

SORTS = ("created", "state", "name", "algorithm", "task", "step", "reward", "accuracy", "age")
_STATE_ORDER = {state: number for number, state in enumerate(STATES)}
_STATE_ORDER |= {"running": -2, "paused": -1}


def cells(row: RunRow, now: float) -> tuple[str, ...]:
    """The texts of one line, in the order of ``COLUMNS``; ``now`` in seconds since 1970."""
    mark, _ = STATES.get(row.state, ("?", ""))
    if row.problem is not None:
        return (f"{mark} {row.state}", one_line(row.name), "", "", "", "", "", "")
    of = f"/{row.steps}" if row.steps is not None else ""
    return (
        f"{mark} {one_line(row.state, 12)}",
        one_line(row.name),
        one_line(row.algorithm, 5),
        one_line(row.task, 40),
        f"{row.step}{of}",
        sparkline(row.rewards),
        percent(row.accuracy),
        age(max(0.0, now - row.written)) if row.written else "–",
    )


def matches(row: RunRow, wanted: str) -> bool:
    """Whether every word of ``wanted`` is in the run's name, task, algorithm or state."""
    text = f"{row.name} {row.task} {row.algorithm} {row.state}".casefold()
    return all(word in text for word in wanted.casefold().split())


def ordered(rows: Iterable[RunRow], sort: str, reverse: bool) -> list[RunRow]:
    """Rows by one of ``SORTS``; numbers and times begin with the largest, words with a."""

    def key(row: RunRow) -> tuple[float, str]:
        numbers = {
            "created": -row.created,
            "age": -row.written,
            "step": -row.step,
            "reward": -(row.rewards[-1] if row.rewards else -math.inf),
            "accuracy": -(row.accuracy if row.accuracy is not None else -math.inf),
            "state": _STATE_ORDER.get(row.state, 99),
        }
        number = numbers.get(sort, 0)
        word = {"task": row.task, "algorithm": row.algorithm}.get(sort, "")
        return (math.inf if math.isnan(number) else number, f"{word}\0{row.name}")

    return sorted(rows, key=key, reverse=reverse)


def table_text(rows: Sequence[RunRow], now: float, path: Path) -> str:
    """The list as JSON for a path ending in .json, else as a Markdown table."""
    if path.suffix.lower() == ".json":
        return json.dumps([_as_data(row) for row in rows], indent=2) + "\n"
    lines = ["| " + " | ".join(heading for _, heading, _ in COLUMNS) + " |"]
    lines.append("|" + "---|" * len(COLUMNS))
    for row in rows:
        escaped = [cell.replace("|", "\\|") for cell in cells(row, now)]
        lines.append("| " + " | ".join(escaped) + " |")
    return "\n".join(lines) + "\n"


def _as_data(row: RunRow) -> dict[str, object]:
    accuracy = row.accuracy
    return {
        "name": row.name,
        "path": str(row.run.path),
        "state": row.state,
        "algorithm": row.algorithm,
        "task": row.task,
        "step": row.step,
        "steps": row.steps,
        "reward": [value if math.isfinite(value) else None for value in row.rewards],
        "accuracy": accuracy if accuracy is not None and math.isfinite(accuracy) else None,
        "created": row.created,
        "written": row.written,
        "reason": row.reason,
        "problem": row.problem,
    }


def overview_content(found: Overview, now: float) -> Content:
    """One run in short, for a narrow pane beside or below the list."""
    row = found.row
    mark, colour = STATES.get(row.state, ("?", "unknown"))
    of = f" of {row.steps}" if row.steps is not None else ""
    out: list[Content | str | tuple[str, str]] = [(one_line(row.name), "bold"), "  "]
    out += [(f"{mark} {row.state}", f"${colour}"), "\n"]
    if row.problem is not None:
        return Content.assemble(*out, (one_line(row.problem, 400), "$wrong"))
    out.append(f"step {row.step}{of} · {one_line(row.algorithm or '–')} on {one_line(row.task)}\n")
    if row.reason:
        out += [("why it ended  ", "bold"), (one_line(row.reason, 400), "$wrong"), "\n"]
    if found.problem is not None:
        out += [(one_line(found.problem, 400), "$wrong"), "\n"]
    out += _accuracy(found)
    if found.config is not None:
        out += _config(found.config)
    elif found.config_problem is not None:
        out += [("config  ", "bold"), (one_line(found.config_problem, 300), "$wrong"), "\n"]
    count = len(found.checkpoints)
    kept = f"{count} checkpoint{'s' * (count != 1)}"
    if count:
        kept += f", the newest {found.checkpoints[-1]}"
    out += ["\n", ("kept  ", "bold"), f"{size(found.size)} · {kept}\n"]
    out += [(f"{one_line(row.run.path)}\n", "$text-muted")]
    if found.events:
        out += ["\n", ("last events\n", "bold")]
    for event in reversed(found.events):
        style = {"error": "$wrong", "warning": "$unknown"}.get(event.level, "")
        out.append((f"{age(max(0.0, now - event.time)):>6}  ", "$text-muted"))
        out.append((one_line(event.text, 300) + "\n", style))
    if found.log_tail:
        out += ["\n", ("end of its log\n", "bold")]
        out += [one_line(line, 300) + "\n" for line in found.log_tail]
    return Content.assemble(*out)


def _accuracy(found: Overview) -> list[Content | str | tuple[str, str]]:
    before, after = found.before, found.after
    if before is None and after is None:
        return []
    turns = max(len(s.accuracy_T) for s in (before, after) if s is not None)
    heads = "".join(f"{f'turn {t + 1}':>8}" for t in range(turns))
    out: list[Content | str | tuple[str, str]] = ["\n", ("accuracy", "bold"), f"{heads}\n"]
    for label, summary in (("before", before), ("after", after)):
        if summary is not None:
            means = "".join(f"{percent(i.mean):>8}" for i in summary.accuracy_T)
            out += [(f"{label:<8}", f"${label}"), f"{means}\n"]
    if before is not None and after is not None:
        out += [f"{'change':<8}", *_changes(before, after), "\n"]
    return out


def _changes(before: EvalSummary, after: EvalSummary) -> list[tuple[str, str]]:
    out = []
    for old, new in zip(before.accuracy_T, after.accuracy_T, strict=False):
        points = 100 * (new.mean - old.mean)
        style = "" if abs(points) < 0.5 else "$right" if points > 0 else "$wrong"
        out.append((f"{points:>+8.0f}", style))
    return out


def _config(config: RunConfig) -> list[Content | str | tuple[str, str]]:
    names = ", ".join(agent.name for agent in config.agents)
    turns = config.discussion.turns
    told = "with scores" if config.discussion.feedback else "without scores"
    verifier: str = config.verifier.kind
    if verifier == "noisy":
        verifier += f", AUROC {amount(config.verifier.auroc, 2)}"
    bases = ", ".join(f"{name}: {base.model}" for name, base in config.bases.items())
    per_step = config.train.problems_per_step
    rows = (
        ("agents", names),
        ("talk", f"{turns} turn{'s' * (turns != 1)}, {told}"),
        ("verifier", verifier),
        ("bases", bases),
        ("training", f"{per_step} problems a step, lr {amount(config.update.lr)}"),
    )
    out: list[Content | str | tuple[str, str]] = ["\n"]
    for name, text in rows:
        out += [(f"{name:<10}", "bold"), one_line(text, 300) + "\n"]
    return out
