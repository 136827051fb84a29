"""The numbers behind the charts as text: to be copied, or for a file by its ending.

In: charts with their series or readings.  Out: CSV, JSON or Markdown.  Neighbour:
``charts`` hands it over.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from maporl_core.errors import ConfigError, MaporlError
from maporl_core.store.reader import Series
from maporl_tui.drawing.charts import ChartSpec
from maporl_tui.drawing.curves import Reading
from maporl_tui.host import Host
from maporl_tui.reading.view import RunView

EXPORT_POINTS = 10_000
"""Rows at most: up to so many steps are exported one by one, longer runs as means."""


def readings_text(title: str, readings: Sequence[Reading]) -> str:
    """One chart's values: a metric, a step (or the steps of a mean) and a number per line."""
    lines = [title, "metric,step,value"]
    for one in readings:
        steps = str(one.first) if one.first == one.last else f"{one.first}-{one.last}"
        value = "" if one.value is None else repr(one.value)
        lines.append(f"{one.spec.metric},{steps},{value}")
    return "\n".join(lines)


def chart_text(
    path: Path, run: str, specs: Sequence[ChartSpec], series: Mapping[str, Series]
) -> str:
    """All charts' data in the format that the ending of ``path`` names.  Raises ConfigError."""
    ending = path.suffix.casefold()
    if ending == ".json":
        return _as_json(run, specs, series)
    header, rows = _table(specs, series)
    if ending == ".csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([header, *rows])
        return out.getvalue()
    if ending in (".md", ".markdown"):
        lines = [f"# {run}: charts", "", _md_row(header), _md_row(["---"] * len(header))]
        return "\n".join([*lines, *(_md_row(row) for row in rows), ""])
    raise ConfigError(f"{path.name}: end the name in .csv, .json or .md")


def _table(
    specs: Sequence[ChartSpec], series: Mapping[str, Series]
) -> tuple[list[str], list[list[str]]]:
    """A column per metric; ``step`` is a row's first step, ``steps`` how many it is the mean of."""
    names = list(dict.fromkeys(one.metric for spec in specs for one in spec.series))
    columns = [series.get(name, Series()) for name in names]
    values: dict[int, dict[int, float]] = {}
    counts: dict[int, int] = {}
    for column, found in enumerate(columns):
        for step, count, mean in zip(found.steps, found.counts, found.means, strict=True):
            values.setdefault(step, {})[column] = mean
            counts[step] = max(count, counts.get(step, 0))
    rows = [
        [str(step), str(counts[step])]
        + [repr(row[i]) if i in row else "" for i in range(len(names))]
        for step, row in sorted(values.items())
    ]
    return ["step", "steps", *names], rows


def _as_json(run: str, specs: Sequence[ChartSpec], series: Mapping[str, Series]) -> str:
    charts = [
        {
            "title": spec.title,
            "series": [
                {
                    "metric": one.metric,
                    "label": one.label,
                    "steps": list(found.steps),
                    "means": list(found.means),
                    "lows": list(found.lows),
                    "highs": list(found.highs),
                    "counts": list(found.counts),
                }
                for one in spec.series
                for found in (series.get(one.metric, Series()),)
            ],
        }
        for spec in specs
    ]
    return json.dumps({"run": run, "charts": charts}, indent=1) + "\n"


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


async def export_charts(host: Host, view: RunView | None, specs: Sequence[ChartSpec]) -> None:
    """Read all charts' data and hand it out as a file."""
    client = host.client
    if view is None or client is None or not specs:
        host.say_problem("no charts to export yet: they come with the first step")
        return
    names = dict.fromkeys(one.metric for spec in specs for one in spec.series)
    try:
        found = await client.ask(
            lambda reader: {name: reader.series(name, EXPORT_POINTS) for name in names}
        )
    except MaporlError as error:
        host.say_problem(str(error))
        return
    host.export(f"{view.name}-charts.csv", lambda path: chart_text(path, view.name, specs, found))
