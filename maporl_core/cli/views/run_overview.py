"""``maporl runs show``: one run's story, or one of its discussions.

In: a run's store.  Out: state, evaluations, checkpoints and events; or a discussion with its pay.
Neighbours: ``store.reader`` is what is shown, ``tables`` and ``discussions`` draw it.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    RunArgument,
    examples,
    stored_config,
)
from maporl_core.cli.views.discussions import discussion_json, print_discussion, print_question
from maporl_core.cli.views.tables import gain_table, summary_table
from maporl_core.cli.views.terminal import out_console, plain, print_json
from maporl_core.errors import ConfigError, MaporlError
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RunStatus, StoredDiscussion, StoreReader
from maporl_core.types import PairedGain

EXAMPLES = examples(
    ("maporl runs show pocket", "what it did so far"),
    ("maporl runs show pocket --debate last", "its newest discussion, with rewards"),
    ("maporl runs show pocket --json", "for machines"),
)
SHOWN_EVALUATIONS = 6  # the newest ones
STATE_STYLES = {
    "running": "green",
    "finished": "cyan",
    "failed": "red",
    "died": "red",
    "unreadable": "red",
    "interrupted": "yellow",
    "paused": "yellow",
}


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
            _show_debate(_stored(reader, debate), _samples(found), json)
        elif json:
            print_json(_run_json(reader, events))
        else:
            _show_run(out_console(), reader, events)


def _show_run(console: Console, reader: StoreReader, events: int) -> None:
    run, status = reader.run, reader.status()
    head = plain(run.name, "bold").append("  ")
    head.append_text(plain(status.state, STATE_STYLES.get(status.state, "")))
    head.append(f"  step {steps_text(status)}")
    if status.pid is not None:
        head.append(f"  process {status.pid} on {status.host}")
    console.print(head)
    if status.reason:
        console.print(plain(status.reason, "yellow"))
    console.print(_made_of(run))
    evaluations = reader.evaluations()
    for evaluation in evaluations[-SHOWN_EVALUATIONS:]:
        whose = "by the run itself" if evaluation.origin == "run" else "by a command"
        console.print(summary_table(evaluation.summary))
        console.print(plain(f"measured after step {evaluation.step}, {whose}", "dim"))
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


def _own_gain(reader: StoreReader) -> PairedGain | None:
    """Before against after of the run itself; None where it has not evaluated both."""
    labels = {e.summary.label for e in reader.evaluations() if e.origin == "run"}
    if not {"before", "after"} <= labels:
        return None
    from maporl_core.runs.evaluate import gain_between

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


def _made_of(run: RunDir) -> Text:
    """Who discusses what; why that cannot be told where the run's config cannot be read."""
    try:
        config = stored_config(run)
    except MaporlError as error:
        return plain(f"{error}; kept in {run.path}", "yellow")
    agents = ", ".join(agent.name for agent in config.agents)
    bases = ", ".join(base.model for base in config.bases.values())
    return plain(
        f"{agents} on {bases} discuss {config.task.name} for {config.discussion.turns} turns; "
        f"{config.train.problems_per_step} problems a step; kept in {run.path}",
        "dim",
    )


def _samples(run: RunDir) -> int:
    """Discussions of one problem in a step [G]; 1 where the run's config cannot be read."""
    try:
        return int(getattr(stored_config(run).method, "samples", 1))
    except MaporlError:
        return 1


def _show_debate(stored: StoredDiscussion, samples: int, json: bool) -> None:
    rewards = None
    if stored.rewards is not None:
        rewards = [
            [paid.pay if (paid := stored.reward(message)) is not None else None for message in row]
            for row in stored.discussion.messages
        ]
    if json:
        print_json({**_row_json(stored), "turns": discussion_json(stored.discussion, rewards)})
        return
    console = out_console()
    row = stored.row
    head = f"discussion {row.id}, step {row.step}, {row.split}"
    if row.sample or (samples > 1 and row.split == "train"):
        head += f", sample {row.sample + 1}"
    console.print(plain(head, "dim"))
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
        "sample": row.sample + 1,
        "stopped_early": row.stopped_early,
    }


def steps_text(status: RunStatus) -> str:
    """ "12/100", or "12" where the length is not known."""
    return f"{status.step}/{status.steps}" if status.steps is not None else str(status.step)
