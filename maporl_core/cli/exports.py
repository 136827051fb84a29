"""What ``maporl runs export`` writes: discussions, metrics or adapters, each where it is wanted.

In: a run and what to write in which format.  Out: files or another tool's records, and a count.
Neighbours: ``store.export`` and ``store.sinks`` write; ``runs`` asks.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from maporl_core.errors import ConfigError, StoreError
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.store.checkpoint import atomic_folder, newest_adapters
from maporl_core.store.export import export_discussions, export_metrics
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.sinks import SINKS, make_sink

WHAT = ("discussions", "metrics", "adapters")
SPLITS = ("train", "eval", "all")
DISCUSSION_FORMATS = ("jsonl", "parquet")
METRIC_FORMATS = ("csv", "jsonl", *SINKS)
_POLICIES = "policies"
_VERIFIER = "(verifier)"
"""Folder of a refitted verifier's weights in a checkpoint, ``verifier.learned.POLICY``."""


def export(
    run: RunDir,
    what: str,
    format: str | None,
    split: str,
    out: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """Write it; returns ``count``, ``unit`` and ``to``.

    Raises ConfigError for an unknown word, StoreError when store or disk refuses.
    """
    _choose("--what", what, WHAT)
    _choose("--split", split, SPLITS)
    if what == "adapters":
        return _adapters(run, out or Path(f"{run.name}-adapters"))
    with StoreReader(run) as reader:
        if what == "metrics":
            kind = format or _suffix(out, METRIC_FORMATS) or "csv"
            return _metrics(reader, _choose("--format", kind, METRIC_FORMATS), out)
        kind = format or _suffix(out, DISCUSSION_FORMATS) or "jsonl"
        kind = _choose("--format", kind, DISCUSSION_FORMATS)
        wanted = DiscussionFilter(split=None if split == "all" else split)  # type: ignore[arg-type]
        path = out or Path(f"{run.name}-discussions.{kind}")
        progress.stage("exporting discussions", reader.count(wanted))
        count = export_discussions(
            reader,
            path,
            kind,  # type: ignore[arg-type]
            wanted,
            progress.advance,
        )
    return {"count": count, "unit": "discussions", "to": str(path)}


def _metrics(reader: StoreReader, kind: str, out: Path | None) -> dict[str, Any]:
    if kind not in SINKS:
        path = out or Path(f"{reader.run.name}-metrics.{kind}")
        count = export_metrics(reader, path, kind)  # type: ignore[arg-type]
        return {"count": count, "unit": "steps", "to": str(path)}
    if out is not None:
        raise ConfigError(f"--out does not go with --format {kind}, which has a place of its own")
    steps: dict[int, dict[str, float]] = {}
    for step, name, value in reader.metrics_since(0).rows:
        steps.setdefault(step, {})[name] = value
    sink = make_sink(kind, reader.run)
    try:
        for step in sorted(steps):
            sink.write(step, steps[step])
    finally:
        sink.close()
    return {"count": len(steps), "unit": "steps", "to": kind}


def _adapters(run: RunDir, out: Path) -> dict[str, Any]:
    """Copy the newest whole adapters, of ``final/`` or of a checkpoint: all of them or none.

    A verifier that the run has fitted anew becomes a folder that scores by itself.
    """
    found = newest_adapters(run)
    if found is None:
        raise StoreError(f"run {run.name!r} has no trained adapters yet")
    source = found.path / _POLICIES
    if out.exists():
        raise ConfigError(f"{one_line(out)} exists; name another folder with --out")
    names = {path.name.lower() for path in source.iterdir() if path.is_dir()} - {_VERIFIER}
    written = {"count": len(names), "unit": "adapters", "to": str(out)}
    refitted = (source / _VERIFIER).is_dir()
    free = (f"verifier-{number}" for number in range(2, len(names) + 3))
    name = next(name for name in ("verifier", *free) if name not in names)
    with atomic_folder(out, manifest=False) as folder:
        skip = shutil.ignore_patterns(_VERIFIER)
        shutil.copytree(source, folder, ignore=skip, dirs_exist_ok=True)
        if refitted:
            from maporl_core.judging.verifier.refitted import write_refitted

            fits = _fits(run, found.step)
            write_refitted(
                run.verifier, source / _VERIFIER, folder / name, run.name, found.step, fits
            )
    if not refitted:
        return written
    return {**written, "unit": f"adapters and {name}", "verifier": str(out / name)}


def _fits(run: RunDir, last: int) -> list[int]:
    """Steps, to the ``last`` one, at which the run fitted its verifier anew."""
    from maporl_core.judging.verifier.cards import FITTED_ANEW

    steps, cursor = set(), 0
    with StoreReader(run) as reader:
        while events := reader.events_since(cursor):
            cursor = events[-1].id
            steps |= {
                event.step
                for event in events
                if event.kind == "verifier"
                and event.step is not None
                and event.step <= last
                and event.text.startswith(f"step {event.step}: {FITTED_ANEW} ")
            }
    return sorted(steps)


def _suffix(out: Path | None, formats: tuple[str, ...]) -> str | None:
    """The format that the file's name asks for, if it is one."""
    suffix = out.suffix.removeprefix(".") if out is not None else ""
    return suffix if suffix in formats else None


def _choose(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value in allowed:
        return value
    near = nearest(value, allowed)
    hint = f"did you mean {near}?" if near else f"choose {', '.join(allowed)}"
    raise ConfigError(f"{option} {one_line(value, 40)}: unknown; {hint}")
