"""The ``maporl`` command line: assembles the groups and turns failures into exit codes.

In: the words of a command line.  Out: an exit code: 0 done, 2 wrong usage or config, 3 data,
4 model or device, 5 store or disk, 130 interrupted after saving, 1 anything unforeseen.
Neighbours: one module per command group beside this one.  Loads no torch: commands import what
they need when they run.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Sequence

import typer
from typer import rich_utils

from maporl_core.cli import (
    ask,
    bench,
    compare,
    config,
    debate,
    doctor,
    evaluate,
    kinds,
    pocket,
    run,
    runs,
    tui,
    verifier,
)
from maporl_core.cli.shared import examples, show_help
from maporl_core.cli.views.terminal import replace_unencodable, say, say_error
from maporl_core.errors import Interrupted, MaporlError
from maporl_core.kit.out_of_memory import out_of_memory
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.version import __version__

HELP_COLUMNS = 80

app = typer.Typer(
    name="maporl",
    help="Co-train language-model agents that discuss: watch, measure and question them.",
    epilog=examples(
        ("maporl run", "co-train the built-in agents on this CPU, in minutes"),
        ("maporl run gsm8k --set train.steps=20", "a preset with one key changed"),
        ("maporl debate --both --run pocket", "before and after training, side by side"),
        ("maporl doctor gsm8k", "will it run here, and in how much memory?"),
    ),
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)
app.command("run", epilog=run.RUN_EXAMPLES)(run.run_command)
app.command("resume", epilog=run.RESUME_EXAMPLES)(run.resume_command)
app.command("eval", epilog=evaluate.EXAMPLES)(evaluate.eval_command)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare_command)
app.command("debate", epilog=debate.EXAMPLES)(debate.debate_command)
app.add_typer(runs.app, name="runs")
app.add_typer(config.app, name="config")
app.command("kinds", epilog=kinds.KINDS_EXAMPLES)(kinds.kinds_command)
app.add_typer(pocket.app, name="pocket")
app.add_typer(bench.app, name="bench")
app.add_typer(verifier.app, name="verifier")
app.command("ask-worker", hidden=True)(ask.ask_command)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor_command)
app.command("tui", epilog=tui.EXAMPLES, context_settings=tui.PASSED_ON)(tui.tui_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"maporl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    # ``debug`` is read in ``main``: errors may come before and after this function runs.
    del debug, version
    show_help(context)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code.  Errors are one line on stderr."""
    # Read by OpenMP when torch is loaded: threads that wait by spinning stall each other as soon
    # as anything else runs on the machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    replace_unencodable()
    _give_help_room()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in _global_words(words)
    try:
        code = app(words, prog_name="maporl", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        say_error("interrupted")
        return Interrupted.exit_code
    except typer.Abort:
        say_error("nothing done")
        return 1
    except MaporlError as error:
        if debug:
            traceback.print_exc()
        say_error(f"maporl: {error}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the boundary: whatever is left becomes one line
        if hasattr(error, "format_message"):  # Typer's own: a wrong option, a missing argument
            return _usage_error(error)
        if debug:
            traceback.print_exc()
        line, code = _explain(error, words)
        say_error(line)
        return code


def _give_help_room() -> None:
    """Lay out help for 80 columns at least; on fewer its tables would cut words."""
    columns = shutil.get_terminal_size().columns
    rich_utils.MAX_WIDTH = HELP_COLUMNS if columns < HELP_COLUMNS else None


def _global_words(words: Sequence[str]) -> list[str]:
    """Options before the command's name."""
    first = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    return list(words[:first])


def _usage_error(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "maporl"
    message = one_line(error.format_message(), 400)  # type: ignore[attr-defined]
    stop = "" if message.endswith((".", "?", "!")) else "."
    say_error(f"maporl: {message}{stop} See: {where} --help")
    return 2


def _explain(error: Exception, words: Sequence[str]) -> tuple[str, int]:
    """One line and an exit code for what no part of the project raised on purpose."""
    text = one_line(error) or "no message"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"maporl: the disk is full ({text}); free some space and try again", 5
    if out_of_memory(error):
        return (
            f"maporl: out of memory ({text}); lower update.micro_tokens and engine.max_batch, "
            "and see: maporl doctor",
            4,
        )
    again = shlex.join(["maporl", "--debug", *words])
    return f"maporl: unexpected {type(error).__name__}: {text}; for details run: {again}", 1
