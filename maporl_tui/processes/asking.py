"""What the trainer is asked for, and when there is no point in asking.

In: a ``RunView`` and a command.  Out: the question to confirm, or why it is not asked.  Pure.
Neighbours: ``app`` asks, ``maporl_core.store.requests`` leaves the request.
"""

from __future__ import annotations

from collections.abc import Mapping

from maporl_tui.drawing.text import one_line
from maporl_tui.reading.view import RunView

QUESTIONS: Mapping[str, str] = {
    "pause": "Pause the run after this step?",
    "resume": "Let the run go on?",
    "checkpoint": "Save a checkpoint after this step?",
    "stop": "Save a checkpoint after this step and stop the run?",
}
_ENDS = {"finished": "is finished", "died": "died", "failed": "failed"}


def why_not(view: RunView | None, command: str) -> str | None:
    """Why the trainer is not asked for ``command``; None when it can be."""
    if view is None:
        return "no run to ask: choose one on 1 Runs"
    name = one_line(view.name, 80)
    if not view.is_live:
        ended = _ENDS.get(view.status.state, "was interrupted")
        return (
            f"{name} {ended}: no trainer lives that one could ask to {command}; start one with "
            f"`maporl resume {name}`"
        )
    if any(request.command == command for request in view.waiting):
        return f"{name}: {command} is asked for already; the trainer answers after this step"
    return None
