"""``maporl-tui``: watch, inspect, compare and launch co-training runs in a terminal.

In: words of a command line.  Out: the app, then an exit code: 0 left by its user, 2 wrong usage,
5 a store that cannot be read.  Neighbours: ``app`` is what starts; ``maporl tui`` calls this too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from maporl_core.errors import ConfigError, MaporlError
from maporl_core.store.reader import RunDir

DEFAULT_ROOT = Path("runs")

cli = typer.Typer(
    name="maporl-tui", add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False
)


@cli.command()
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """See the agents talk, know why they were paid, drive the run.

    Training is a process of its own: leaving the app, or losing the terminal, never touches it.
    """
    del debug  # read in ``main``: errors may come before this function runs
    from maporl_tui.app import MaporlApp, Options

    if screen is not None and screen not in MaporlApp.SCREENS:
        raise ConfigError(f"no screen {screen!r}: one of {', '.join(MaporlApp.SCREENS)}")
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise ConfigError(
            "maporl-tui needs a terminal; without one use: maporl runs list, maporl runs show RUN"
        )
    folder, found = _find(root, run)
    MaporlApp(Options(folder, found, screen, readonly, theme, refresh)).run(mouse=mouse)


def _find(root: Path, text: str | None) -> tuple[Path, RunDir | None]:
    """The folder of runs and the run that one word means.  Raises ConfigError."""
    if text is None:
        return root, None
    path = Path(text).expanduser()
    if path.is_dir() and not RunDir(path).database.is_file() and not (root / text).is_dir():
        return path, None
    found = RunDir.find(root, text)
    return found.path.parent, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; returns the exit code.  Errors are one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = typer.main.get_command(cli)(words, prog_name="maporl-tui", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except MaporlError as error:
        if "--debug" in words:
            raise
        sys.stderr.write(f"maporl-tui: {error}\n")
        return error.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # not Typer's: let it be seen whole
            raise
        sys.stderr.write(f"maporl-tui: {error.format_message()}. See: maporl-tui --help\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
