"""A run's discussions and metrics as files that other tools read.

In: an open ``StoreReader``.  Out: JSONL or Parquet that ``datasets.load_dataset`` reads, metrics as
CSV or JSONL.  Neighbours: ``cli runs export`` calls it.  pyarrow is imported on first use.

One row is one discussion, its messages nested, each with the parts of a reward that the run
declares.  A file is of one moment of the run, and there whole or not at all.  It is strict Unicode,
which cannot hold lone surrogates: they are written as U+FFFD.  (The store keeps them.)
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from maporl_core.errors import ConfigError
from maporl_core.kit.finite import finite as _finite
from maporl_core.store.failures import store_errors
from maporl_core.store.manifest import flush
from maporl_core.store.queries import SUMS
from maporl_core.store.reader import DiscussionFilter, MessageReward, StoredDiscussion, StoreReader
from maporl_core.types import Message

OnRows = Callable[[int], None]

_GROUP = 500  # discussions per Parquet row group
_FLAGS = ("corrected", "broke", "persuaded", "all_wrong", "all_right")


def export_discussions(
    reader: StoreReader,
    path: Path,
    format: Literal["jsonl", "parquet"] = "jsonl",
    wanted: DiscussionFilter | None = None,
    on_rows: OnRows | None = None,
) -> int:
    """Write discussions, oldest first, whole or not at all; returns how many.

    ``wanted`` defaults to the training ones.  ``on_rows`` hears how many more are written.
    Raises StoreError when the store or the disk refuses, ConfigError for another format.
    """
    if format not in ("jsonl", "parquet"):
        raise ConfigError(f"discussions cannot be exported as {format!r}: use jsonl or parquet")
    run = reader.run.name
    chosen = wanted if wanted is not None else DiscussionFilter(split="train")
    with _replacing(path) as part, reader.unchanging():
        parts = [declared.name for declared in reader.reward_parts()]
        rows = (_row(run, stored, parts) for stored in reader.discussions(chosen))
        if format == "parquet":
            return _write_parquet(part, rows, parts, on_rows or _unheard)
        return _write_jsonl(part, rows, on_rows or _unheard)


def export_metrics(reader: StoreReader, path: Path, format: Literal["csv", "jsonl"] = "csv") -> int:
    """Write one row per step, one column per metric; returns how many rows.

    A value that is not a finite number is NaN, Infinity or -Infinity in CSV and null in JSONL.
    """
    if format not in ("csv", "jsonl"):
        raise ConfigError(f"metrics cannot be exported as {format!r}: use csv or jsonl")
    names = reader.metric_names()
    steps: dict[int, dict[str, float]] = {}
    for step, name, value in reader.metrics_since(0).rows:
        steps.setdefault(step, {})[name] = value
    with _replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        if format == "csv":
            table = csv.writer(file)
            table.writerow(["step", *names])
            for step in sorted(steps):
                values = (steps[step].get(name) for name in names)
                table.writerow([step, *("" if v is None else repr(v) for v in values)])
        else:
            for step in sorted(steps):
                finite = {n: v if math.isfinite(v) else None for n, v in steps[step].items()}
                file.write(json.dumps({"step": step, **finite}) + "\n")
    return len(steps)


def _unheard(_count: int) -> None:
    """Nobody counts."""


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file beside ``path`` that takes its place when the block ends well."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise ConfigError(f"cannot export to {path}: it is {kind}; name a file")
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    with store_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            flush(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _write_jsonl(path: Path, rows: Iterator[dict[str, Any]], on_rows: OnRows) -> int:
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, allow_nan=False) + "\n")
            written += 1
            on_rows(1)
    return written


def _write_parquet(
    path: Path, rows: Iterator[dict[str, Any]], parts: Sequence[str], on_rows: OnRows
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _parquet_schema(parts)
    written = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            written += len(group)
            on_rows(len(group))
    return written


def _parquet_schema(parts: Sequence[str]) -> Any:
    import pyarrow as pa

    text, number, count, flag = pa.string(), pa.float64(), pa.int64(), pa.bool_()
    reward = pa.struct([(name, number) for name in (*parts, *SUMS)])
    message = pa.struct(
        [
            ("turn", count),
            ("agent", count),
            ("branch", count),
            ("phase", text),
            ("chosen", flag),
            ("name", text),
            ("policy", text),
            ("text", text),
            ("answer", text),
            ("correct", flag),
            ("score", number),
            ("finish", text),
            ("tokens", count),
            ("dropped_context", count),
            ("reward", reward),
        ]
    )
    return pa.schema(
        [
            ("run", text),
            ("id", count),
            ("step", count),
            ("split", text),
            ("evaluation", count),
            ("task", text),
            ("problem_id", text),
            ("question", text),
            ("gold", text),
            ("sample", count),
            ("agents", pa.list_(text)),
            ("turns", count),
            ("stopped_early", flag),
            *((name, flag) for name in _FLAGS),
            ("messages", pa.list_(message)),
        ]
    )


def _row(run: str, stored: StoredDiscussion, parts: Sequence[str]) -> dict[str, Any]:
    row, discussion = stored.row, stored.discussion
    problem = discussion.problem
    return {
        "run": run,
        "id": row.id,
        "step": row.step,
        "split": row.split,
        "evaluation": row.evaluation,
        "task": _valid(problem.task),
        "problem_id": _valid(problem.id),
        "question": _valid(problem.question),
        "gold": _valid(problem.gold),
        "sample": discussion.sample + 1,
        "agents": [_valid(name) for name in discussion.agents],
        "turns": discussion.turns,
        "stopped_early": discussion.stopped_early,
        **{name: getattr(row, name) for name in _FLAGS},
        "messages": [
            _message(
                message, discussion.agents[message.agent], _reward(stored.reward(message), parts)
            )
            for messages in discussion.messages
            for message in messages
        ],
    }


def _message(message: Message, name: str, reward: dict[str, float | None]) -> dict[str, Any]:
    return {
        "turn": message.turn + 1,
        "agent": message.agent + 1,
        "branch": message.branch + 1,
        "phase": message.phase,
        "chosen": message.chosen,
        "name": _valid(name),
        "policy": _valid(message.policy),
        "text": _valid(message.text),
        "answer": _valid(message.answer),
        "correct": message.correct,
        "score": _finite(message.score),
        "finish": message.finish,
        "tokens": len(message.ids),
        "dropped_context": message.dropped_context,
        "reward": reward,
    }


def _reward(reward: MessageReward | None, parts: Sequence[str]) -> dict[str, float | None]:
    """Always the same keys, so that a reader that guesses types guesses one type."""
    if reward is None:
        return dict.fromkeys((*parts, *SUMS))
    return {
        **{name: _finite(reward.pay.parts.get(name, 0.0)) for name in parts},
        "total": _finite(reward.pay.total),
        "advantage": _finite(reward.advantage),
        "kl": _finite(reward.kl),
    }


def _valid(text: str | None) -> str | None:
    """Text with lone surrogates replaced by U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
