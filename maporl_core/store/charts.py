"""Metric series at the resolution a chart can show.

In: a read connection, a metric's name, a number of points.  Out: ``Series``, ``MetricBatch``.
Neighbours: ``reader`` holds the connection, ``rows`` keeps the buckets.

A long series is read from the widest buckets that still give enough points, so the work is bounded
whatever the length of the run.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable

from maporl_core.store.run_records import MetricBatch, Series
from maporl_core.store.schema import BUCKET_WIDTHS
from maporl_core.store.values import get_number

_Point = tuple[int, int, float, float, float]  # first step, count, total, low, high


def metrics_since(connection: sqlite3.Connection, cursor: int) -> MetricBatch:
    """Values of all steps written after ``cursor`` (0: all), in the order of writing."""
    newest = connection.execute("SELECT coalesce(max(seq), 0) FROM steps").fetchone()[0]
    rows = connection.execute(
        "SELECT s.step, n.name, m.value FROM steps s CROSS JOIN metric_names n "
        "CROSS JOIN metrics m ON m.name = n.id AND m.step = s.step "
        "WHERE s.seq > ? AND s.seq <= ? ORDER BY s.seq, n.id",
        (cursor, newest),
    ).fetchall()
    return MetricBatch(newest, tuple((step, name, get_number(value)) for step, name, value in rows))


def series(
    connection: sqlite3.Connection, name: str, points: int, first: int | None, last: int | None
) -> Series:
    """One metric over the steps ``first`` … ``last`` (None: all), in about ``points`` points."""
    row = connection.execute("SELECT id FROM metric_names WHERE name = ?", (name,)).fetchone()
    if row is None:
        return Series()
    key = row[0]
    ends = "min(step)", "max(step)"
    low, high = (
        connection.execute(f"SELECT {end} FROM metrics WHERE name = ?", (key,)).fetchone()[0]
        for end in ends
    )
    if low is None:
        return Series()
    low = low if first is None else max(low, first)
    high = high if last is None else min(high, last)
    span = high - low + 1
    width = max((width for width in BUCKET_WIDTHS if 2 * span >= width * points), default=0)
    found: Iterable[_Point]
    if width:
        found = (
            (bucket * width, count, total, low_, high_)
            for bucket, count, total, low_, high_ in connection.execute(
                "SELECT bucket, count, total, low, high FROM metric_buckets "
                "WHERE name = ? AND width = ? AND bucket BETWEEN ? AND ? ORDER BY bucket",
                (key, width, low // width, high // width),
            )
        )
    else:
        found = (
            (step, 1, value, value, value)
            for step, value in connection.execute(
                "SELECT step, value FROM metrics WHERE name = ? AND step BETWEEN ? AND ? "
                "ORDER BY step",
                (key, low, high),
            )
            if value is not None and math.isfinite(value)
        )
    # A point spans a whole number of buckets, and never fewer steps than the chart can tell apart.
    unit = width or 1
    return _merged(found, unit * max(1, math.ceil(span / (points * unit))))


def _merged(found: Iterable[_Point], width: int) -> Series:
    """Points that fall into the same ``width`` steps become one."""
    merged: list[_Point] = []
    for point in found:
        if merged and merged[-1][0] // width == point[0] // width:
            start, count, total, low, high = merged[-1]
            merged[-1] = (
                start,
                count + point[1],
                total + point[2],
                min(low, point[3]),
                max(high, point[4]),
            )
        else:
            merged.append(point)
    return Series(
        steps=tuple(point[0] for point in merged),
        means=tuple(point[2] / point[1] for point in merged),
        lows=tuple(point[3] for point in merged),
        highs=tuple(point[4] for point in merged),
        counts=tuple(point[1] for point in merged),
    )


def latest(connection: sqlite3.Connection) -> dict[str, float]:
    """All values of the last step."""
    rows = connection.execute(
        "SELECT n.name, m.value FROM metric_names n CROSS JOIN metrics m "
        "ON m.name = n.id AND m.step = (SELECT max(step) FROM steps) ORDER BY n.name"
    ).fetchall()
    return {name: get_number(value) for name, value in rows}


def last_time(connection: sqlite3.Connection) -> float | None:
    """When the last step was written, in seconds since 1970; None before the first."""
    row = connection.execute("SELECT time FROM steps ORDER BY step DESC LIMIT 1").fetchone()
    return None if row is None else float(row[0])
