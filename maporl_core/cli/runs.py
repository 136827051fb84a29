"""``maporl runs``: list, show, export and remove runs, and ask a running one for something.

In: the runs under a folder.  Out: tables, files, requests.  Neighbours: ``store.reader`` is what is
shown; ``export`` and ``requests`` of the store do the rest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from maporl_core.cli.discussions import discussion_json, print_discussion, print_question
from maporl_core.cli.lines import StageBar
from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    RunArgument,
    complete_run,
    examples,
    show_help,
    stored_config,
)
from maporl_core.cli.tables import gain_table, summary_table
from maporl_core.cli.terminal import (
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
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.paths import RunDir, remove_run
from maporl_core.store.reader import (
    RequestWriter,
    RunStatus,
    RunSummary,
    StoredDiscussion,
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
_STATE_STYLES = {
    "running": "green",
    "finished": "cyan",
    "failed": "red",
    "died": "red",
    "unreadable": "red",
    "interrupted": "yellow",
    "paused": "yellow",
}


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
        print_json([_summary_json(run) for run in found])
        return
    if not found:
        say(f"no runs in {root}; start one with: maporl run")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("run", "state", "task"):
        table.add_column(column, overflow="fold")
    for column in ("step", "accuracy", "reward", "last step"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in found:
        state = run.status.state
        age = duration(run.age) + " ago" if run.problem is None else ""
        table.add_row(
            plain(run.name),
            plain(state, _STATE_STYLES.get(state, "")),
            plain(run.task),
            plain(_steps(run.status)),
            plain(percent(_last_accuracy(run))),
            plain(number(run.metrics.get("reward/total"))),
            plain(age),
        )
    console = out_console()
    console.print(table)
    for run in found:
        if run.problem is not None:
            console.print(plain(f"{run.name}: {run.problem}", "red"))


@app.command(
    "show",
    epilog=examples(
        ("maporl runs show pocket", "what it did so far"),
        ("maporl runs show pocket --debate last", "its newest discussion, with rewards"),
        ("maporl runs show pocket --json", "for machines"),
    ),
)
def show_command(
    run: RunArgument,
    debate: Annotated[
        str | None,
        typer.Option("--debate", metavar="ID|last", help="Print one stored discussion."),
    ] = None,
    events: Annotated[int, typer.Option("--events", min=0, help="How many last events.")] = 8,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Show one run: state, evaluations, checkpoints and last events; or one discussion."""
    found = RunDir.find(root, run)
    with StoreReader(found) as reader:
        if debate is not None:
            _show_debate(_stored(reader, debate), json)
        elif json:
            print_json(_run_json(reader, events))
        else:
            _show_run(out_console(), reader, events)


def _show_run(console: Console, reader: StoreReader, events: int) -> None:
    run, status = reader.run, reader.status()
    config = stored_config(run)
    head = plain(run.name, "bold").append("  ")
    head.append_text(plain(status.state, _STATE_STYLES.get(status.state, "")))
    head.append(f"  step {_steps(status)}")
    if status.pid is not None:
        head.append(f"  process {status.pid} on {status.host}")
    console.print(head)
    if status.reason:
        console.print(plain(status.reason, "yellow"))
    agents = ", ".join(agent.name for agent in config.agents)
    bases = ", ".join(base.model for base in config.bases.values())
    console.print(
        plain(
            f"{agents} on {bases} discuss {config.task.name} for {config.discussion.turns} turns; "
            f"{config.train.problems_per_step} problems a step; kept in {run.path}",
            "dim",
        )
    )
    evaluations = reader.evaluations()
    for evaluation in evaluations[-6:]:
        console.print(summary_table(evaluation.summary))
    gain = _own_gain(reader)
    if gain is not None:
        console.print(gain_table(gain))
    checkpoints = [entry.path.name for entry in list_checkpoints(run)]
    finals = ["final"] if run.final.is_dir() else []
    console.print(plain(f"checkpoints: {', '.join([*checkpoints, *finals]) or 'none yet'}"))
    for event in reader.last_events(events) if events else ():
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
        style = {"warning": "yellow", "error": "red"}.get(event.level, "dim")
        console.print(plain(f"{clock} {event.text}", style))


def _own_gain(reader: StoreReader) -> Any:
    """Before against after of the run itself; None where it has not evaluated both."""
    labels = {e.summary.label for e in reader.evaluations() if e.origin == "run"}
    if not {"before", "after"} <= labels:
        return None
    from maporl_core.evaluate import gain_between

    return gain_between(reader, "before", "after")


def _run_json(reader: StoreReader, events: int) -> dict[str, Any]:
    run = reader.run
    return {
        "name": run.name,
        "path": run.path,
        "meta": reader.meta(),
        "status": reader.status(),
        "metrics": reader.latest_metrics(),
        "evaluations": reader.evaluations(),
        "checkpoints": list_checkpoints(run),
        "final": run.final if run.final.is_dir() else None,
        "events": reader.last_events(events) if events else [],
    }


def _stored(reader: StoreReader, wanted: str) -> StoredDiscussion:
    if wanted == "last":
        newest = reader.page(limit=1)
        if not newest:
            raise ConfigError(f"run {reader.run.name!r} has no discussions yet")
        return reader.discussion(newest[0].id)
    if not wanted.isdecimal() or len(wanted) > 18:
        raise ConfigError(f"--debate {wanted[:40]!r}: give the number of a discussion, or last")
    return reader.discussion(int(wanted))


def _show_debate(stored: StoredDiscussion, json: bool) -> None:
    rewards = None
    if stored.rewards_TA is not None:
        rewards = [[paid.parts for paid in row] for row in stored.rewards_TA]
    if json:
        print_json({**_row_json(stored), "turns": discussion_json(stored.discussion, rewards)})
        return
    console = out_console()
    row = stored.row
    console.print(plain(f"discussion {row.id}, step {row.step}, {row.split}", "dim"))
    print_question(console, stored.discussion.problem.question, stored.discussion.problem.gold)
    print_discussion(console, stored.discussion, rewards)


def _row_json(stored: StoredDiscussion) -> dict[str, Any]:
    row, problem = stored.row, stored.discussion.problem
    return {
        "id": row.id,
        "step": row.step,
        "split": row.split,
        "problem_id": problem.id,
        "question": problem.question,
        "gold": problem.gold,
        "stopped_early": row.stopped_early,
    }


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


def _steps(status: RunStatus) -> str:
    return f"{status.step}/{status.steps}" if status.steps is not None else str(status.step)


def _last_accuracy(run: RunSummary) -> float | None:
    """Accuracy of the last turn in the last step's rollout."""
    prefix = "accuracy/turn_"
    turns = {int(k[len(prefix) :]): v for k, v in run.metrics.items() if k.startswith(prefix)}
    return turns[max(turns)] if turns else None


def _summary_json(run: RunSummary) -> dict[str, Any]:
    return {
        "name": run.name,
        "status": run.status,
        "task": run.task,
        "created": run.created,
        "age": run.age,
        "metrics": run.metrics,
        "problem": run.problem,
    }
