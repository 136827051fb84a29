"""``maporl-tui``: watch, inspect, compare and launch co-training runs in a terminal.

In: words of a command line.  Out: the app, then an exit code: 0 left by its user, 2 wrong usage,
5 a store that cannot be read, the trainer's own where ``--start`` or ``--resume`` failed.
Neighbours: ``app`` is what starts, ``launcher`` starts trainers; ``maporl tui`` becomes this.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from maporl_core.errors import ConfigError, MaporlError
from maporl_core.kit.plain_text import printable
from maporl_core.kit.version import __version__
from maporl_core.store.reader import RunDir
from maporl_tui.processes.launcher import Order, resume_order, run_order, start_and_wait

DEFAULT_ROOT = Path("runs")
EXAMPLES = (
    ("maporl-tui", "the runs below runs/"),
    ("maporl-tui pocket", "one run, by name or folder"),
    ("maporl-tui /data/runs --readonly", "the runs of another folder, changing nothing"),
    ("maporl-tui pocket --screen debate", "begin with what the agents say"),
    ("maporl-tui --start gsm8k --set train.steps=20", "start a run detached and watch it"),
    ("maporl-tui --no-mouse", "leave the mouse to the terminal, to select text"),
)

cli = typer.Typer(
    name="maporl-tui", add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maporl-tui {__version__}")
        raise typer.Exit


@cli.command(
    epilog="\n\n".join(
        [
            "[bold]Examples[/bold]",
            *(f"  [cyan]{line}[/cyan]\n    {what}" for line, what in EXAMPLES),
        ]
    )
)
def start(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|DIR",
            help="A run (name or folder), or a folder that holds runs. Default: runs/.",
            show_default=False,
        ),
    ] = None,
    screen: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Screen to begin with: runs, dashboard, debate, rewards, compare or launch.",
        ),
    ] = None,
    root: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder that holds the runs.")
    ] = DEFAULT_ROOT,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Hide everything that changes a run.")
    ] = False,
    mouse: Annotated[
        bool, typer.Option("--mouse/--no-mouse", help="Whether the app takes mouse events.")
    ] = True,
    theme: Annotated[str | None, typer.Option(metavar="NAME", help="Theme for this time.")] = None,
    refresh: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.05,
            max=60.0,
            help="Time between two looks at a run that is being trained.",
        ),
    ] = 0.5,
    begin: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="PRESET|FILE", help="Start this as a process of its own first."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Let this run go on first."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --start, --resume: change one key."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="With --start: the run's name.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """See the agents talk, know why they were paid, drive the run.

    Training is a process of its own: leaving the app, or losing the terminal, never touches it.
    """
    del debug, version  # read in ``main``: errors may come before this function runs
    from maporl_tui.app import MaporlApp
    from maporl_tui.host import Options

    if screen is not None and screen not in MaporlApp.SCREENS:
        raise ConfigError(f"no screen {screen!r}: one of {', '.join(MaporlApp.SCREENS)}")
    order = _order(run, begin, resume, changes or [], root, name, readonly)
    folder, found = _find(root, run) if order is None else (order.run.path.parent, order.run)
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise ConfigError(
            "maporl-tui needs a terminal; without one use: maporl runs list, maporl runs show RUN"
        )
    trainer = None if order is None else start_and_wait(order, _say)
    app = MaporlApp(Options(folder, found, screen, readonly, theme, refresh, trainer))
    gc.freeze()  # what is imported stays: going over it would take as long as a key may
    app.run(mouse=mouse)
    if app.return_code:
        raise typer.Exit(app.return_code)


def _order(
    run: str | None,
    begin: str | None,
    resume: str | None,
    changes: list[str],
    root: Path,
    name: str | None,
    readonly: bool,
) -> Order | None:
    """The run that the command line wants trained; None without one.  Raises ConfigError."""
    if begin is None and resume is None:
        if changes or name is not None:
            raise ConfigError("--set and --name go with --start, --set with --resume")
        return None
    if run is not None or (begin is not None and resume is not None):
        raise ConfigError("choose one: a run to look at, --start, or --resume")
    if readonly:
        raise ConfigError("--readonly changes nothing, so it starts no run: leave one of them out")
    if begin is not None:
        return run_order(begin, changes, root, name)
    return resume_order(resume or "", changes, root)


def _say(line: str) -> None:
    sys.stderr.write(f"{printable(line)}\n")


def _find(root: Path, text: str | None) -> tuple[Path, RunDir | None]:
    """The folder of runs and the run that one word means.  Raises ConfigError."""
    if text is None:
        return root, None
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - the methods of Path may raise
    named = any(os.path.isfile(RunDir(p).database) for p in (root / text, path))  # noqa: PTH113
    if text and not named and os.path.isdir(path):  # noqa: PTH112
        return path, None
    found = RunDir.find(root, text)
    return found.path.parent, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; returns the exit code.  Errors are one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = typer.main.get_command(cli)(words, prog_name="maporl-tui", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except MaporlError as error:
        if "--debug" in words:
            raise
        _say(f"maporl-tui: {error}")
        return error.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # not Typer's: let it be seen whole
            raise
        _say(f"maporl-tui: {error.format_message().rstrip('.')}. See: maporl-tui --help")
        return 2


if __name__ == "__main__":
    sys.exit(main())
