"""The live view and its tables: what they show, and that they fit any terminal."""

from __future__ import annotations

import io
import json
import math
import signal
from pathlib import Path

import pytest
from cli_samples import HOSTILE, HOSTILE_VISIBLE, gain, report, summary
from rich.console import Console

from maporl_core.cli.views.lines import JsonLines, PlainLines
from maporl_core.cli.views.live import LiveView, Screen
from maporl_core.cli.views.loading import Loading, may_download
from maporl_core.cli.views.state import RunState
from maporl_core.cli.views.tables import gain_table, summary_table
from maporl_core.cli.views.terminal import bytes_text, duration, number, percent
from maporl_core.kit.signals import StopFlag
from maporl_core.kit.sparkline import sparkline
from maporl_core.types import Interval, PairedGain


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def terminal(width: int = 80, height: int = 24, encoding: str = "utf-8") -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(
        file=file,
        width=width,
        height=height,
        force_terminal=True,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={"TERM": "xterm"},
        legacy_windows=False,
    )


def drawn(screen: Screen, console: Console) -> list[str]:
    lines = console.render_lines(screen, console.options, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def watched(turns: int = 3, steps: int = 5) -> RunState:
    state = RunState(10, turns, Clock())
    state.evaluated(summary((0.51,) * turns))
    for step in range(1, steps + 1):
        state.step_done(report(step))
    state.begin_stage("step 6: rollout", 48)
    state.advance(12)
    return state


# The screen -------------------------------------------------------------------------------------


def test_the_screen_shows_how_far_how_good_and_how_fast() -> None:
    state = watched()
    state.now.time += 65  # type: ignore[attr-defined]
    state.log("warning", "KL is high")
    lines = drawn(Screen(state, "maporl  pocket", "3 agents x 3 turns"), terminal())
    text = "\n".join(lines)
    assert lines[0].startswith("maporl  pocket")
    assert lines[0].endswith("step 5/10  1:05, left 10 s")
    assert lines[2].startswith("training")
    assert lines[2].endswith("50.0%")
    assert lines[3].startswith("step 6: rollout")
    assert lines[3].endswith("12/48")
    row = next(line for line in lines if line.startswith("accuracy turn 3"))
    assert row.split()[3:5] == ["51.0%", "59.0%"]  # before; mean of .53 .56 .59 .62 .65
    assert row.split()[5] == "▂▄▅▇█"  # eighths of the way from .50, the lowest of all, to .65
    assert "rollout tok/s" in text
    assert "8,123" in text
    assert lines[-1].endswith("KL is high")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12), (20, 5), (3, 2), (1, 1)])
@pytest.mark.parametrize("turns", [1, 3, 30])
def test_the_screen_fits_any_terminal(size: tuple[int, int], turns: int) -> None:
    state = watched(turns)
    for _ in range(200):
        state.log("error", HOSTILE * 5)
    lines = drawn(Screen(state, "maporl " + "x" * 90, "y" * 200), terminal(*size))
    assert 1 <= len(lines) <= max(1, size[1] - 1)
    assert all(len(line) <= size[0] for line in lines)


def test_of_many_turns_the_first_and_the_last_are_shown() -> None:
    text = "\n".join(drawn(Screen(watched(30), "t", "s"), terminal()))
    assert "accuracy turn 1 " in text
    assert "accuracy turn 30" in text
    assert "accuracy turn 5 " not in text


def test_a_screen_without_utf8_draws_in_ascii() -> None:
    console = terminal(encoding="ascii")
    assert console.options.ascii_only
    lines = drawn(Screen(watched(), "maporl", "s"), console)
    assert "\n".join(lines).isascii()


def test_model_text_in_events_is_shown_as_written_and_cannot_move_the_cursor() -> None:
    state = watched()
    state.log("info", HOSTILE)
    last = drawn(Screen(state, "t", "s"), terminal(200))[-1]
    assert HOSTILE_VISIBLE in last
    assert all(ord(c) >= 32 for c in last)


def test_a_stop_signal_is_answered_in_the_next_drawing_and_not_after_the_end() -> None:
    stop = StopFlag()
    screen = Screen(watched(), "maporl", "where it is", lambda: stop.answer)
    assert "where it is" in drawn(screen, terminal())[1]
    stop.handle(signal.SIGINT, None)
    line = drawn(screen, terminal(80))[1]
    assert line.rstrip() == stop.answer
    screen.finished = True
    assert "where it is" in drawn(screen, terminal())[1]


def test_the_live_view_waits_for_downloads_and_ends_with_the_gain() -> None:
    console = terminal()
    with LiveView(watched(), console, "maporl", "s") as view:
        view.stage("loading libraries")
        view.stage("loading model org/x")
        assert not view._live.is_started
        view.stage("evaluating before", 10)
        assert view._live.is_started
        view.step_done(report(6))
        view.evaluated(summary())
        view.gained(gain())
    console.file.flush()
    shown = console.file.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert not view._live.is_started
    assert shown.index("loading model org/x …") < shown.index("training")
    assert "+22.5 [+19.2, +25.7]" in shown[shown.index("gain in points") :]
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor comes back


# State ------------------------------------------------------------------------------------------


def test_time_left_is_steps_left_at_the_pace_of_the_last_ones() -> None:
    state = RunState(10, 3)
    assert state.eta is None
    state.step_done(report(1))
    state.step_done(report(2))
    assert state.eta == 8 * 2.0


def test_now_is_the_mean_of_the_last_ten_steps() -> None:
    state = watched(steps=20)
    expected = sum(0.5 + 0.02 * step for step in range(11, 21)) / 10
    assert state.recent("accuracy/turn_2") == pytest.approx(expected)
    assert state.recent("nothing") is None


def test_only_the_first_untrained_evaluation_is_before() -> None:
    state = RunState(10, 3)
    state.evaluated(summary((0.9,), "trained"))
    assert state.before is None
    state.evaluated(summary((0.5,)))
    state.evaluated(summary((0.7,)))
    assert state.before is not None
    assert state.before.accuracy_T[0].mean == 0.5


# Loading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "fetches"),
    [
        ("loading libraries", False),
        ("loading model pocket", False),
        ("loading model org/name", True),
        ("loading task pocket", False),
        ("loading task gsm8k", True),
    ],
)
def test_a_spinner_turns_only_where_no_download_draws_a_bar(stage: str, fetches: bool) -> None:
    assert may_download(stage) == fetches
    console = terminal()
    loading = Loading(console)
    loading.show(stage)
    assert (loading._status is None) == fetches
    loading.done()
    assert loading._status is None


def test_a_local_model_is_not_downloaded(tmp_path: Path) -> None:
    assert not may_download(f"loading model {tmp_path}")


# Lines ------------------------------------------------------------------------------------------


def test_a_long_stage_says_how_far_it_is_every_ten_seconds() -> None:
    clock, file = Clock(), io.StringIO()
    view = PlainLines(RunState(10, 3, clock), Console(file=file, width=80))
    view.stage("evaluating before", 100)
    for _ in range(4):
        clock.time += 6
        view.advance(25)
    assert [line[9:] for line in file.getvalue().splitlines()] == [
        "evaluating before",
        "evaluating before: 50/100",
        "evaluating before: 100/100",
    ]


def test_json_progress_comes_once_a_second_and_nan_is_null() -> None:
    clock, file = Clock(), io.StringIO()
    view = JsonLines(RunState(10, 3, clock), file)
    view.stage("evaluating", 100)
    for _ in range(8):
        clock.time += 0.5
        view.advance(5)
    step = report(1)
    view.step_done(type(step)(1, 10, {"x": math.nan}, 1.0))
    view.log("info", HOSTILE)
    events = [json.loads(line) for line in file.getvalue().splitlines()]
    done = [event["done"] for event in events if event["event"] == "progress"]
    assert done == [10, 20, 30, 40]
    assert events[-2]["metrics"] == {"x": None}
    assert HOSTILE_VISIBLE in events[-1]["text"]
    assert file.getvalue().isascii()


# Tables -----------------------------------------------------------------------------------------


def lines_of(renderable: object, width: int = 80) -> list[str]:
    console = terminal(width)
    with console.capture() as capture:
        console.print(renderable)
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", capture.get()).splitlines()


def test_the_gain_table_fits_80_columns_even_at_the_extremes() -> None:
    full = (Interval(1.0, 1.0, 1.0),) * 3
    wide = PairedGain(
        summary((1.0,) * 3), summary((1.0,) * 3, "trained"), (Interval(-1.0, -1.0, -1.0),) * 3
    )
    wide = PairedGain(_with(wide.before, full), _with(wide.after, full), wide.gain_T)
    lines = lines_of(gain_table(wide))
    assert all(len(line) <= 80 for line in lines)
    row = next(line for line in lines if line.startswith("turn 1"))
    assert row.split("  ")[-1].strip() == "-100.0 [-100.0, -100.0]"
    assert "100.0% [100.0, 100.0]" in row
    assert "…" not in "".join(lines)


def _with(found: object, intervals: tuple[Interval, ...]) -> object:
    import dataclasses

    return dataclasses.replace(found, accuracy_T=intervals, majority_T=intervals)  # type: ignore[type-var]


def test_a_gain_clear_of_zero_is_coloured_and_others_are_not() -> None:
    console = terminal()
    with console.capture() as capture:
        console.print(gain_table(gain()))
    rows = {line.split("  ")[0][-6:]: line for line in capture.get().splitlines() if "turn" in line}
    assert "\x1b[32m" in rows["turn 2"]
    assert "\x1b[32m" not in rows["turn 1"]


def test_an_evaluation_shows_accuracy_agents_vote_and_changes() -> None:
    text = "\n".join(lines_of(summary_table(summary())))
    assert "before (base): 500 questions of pocket/test, temperature 1, seed 0" in text
    assert "51.0% [49.0, 53.0]" in text
    assert "Cy" in text
    assert "corrected (wrong→right)" in text
    assert "12" in text
    assert "cut short 1.0%" in text


def test_an_evaluation_without_gold_answers_shows_dashes() -> None:
    import dataclasses

    unknown = (Interval(math.nan, math.nan, math.nan),)
    empty = dataclasses.replace(
        summary((0.5,)),
        accuracy_T=unknown,
        majority_T=unknown,
        transitions={},
        accuracy_TA=((math.nan,) * 3,),
        oracle_T=(math.nan,),
    )
    row = next(line for line in lines_of(summary_table(empty)) if line.startswith("1"))
    assert row.split() == ["1", "-", "-", "-", "-", "-", "-", "30.0%"]


# Formats ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (percent(0.5123), "51.2%"),
        (percent(None), "-"),
        (percent(math.nan), "-"),
        (number(0.01234), "0.0123"),
        (number(8123.4), "8,123"),
        (duration(1.44), "1.4 s"),
        (duration(59.6), "1:00"),
        (duration(3723), "1:02:03"),
        (duration(None), "-"),
        (duration(math.inf), "-"),
        (bytes_text(512), "512 B"),
        (bytes_text(3 << 30), "3.0 GiB"),
        (bytes_text(5 << 40), "5.0 TiB"),
        (sparkline([0, 1, 2, 3], 4), "▁▃▆█"),
        (sparkline([0, math.nan, 1], 9), "▁ █"),
        (sparkline([5, 5], 9), "▅▅"),
        (sparkline([1, 2, 3], 2, 0, 4), "▅▇"),
        (sparkline([1, 2], 0), ""),
        (sparkline([], 5), ""),
    ],
)
def test_formats(shown: str, expected: str) -> None:
    assert shown == expected
