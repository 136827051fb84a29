"""``maporl tui`` and ``--tui``: hand over to the terminal app.

In: words for ``maporl-tui``.  Out: this process becomes the app; nothing comes back.  Neighbours:
``run`` starts runs through it.  The app is another package: it is started, never imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from maporl_core.cli.shared import examples
from maporl_core.errors import ConfigError

EXAMPLES = examples(
    ("maporl tui", "the runs below runs/"),
    ("maporl tui pocket --readonly", "one run"),
    ("maporl run gsm8k --tui", "start a run and watch it"),
)
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

TuiOption = Annotated[
    bool,
    typer.Option("--tui", help="Train in a process of its own, and open the terminal app on it."),
]


def tui_command(context: typer.Context) -> None:
    """Open the terminal app; takes the arguments of maporl-tui."""
    open_app(context.args)


def need_terminal(json: bool) -> None:
    """Raise ConfigError where ``--tui`` cannot be followed."""
    if json:
        raise ConfigError("--tui and --json exclude each other: choose one")
    if not (os.isatty(0) and os.isatty(1)):
        raise ConfigError("--tui needs a terminal; leave it out here")


def start_words(
    option: str, what: str | None, changes: Sequence[str], root: Path, name: str | None = None
) -> list[str]:
    """Words for ``maporl-tui`` that start or resume a run; ``option`` is --start or --resume."""
    words = [option, what or "pocket", "--root", str(root)]
    for change in changes:
        words += ["--set", change]
    return words if name is None else [*words, "--name", name]


def open_app(words: Sequence[str]) -> NoReturn:
    """Become the app."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "maporl_tui", *words])
