"""Metrics to rows and to the buckets that long charts are drawn from.

In: an open connection inside a transaction, one step's values.  Out: rows inserted or deleted.
Neighbours: ``writer`` opens the transactions, ``charts`` is the way back.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping

from maporl_core.store.schema import BUCKET_WIDTHS
from maporl_core.store.values import put_number


def insert_metrics(
    connection: sqlite3.Connection, step: int, metrics: Mapping[str, float], now: float
) -> None:
    """Values of one step; a value that is there already is replaced."""
    connection.execute(
        "INSERT INTO steps VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM steps), ?) "
        "ON CONFLICT(step) DO UPDATE SET seq = excluded.seq, time = excluded.time",
        (step, now),
    )
    for name, value in metrics.items():
        connection.execute("INSERT OR IGNORE INTO metric_names(name) VALUES (?)", (name,))
        key = connection.execute("SELECT id FROM metric_names WHERE name = ?", (name,)).fetchone()[
            0
        ]
        added = connection.execute(
            "INSERT OR IGNORE INTO metrics VALUES (?, ?, ?)", (key, step, put_number(value))
        ).rowcount
        if added:
            _add_to_buckets(connection, key, step, float(value))
        else:
            connection.execute(
                "UPDATE metrics SET value = ? WHERE name = ? AND step = ?",
                (put_number(value), key, step),
            )
            _rebuild_buckets(connection, key, step)


def delete_metrics(connection: sqlite3.Connection, first: int, last: int | None = None) -> int:
    """Remove the metrics of steps ``first`` … ``last`` (None: to the end); returns steps gone."""
    upto = last if last is not None else (1 << 62)
    span = (first, upto)
    if not connection.execute("SELECT 1 FROM steps WHERE step BETWEEN ? AND ?", span).fetchone():
        return 0
    names = [key for (key,) in connection.execute("SELECT id FROM metric_names")]
    for key in names:
        gone = connection.execute(
            "DELETE FROM metrics WHERE name = ? AND step BETWEEN ? AND ?", (key, *span)
        ).rowcount
        if gone:
            _rebuild_buckets(connection, key, first, to_end=last is None)
    return connection.execute("DELETE FROM steps WHERE step BETWEEN ? AND ?", span).rowcount


def _add_to_buckets(connection: sqlite3.Connection, name: int, step: int, value: float) -> None:
    if not math.isfinite(value):
        return
    connection.executemany(
        "INSERT INTO metric_buckets VALUES (?, ?, ?, 1, ?, ?, ?) "
        "ON CONFLICT(name, width, bucket) DO UPDATE SET count = count + 1, "
        "total = total + excluded.total, low = min(low, excluded.low), "
        "high = max(high, excluded.high)",
        [(name, width, step // width, value, value, value) for width in BUCKET_WIDTHS],
    )


def _rebuild_buckets(
    connection: sqlite3.Connection, name: int, step: int, to_end: bool = False
) -> None:
    """Recompute the buckets that hold ``step``, dropping those after it where asked."""
    for width in BUCKET_WIDTHS:
        bucket = step // width
        connection.execute(
            "DELETE FROM metric_buckets WHERE name = ? AND width = ? AND "
            + ("bucket >= ?" if to_end else "bucket = ?"),
            (name, width, bucket),
        )
        connection.execute(
            "INSERT INTO metric_buckets "
            "SELECT name, ?, ?, count(*), sum(value), min(value), max(value) FROM metrics "
            "WHERE name = ? AND step >= ? AND step < ? AND abs(value) <= 1.7976931348623157e308 "
            "HAVING count(*) > 0",
            (width, bucket, name, bucket * width, (bucket + 1) * width),
        )
