"""One line at the bottom: which run, connection, step, stage, time left, age of the last event.

In: the app's view of the run.  Out: a line that changes no oftener than once a second, and only
when its text does.  Neighbours: every screen has one above its footer.
"""

from __future__ import annotations

import time

from textual.content import Content
from textual.widgets import Static

from maporl_tui.drawing.text import age, one_line
from maporl_tui.reading.view import RunView


class StatusLine(Static):
    """The state of the run that the app looks at."""

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; color: $foreground; padding: 0 1;
                 text-wrap: nowrap; text-overflow: ellipsis; }
    StatusLine.-trouble { background: $error; color: $on-color; text-style: bold; }
    StatusLine.-stale { color: $text-muted; text-style: italic; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False, id="status-line")
        self._shown = ""
        self._view: RunView | None = None

    def on_mount(self) -> None:
        self.set_interval(1.0, self._write)

    def show(self, view: RunView | None) -> None:
        self._view = view
        self._write()

    def _write(self) -> None:
        line = status_text(self._view, time.time())
        if line != self._shown:
            self._shown = line
            self.update(Content(line))
        view = self._view
        self.set_class(view is not None and view.problem is not None, "-trouble")
        self.set_class(view is not None and view.stale, "-stale")


def status_text(view: RunView | None, now: float) -> str:
    """The line for one view; ``now`` in seconds since 1970."""
    if view is None:
        return "no run: choose one on 1 Runs, or start one on 6 Launch"
    if view.problem is not None:
        return f"{view.name}: trying again · {one_line(view.problem, 200)}"
    status = view.status
    of = f"/{status.steps}" if status.steps is not None else ""
    parts = [view.name, status.state, f"step {status.step}{of}"]
    if view.stage is not None:
        parts.append(str(view.stage).removeprefix(f"step {status.step + 1}: "))
    if status.state == "running" and view.stale:
        parts.append(f"no sign of life for {age(status.quiet)}")
    if view.waiting:
        parts.append("asked: " + ", ".join(request.command for request in view.waiting))
    if status.state in ("failed", "died") and status.reason:
        parts.append(one_line(status.reason, 80))
    if view.seconds_left is not None:
        parts.append(f"{age(view.seconds_left)} left")
    # Last, because it matters least where the line is too long for the terminal.
    last = max([event.time for event in view.events[-1:]] + [view.last_written or 0.0])
    if last:
        parts.append(f"last event {age(max(0.0, now - last))} ago")
    return " · ".join(parts)
