"""``maporl ask-worker``: the process behind "ask your own question" in the terminal app.

In: one or two sides; questions as JSON lines on stdin.  Out: events as JSON lines on stdout; what
libraries print goes to stderr.  Neighbour: ``runs.answer_worker`` does the work and describes the
lines.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from maporl_core.errors import MaporlError


def ask_command(
    sides: Annotated[
        list[str],
        typer.Argument(metavar="RUN_FOLDER::STATE", help="base, trained or a checkpoint's name."),
    ],
) -> None:
    """Answer questions over pipes, one JSON line each; ends with its input."""
    # Only events may reach stdout, whatever a library prints.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def emit(event: Mapping[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    try:
        emit({"event": "stage", "text": "loading libraries", "total": None})
        from maporl_core.runs.answer_worker import Side, Stages, Worker, lines_of

        worker = Worker([Side.parse(side) for side in sides], emit, Stages(emit))
        loading = True

        def leave() -> None:
            if loading:  # nobody is left to answer: models that nobody asks need not be loaded
                os._exit(0)

        worker.listen(lines_of(sys.stdin), leave)
        worker.load()
        loading = False
        worker.serve()
    except MaporlError as error:
        emit({"event": "problem", "ask": None, "text": str(error)})
        raise
