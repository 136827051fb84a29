"""A run told in lines: plain text for files and pipes, JSON for machines, a bar for one-off jobs.

In: the calls of ``Progress``.  Out: lines on stdout or a bar on stderr.  Neighbours: ``live`` is
the same for a terminal; ``run``, ``evaluate`` and ``debate`` choose.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)

from maporl_core.cli.views.loading import Loading, is_loading, spinner_name
from maporl_core.cli.views.state import RunState
from maporl_core.cli.views.tables import gain_table, interval_text
from maporl_core.cli.views.terminal import duration, json_text, number, percent, plain
from maporl_core.kit.plain_text import one_line
from maporl_core.types import EvalSummary, PairedGain, StepReport

QUIET_SECONDS = 10.0  # a long stage says how far it is about this often


class PlainLines:
    """Progress as text lines, one per step; nothing is redrawn."""

    def __init__(self, state: RunState, console: Console) -> None:
        self.state = state
        self.console = console
        self._last_line = state.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None

    def stage(self, name: str, total: int | None = None) -> None:
        self.state.begin_stage(name, total)
        if not name.startswith("step "):  # steps have a line of their own when they are done
            self._line(self.state.stage)

    def advance(self, count: int = 1) -> None:
        self.state.advance(count)
        total = self.state.stage_total
        if total and self.state.now() - self._last_line >= QUIET_SECONDS:
            self._line(f"{self.state.stage}: {self.state.stage_done}/{total}")

    def step_done(self, report: StepReport) -> None:
        self.state.step_done(report)
        accuracy = [
            percent(report.metrics.get(f"accuracy/turn_{t + 1}")) for t in range(self.state.turns)
        ]
        self._line(
            f"step {report.step}/{report.steps}  accuracy by turn {' '.join(accuracy)}  "
            f"reward {number(report.metrics.get('reward/total'))}  "
            f"KL {number(report.metrics.get('ppo/kl'))}  {duration(report.seconds)}  "
            f"left {duration(self.state.eta)}"
        )

    def evaluated(self, summary: EvalSummary) -> None:
        self.state.evaluated(summary)
        turns = ", ".join(interval_text(interval) for interval in summary.accuracy_T)
        self._line(f"evaluated {summary.label} on {summary.questions} questions: {turns}")

    def gained(self, gain: PairedGain) -> None:
        self.state.gain = gain
        self.console.print(gain_table(gain))

    def log(self, level: str, text: str) -> None:
        event = self.state.log(level, text)
        self._line(event.text if level == "info" else f"{level}: {event.text}")

    def _line(self, text: str) -> None:
        self._last_line = self.state.now()
        # soft_wrap: a line of a log stays one line however narrow the pipe claims to be.
        self.console.print(plain(f"{time.strftime('%H:%M:%S')} {text}"), soft_wrap=True)


class JsonLines:
    """Progress as one JSON object per line; docs/cli.md lists the events."""

    def __init__(self, state: RunState, file: TextIO | None = None) -> None:
        self.state = state
        self.file = file or sys.stdout
        self._last_progress = state.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None

    def emit(self, event: str, **facts: Any) -> None:
        record = {"event": event, "time": round(time.time(), 3), **facts}
        self.file.write(json_text(record) + "\n")
        self.file.flush()

    def stage(self, name: str, total: int | None = None) -> None:
        self.state.begin_stage(name, total)
        self.emit("stage", name=name, total=total)

    def advance(self, count: int = 1) -> None:
        self.state.advance(count)
        if self.state.now() - self._last_progress >= 1.0:
            self._last_progress = self.state.now()
            self.emit("progress", done=self.state.stage_done, total=self.state.stage_total)

    def step_done(self, report: StepReport) -> None:
        self.state.step_done(report)
        self.emit(
            "step",
            step=report.step,
            steps=report.steps,
            seconds=report.seconds,
            eta=self.state.eta,
            metrics=report.metrics,
        )

    def evaluated(self, summary: EvalSummary) -> None:
        self.state.evaluated(summary)
        self.emit("evaluated", summary=summary)

    def gained(self, gain: PairedGain) -> None:
        self.state.gain = gain
        self.emit("gained", gain=gain)

    def log(self, level: str, text: str) -> None:
        self.state.log(level, text)
        self.emit("log", level=level, text=one_line(text, 2000))


class StageBar:
    """Progress of a job whose result goes to stdout: one bar on stderr, gone when it is done.

    Not a terminal: stages and warnings as lines.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = Bars(
            SpinnerColumn(spinner_name(console)),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._loading = Loading(console)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.pause()

    def pause(self) -> None:
        """Clear the bar, so that something else can be drawn; the next stage brings it back."""
        self._loading.done()
        self._bars.stop()
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def stage(self, name: str, total: int | None = None) -> None:
        if not self.console.is_terminal or is_loading(name):
            self._bars.stop()
            self._loading.show(name)
            return
        self._loading.done()
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._bars.start()
        self._task = self._bars.add_task(one_line(name, 60), total=total)

    def advance(self, count: int = 1) -> None:
        if self._task is not None:
            self._bars.advance(self._task, count)

    def step_done(self, report: StepReport) -> None:
        """One-off jobs have no steps."""

    def evaluated(self, summary: EvalSummary) -> None:
        """The command prints the result itself."""

    def gained(self, gain: PairedGain) -> None:
        """The command prints the result itself."""

    def log(self, level: str, text: str) -> None:
        line = one_line(text, 500)
        self._bars.console.print(plain(line if level == "info" else f"{level}: {line}"))
