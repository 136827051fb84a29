"""One line at the bottom: which run, connection, step, stage, time left, age of the last event.

In: the app's view of the run.  Out: a line that changes no oftener than once a second, and only
when its text does.  Neighbours: every screen has one above its footer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
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

    def on_resize(self) -> None:
        self._write()

    def show(self, view: RunView | None) -> None:
        self._view = view
        self._write()

    def _write(self) -> None:
        line = status_text(self._view, time.time(), self.size.width or None)
        if line != self._shown:
            self._shown = line
            self.update(Content(line))
        view = self._view
        self.set_class(view is not None and view.problem is not None, "-trouble")
        self.set_class(view is not None and view.stale, "-stale")


def status_text(view: RunView | None, now: float, width: int | None = None) -> str:
    """The line for one view; ``now`` in seconds since 1970.

    What does not fit into ``width`` cells is said shorter, and then left out, the least important
    first: no end is cut off.
    """
    if view is None:
        return _cut("no run: choose one on 1 Runs, or start one on 6 Launch", width)
    if view.problem is not None:
        return _cut(f"{view.name}: trying again · {one_line(view.problem, 200)}", width)
    parts = _parts(view, now)
    if width is None:
        return _joined(part.text for part in parts)
    for rank in sorted({part.rank for part in parts}, reverse=True):
        if _fits(parts, width):
            break
        parts = [replace(p, text=p.short) if p.rank == rank else p for p in parts]
    for rank in sorted({part.rank for part in parts if part.rank}, reverse=True):
        if _fits(parts, width):
            break
        parts = [part for part in parts if part.rank != rank]
    return _cut(_joined(part.text for part in parts), width)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of the line, what it may be shortened to, and how soon it has to go (0: never)."""

    text: str
    short: str
    rank: int


def _parts(view: RunView, now: float) -> list[_Part]:
    status = view.status
    of = f"/{status.steps}" if status.steps is not None else ""
    step = f"{status.step}{of}"
    parts = [_Part(view.name, one_line(view.name, 20), 1), _Part(status.state, status.state, 0)]
    parts.append(_Part(f"step {step}", f"step {step}", 0))
    if view.stage is not None:
        stage = str(view.stage).removeprefix(f"step {status.step + 1}: ")
        parts.append(_Part(stage, one_line(stage, 24), 2))
    if status.state == "running" and view.stale:
        quiet = f"no sign of life for {age(status.quiet)}"
        parts.append(_Part(quiet, f"silent for {age(status.quiet)}", 0))
    if view.waiting:
        asked = "asked: " + ", ".join(request.command for request in view.waiting)
        parts.append(_Part(asked, one_line(asked, 20), 3))
    if status.state in ("failed", "died") and status.reason:
        parts.append(_Part(one_line(status.reason, 80), one_line(status.reason, 30), 4))
    if view.seconds_left is not None:
        parts.append(_Part(f"{age(view.seconds_left)} left", f"{age(view.seconds_left)} left", 5))
    if last := view.last_heard:
        since = age(max(0.0, now - last))
        parts.append(_Part(f"last event {since} ago", f"{since} ago", 6))
    return parts


def _fits(parts: Sequence[_Part], width: int) -> bool:
    return cell_len(_joined(part.text for part in parts)) <= width


def _joined(texts: Iterable[str]) -> str:
    return " · ".join(texts)


def _cut(line: str, width: int | None) -> str:
    """``line`` in at most so many cells, with an ellipsis where it had more."""
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, max(0, width - 1)).rstrip() + "…" if width > 0 else ""
