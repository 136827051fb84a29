"""``maporl doctor``: versions, devices, and whether a run would fit.

In: a preset or file, or nothing.  Out: facts, a memory forecast, findings; exit code 4 when it will
not run.  Neighbour: the ``doctor`` package collects, this prints.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    SetOption,
    SourceArgument,
    examples,
)
from maporl_core.cli.verifier_check import verifier_seat
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import (
    bytes_text,
    err_console,
    out_console,
    plain,
    print_json,
    to_json,
)
from maporl_core.config.load import load_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import MaporlError, ModelError
from maporl_core.runs.doctor import Finding, Report, examine
from maporl_core.runs.doctor.facts import OPTIONAL
from maporl_core.runs.doctor.memory import Seat

EXAMPLES = examples(
    ("maporl doctor", "this machine"),
    ("maporl doctor gsm8k --hub", "and can the model hub be reached?"),
    ("maporl doctor gsm8k", "would this preset run here, and in how much memory?"),
    ("maporl doctor gsm8k --set engine.max_batch=64 --json", "with a change, for machines"),
)


def doctor_command(
    source: SourceArgument = None,
    overrides: SetOption = None,
    root: RootOption = DEFAULT_ROOT,
    hub: Annotated[
        bool, typer.Option("--hub", help="Ask whether the model hub can be reached.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check this machine, and for a preset or file forecast its memory. Exit code 4: not fit.

    Uses no network unless --hub is given.
    """
    config = load_config(source, overrides or ()) if source or overrides else None
    with StageBar(err_console()) as bar:
        bar.stage("looking at versions and devices")
        seat, more = _verifier(config)
        report = examine(config, root, ask_hub=hub, seat=seat, more=more)
    if json:
        print_json(_as_json(report))
    else:
        _print(out_console(), report)
    if not report.ok:
        raise typer.Exit(ModelError.exit_code)


def _verifier(config: RunConfig | None) -> tuple[Seat | None, list[Finding]]:
    """Where the learned verifier would stand, or why a run would refuse it."""
    if config is None:
        return None, []
    try:
        return verifier_seat(config)
    except MaporlError as error:
        return None, [Finding("error", str(error))]


def _print(console: Console, report: Report) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_column()
    facts.add_column(overflow="fold")
    for name, value in report.system.items():
        facts.add_row(plain(name, "bold"), plain(value))
    for name, version in report.versions.items():
        missing = "not installed (optional)" if name in OPTIONAL else "missing"
        facts.add_row(plain(name, "bold"), plain(version or missing, "" if version else "dim"))
    for device in report.devices:
        memory = f"{bytes_text(device.free)} free of {bytes_text(device.total)}"
        facts.add_row(plain(device.kind, "bold"), plain(f"{device.name}, {memory}"))
    disk = report.disk
    facts.add_row(
        plain("disk", "bold"),
        plain(f"{bytes_text(disk.free)} free of {bytes_text(disk.total)} at {disk.path}"),
    )
    hub = report.hub
    detail = f" ({hub.detail})" if hub.detail else ""
    facts.add_row(plain("hub", "bold"), plain(f"{hub.endpoint}: {hub.state}{detail}"))
    if report.verifier is not None:
        facts.add_row(plain("verifier", "bold"), plain(report.verifier))
    console.print(facts)
    if report.forecast is not None and report.device is not None:
        console.print()
        console.print(_forecast_table(report))
    for finding in report.findings:
        style = "red" if finding.level == "error" else "yellow"
        console.print(plain(f"{finding.level}: {finding.text}", style))
    if report.ok:
        console.print(plain("ready" if not report.findings else "ready, see the warnings", "green"))


def _forecast_table(report: Report) -> Table:
    forecast, device = report.forecast, report.device
    assert forecast is not None
    assert device is not None
    rows = (
        ("process" if device.kind == "cpu" else "CUDA context", forecast.overhead),
        ("base weights", forecast.weights),
        ("adapters, gradients, Adam", forecast.adapters),
        ("rollout: keys, values, scoring", forecast.rollout),
        ("update: activations, logits", forecast.update),
        ("peak (larger of the two)", forecast.peak),
        ("free now", device.free),
        ("one checkpoint on disk", forecast.checkpoint),
    )
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row(plain(f"memory forecast on {device.kind}", "bold"), plain("about", "dim"))
    for name, size in rows:
        style = "bold" if name.startswith(("peak", "free")) else ""
        table.add_row(plain(name, style), plain(bytes_text(size), style))
    table.add_row(plain("longest conversation"), plain(f"{forecast.conversation} tokens"))
    for name, size in forecast.micro_tokens.items():
        table.add_row(plain(f"micro-batch on base {name}"), plain(f"{size} tokens"))
    return table


def _as_json(report: Report) -> dict[str, Any]:
    facts: dict[str, Any] = to_json(report)
    if report.forecast is not None:
        facts["forecast"]["peak"] = report.forecast.peak
    return {"ok": report.ok, **facts}
