"""The live view of ``maporl run``: redrawn in place, a screen of at most the terminal's height.

In: the calls of ``Progress``.  Out: a Rich Live display; when the run ends, the display stays as it
was last.  Neighbours: ``state`` holds what is drawn, ``lines`` is the same without a terminal.

Rows from top to bottom, dropped from the bottom when the terminal is short: header, step bar,
stage bar, accuracy per turn (value before training, value now, sparkline over steps), reward,
KL and speed, last events.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from maporl_core.cli.views.loading import Loading, is_loading
from maporl_core.cli.views.state import RunState
from maporl_core.cli.views.tables import gain_table
from maporl_core.cli.views.terminal import duration, number, percent, plain
from maporl_core.kit.sparkline import sparkline
from maporl_core.types import EvalSummary, PairedGain, StepReport

REFRESH_HZ = 4
_LEVEL_STYLES = {"warning": "yellow", "error": "bold red"}
MEASURES: tuple[tuple[str, str], ...] = (
    ("reward", "reward/total"),
    ("KL", "ppo/kl"),
    ("rollout tok/s", "speed/rollout_tokens_per_second"),
    ("update tok/s", "speed/update_tokens_per_second"),
)
"""(what a row is called, the metric it shows)."""
MIN_EVENTS = 3
MAX_EVENTS = 8
_HEAD_ROWS = 5  # title, subtitle, step bar, stage bar, table header


class LiveView:
    """Progress as a display that redraws itself ``REFRESH_HZ`` times a second."""

    def __init__(
        self,
        state: RunState,
        console: Console,
        title: str,
        subtitle: str,
        notice: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.state = state
        self.console = console
        self.screen = Screen(state, title, subtitle, notice)
        self._loading = Loading(console)
        self._live = Live(
            self.screen,
            console=console,
            refresh_per_second=REFRESH_HZ,
            vertical_overflow="crop",
            redirect_stderr=True,
            redirect_stdout=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.screen.finished = True
        self._loading.done()
        if self._live.is_started:
            self._live.stop()
        if self.state.gain is not None:
            self.console.print()
            self.console.print(gain_table(self.state.gain))

    def stage(self, name: str, total: int | None = None) -> None:
        self.state.begin_stage(name, total)
        if self._live.is_started:
            return
        if is_loading(name):
            self._loading.show(self.state.stage)
        else:
            self._loading.done()
            self._live.start(refresh=True)

    def advance(self, count: int = 1) -> None:
        self.state.advance(count)

    def step_done(self, report: StepReport) -> None:
        self.state.step_done(report)

    def evaluated(self, summary: EvalSummary) -> None:
        self.state.evaluated(summary)
        turns = " ".join(percent(interval.mean) for interval in summary.accuracy_T)
        self.state.log("info", f"evaluated {summary.label}: accuracy by turn {turns}")

    def gained(self, gain: PairedGain) -> None:
        self.state.gain = gain

    def log(self, level: str, text: str) -> None:
        self.state.log(level, text)


class Screen:
    """What the live view shows now, cut to the terminal's size.

    ``notice`` is asked with every drawing for what matters more than the subtitle just now.
    """

    def __init__(
        self,
        state: RunState,
        title: str,
        subtitle: str,
        notice: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.state = state
        self.title = title
        self.subtitle = subtitle
        self.notice = notice
        self.finished = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        # One row less than the terminal: a full screen would scroll with every redraw.
        height = max(1, console.size.height - 1)
        lines: list[list[Segment]] = []
        for part in self._parts(height, width, options.ascii_only):
            lines += console.render_lines(part, options.update(height=None), pad=False)
        for line in lines[:height]:
            yield from Segment.adjust_line_length(line, width, pad=False)
            yield Segment.line()

    def _parts(self, height: int, width: int, ascii_only: bool) -> list[Text | Table]:
        turns = self._turn_rows(height)
        left = height - _HEAD_ROWS - len(turns) - len(MEASURES)
        events = min(MAX_EVENTS, max(0, left))
        return [
            self._header(width),
            self._second_row(),
            self._bars(),
            self._measures(turns, width, ascii_only),
            *self._events(events),
        ]

    def _header(self, width: int) -> Text:
        state = self.state
        right = f"step {state.step}/{state.steps}  {duration(state.elapsed)}"
        if state.eta is not None and not self.finished and state.step < state.steps:
            right += f", left {duration(state.eta)}"
        title = plain(self.title, "bold")
        gap = width - title.cell_len - len(right)
        if gap < 2:
            title.truncate(max(0, width - len(right) - 2), overflow="ellipsis")
            gap = width - title.cell_len - len(right)
        return _one_row(title.append(" " * max(gap, 1)).append(right))

    def _second_row(self) -> Text:
        notice = None if self.finished else self.notice()
        if notice is None:
            return _one_row(plain(self.subtitle, "dim"))
        return _one_row(plain(notice, "bold yellow"))

    def _bars(self) -> Table:
        state = self.state
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, ratio=2, overflow="ellipsis")
        grid.add_column(ratio=3)
        grid.add_column(no_wrap=True, justify="right", width=11)
        steps = max(1, state.steps)
        grid.add_row(
            plain("training"), ProgressBar(steps, state.step), plain(percent(state.step / steps))
        )
        if self.finished:
            return grid
        total = state.stage_total
        counted = plain(f"{state.stage_done}/{total}" if total else "")
        bar = ProgressBar(total or None, state.stage_done, pulse=total is None)
        grid.add_row(plain(state.stage), bar, counted)
        return grid

    def _turn_rows(self, height: int) -> list[int]:
        """Turns to show: all, or the first and the last ones that fit."""
        room = max(1, height - _HEAD_ROWS - len(MEASURES) - MIN_EVENTS)
        turns = list(range(self.state.turns))
        if len(turns) <= room:
            return turns
        return turns[:1] + turns[len(turns) - room + 1 :] if room > 1 else turns[-1:]

    def _measures(self, turns: list[int], width: int, ascii_only: bool) -> Table:
        state = self.state
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right", min_width=7)
        table.add_column(no_wrap=True, justify="right", min_width=7)
        table.add_column(no_wrap=True)
        bars = max(0, min(60, width - 15 - 2 * 7 - 6))
        table.add_row(
            plain(""), plain("before", "dim"), plain("now", "dim"), plain("over steps", "dim")
        )
        series = {turn: state.accuracy(turn) for turn in turns}
        every = [value for values in series.values() for value in values]
        low, high = (min(every), max(every)) if every else (0.0, 1.0)
        for turn in turns:
            before = state.before.accuracy_T[turn].mean if state.before else None
            table.add_row(
                plain(f"accuracy turn {turn + 1}"),
                plain(percent(before)),
                plain(percent(state.recent(f"accuracy/turn_{turn + 1}")), "bold"),
                plain(sparkline(series[turn], bars, low, high, ascii_only), "cyan"),
            )
        for label, metric in MEASURES:
            line = sparkline(state.values(metric), bars, ascii_only=ascii_only)
            table.add_row(
                plain(label), plain(""), plain(number(state.recent(metric))), plain(line, "blue")
            )
        return table

    def _events(self, count: int) -> list[Text]:
        lines = []
        for event in list(self.state.events)[-count:] if count else []:
            style = _LEVEL_STYLES.get(event.level, "dim")
            lines.append(_one_row(plain(f"{event.clock} {event.text}", style)))
        return lines


def _one_row(text: Text) -> Text:
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text
