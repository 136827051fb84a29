"""``maporl runs``: list, show, export and remove runs, and ask a running one for something.

In: the runs under a folder.  Out: tables, files, requests.  Neighbours: ``store.reader`` is what is
shown; ``export`` and ``requests`` of the store do the rest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    RunArgument,
    complete_run,
    examples,
    show_help,
)
from maporl_core.cli.views.fitting_table import FittingTable
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.run_overview import EXAMPLES, STATE_STYLES, show_command, steps_text
from maporl_core.cli.views.terminal import (
    duration,
    err_console,
    number,
    out_console,
    percent,
    plain,
    print_json,
    say,
)
from maporl_core.errors import ConfigError
from maporl_core.store.paths import RunDir, remove_run
from maporl_core.store.reader import (
    RequestWriter,
    RunSummary,
    StoreReader,
    list_runs,
)

app = typer.Typer(
    help="List, show, export and remove runs; ask a running one to pause or stop.",
    invoke_without_command=True,
    epilog=examples(
        ("maporl runs list", "all runs under runs/"),
        ("maporl runs show pocket", "one run: state, evaluations, checkpoints, events"),
        ("maporl runs request pocket stop", "save and stop after this step"),
    ),
)

ANSWER_POLL = 0.2  # seconds between two looks for the trainer's answer


@app.callback()
def _root(context: typer.Context) -> None:
    show_help(context)


@app.command(
    "list",
    epilog=examples(
        ("maporl runs list", "name, state, step, last accuracy"),
        ("maporl runs list --root /data/runs --json", "for machines"),
    ),
)
def list_command(root: RootOption = DEFAULT_ROOT, json: JsonOption = False) -> None:
    """List the runs of a folder, newest first."""
    found = sorted(list_runs(root), key=lambda run: run.created, reverse=True)
    if json:
        print_json(found)
        return
    if not found:
        say(f"no runs in {root}; start one with: maporl run")
        return
    table = FittingTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("run", "state", "task"):
        table.add_column(column, overflow="fold")
    for column in ("step", "accuracy", "reward", "last step"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in found:
        state = run.status.state
        age = duration(run.age) + " ago" if run.problem is None else ""
        table.add_row(
            plain(run.name),
            plain(state, STATE_STYLES.get(state, "")),
            plain(run.task),
            plain(steps_text(run.status)),
            plain(percent(_last_accuracy(run))),
            plain(number(run.metrics.get("reward/total"))),
            plain(age),
        )
    console = out_console()
    console.print(table)
    for run in found:
        if run.problem is not None:
            console.print(plain(f"{run.name}: {run.problem}", "red"))


app.command("show", epilog=EXAMPLES)(show_command)


@app.command(
    "export",
    epilog=examples(
        ("maporl runs export pocket", "training discussions as pocket-discussions.jsonl"),
        ("maporl runs export pocket --format parquet --split eval --out eval.parquet", ""),
        ("maporl runs export pocket --what metrics", "one row per step: pocket-metrics.csv"),
        ("maporl runs export pocket --what adapters --out adapters", "PEFT folders to load"),
    ),
)
def export_command(
    run: RunArgument,
    what: Annotated[
        str, typer.Option("--what", help="discussions, metrics or adapters.")
    ] = "discussions",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Discussions: jsonl, parquet. Metrics: csv, jsonl, tensorboard, wandb, trackio.",
        ),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, eval or all.")] = "train",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File (or folder) to write.")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Write a run's discussions, metrics or adapters in formats that other tools read."""
    from maporl_core.cli.exports import export

    found = RunDir.find(root, run)
    with StageBar(err_console()) as bar:
        written = export(found, what, format, split, out, bar)
    if json:
        print_json({"run": found.name, "what": what, **written})
    else:
        say(f"{written['count']} {written['unit']} written to {written['to']}")


@app.command(
    "remove",
    epilog=examples(
        ("maporl runs remove pocket-2", "asks first"),
        ("maporl runs remove pocket-2 pocket-3 --yes", "does not ask"),
    ),
)
def remove_command(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN…", help="Names or folders.", autocompletion=complete_run),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Delete runs for good: store, checkpoints and adapters."""
    found = [RunDir.find(root, run) for run in dict.fromkeys(runs)]
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError("removing a run cannot be undone; say --yes to do it without asking")
        names = ", ".join(run.name for run in found)
        typer.confirm(f"Delete {names} for good?", abort=True)
    removed = []
    for run in found:
        remove_run(run)
        removed.append(str(run.path))
        if not json:
            say(f"removed {run.path}")
    if json:
        print_json({"removed": removed})


@app.command(
    "request",
    epilog=examples(
        ("maporl runs request pocket pause", "after the step under way"),
        ("maporl runs request pocket resume", "go on"),
        ("maporl runs request pocket checkpoint", "save now"),
        ("maporl runs request pocket stop --no-wait", "save and stop; do not wait for it"),
    ),
)
def request_command(
    run: RunArgument,
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="pause, resume, checkpoint or stop.")
    ],
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, help="Seconds to wait for the answer.")
    ] = 60.0,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="The same as --wait 0.")] = False,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Ask the process that trains a run for something; it answers between two steps."""
    found = RunDir.find(root, run)
    key = RequestWriter(found).add(command)
    limit = 0.0 if no_wait else wait
    with StoreReader(found) as reader, StageBar(err_console()) as bar:
        if limit:
            bar.stage(f"waiting for the trainer to {command}")
        deadline = time.monotonic() + limit
        request = reader.request(key)
        while request.result is None and time.monotonic() < deadline:
            time.sleep(ANSWER_POLL)
            request = reader.request(key)
    if json:
        print_json(request)
    elif request.result is None:
        say(f"asked run {found.name} to {command}; it answers after the step under way")
    else:
        say(request.result)


def _last_accuracy(run: RunSummary) -> float | None:
    """Accuracy of the last turn in the last step's rollout."""
    prefix = "accuracy/turn_"
    turns = {int(k[len(prefix) :]): v for k, v in run.metrics.items() if k.startswith(prefix)}
    return turns[max(turns)] if turns else None
