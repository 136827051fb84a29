"""What several commands share: options, shell completion, finding a run, examples in help.

In: words of the command line.  Out: typed values and paths.  Neighbours: the command modules.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from maporl_core.config.keys import leaf_keys
from maporl_core.config.load import load_stored, preset_names
from maporl_core.config.schema import RunConfig
from maporl_core.errors import MaporlError
from maporl_core.store.paths import RunDir, runs_below

DEFAULT_ROOT = Path("runs")


_Value = TypeVar("_Value")


def given(value: _Value | None, default: _Value) -> _Value:
    """An option's value, or the default where the option was left out."""
    return default if value is None else value


def examples(*pairs: tuple[str, str]) -> str:
    """An epilog of (command line, what it does) pairs; brackets are safe in it."""
    blocks = ["[bold]Examples[/bold]"]
    for command, meaning in pairs:
        escaped = command.replace("[", r"\[")
        blocks.append(f"  [cyan]{escaped}[/cyan]\n    {meaning}")
    return "\n\n".join(blocks)


def show_help(context: typer.Context) -> None:
    """A group called without a command shows its help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


# --- completion ----------------------------------------------------------------------------------


def complete_preset(incomplete: str) -> list[str]:
    """Presets, and TOML files of the current folder."""
    names = [name for name in preset_names() if name.startswith(incomplete)]
    try:
        files = sorted(str(path) for path in Path().glob(f"{_no_glob(incomplete)}*.toml"))
    except (OSError, ValueError):
        files = []
    return names + files


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Run names under --root (or runs/)."""
    root = Path(context.params.get("root") or DEFAULT_ROOT)
    return [name for name in run_names(root) if name.startswith(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Config keys for --set."""
    return [f"{key}=" for key in leaf_keys() if key.startswith(incomplete)]


def _no_glob(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


# --- options -------------------------------------------------------------------------------------

SourceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PRESET|FILE",
        help="A preset, or a TOML file (a name with / or ending in .toml). Default: pocket.",
        autocompletion=complete_preset,
        show_default=False,
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Name of a run under --root, or the path of its folder.",
        autocompletion=complete_run,
        show_default=False,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one config key, such as train.steps=20; may be repeated.",
        autocompletion=complete_key,
        show_default=False,
    ),
]
RootOption = Annotated[
    Path,
    typer.Option("--root", metavar="FOLDER", help="Folder that holds the runs."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


# --- runs ----------------------------------------------------------------------------------------


def run_names(root: Path) -> list[str]:
    """Names of the runs under ``root``; none if it cannot be read."""
    try:
        return [run.name for run in runs_below(root)]
    except MaporlError:
        return []


def split_checkpoint(root: Path, text: str) -> tuple[RunDir, str | None]:
    """ "RUN" or "RUN/CHECKPOINT" → (the run, name of the checkpoint or None).

    Raises ConfigError when there is no such run; the checkpoint is not looked at.
    """
    text = text.rstrip("/")
    name, _, checkpoint = text.rpartition("/")
    if name and _is_checkpoint_name(checkpoint) and not RunDir(Path(text)).database.is_file():
        return RunDir.find(root, name.removesuffix("/checkpoints")), checkpoint
    return RunDir.find(root, text), None


def _is_checkpoint_name(text: str) -> bool:
    return text == "final" or text.startswith("step-")


def policy_state(checkpoint: str | None) -> str:
    """The state that RUN or RUN/CHECKPOINT means: "trained" or a checkpoint's name."""
    return "trained" if checkpoint is None or checkpoint == "final" else checkpoint


def stored_config(run: RunDir) -> RunConfig:
    """The config a run was made with."""
    return load_stored(run.config)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: whatever is half written is removed on the way out."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
