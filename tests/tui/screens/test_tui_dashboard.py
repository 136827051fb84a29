"""The Dashboard on a screen: every key, every state of a run, what is read and drawn when."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tui_samples import AGENTS, demo_run, own_settings, run_app, screen_text, shown, until

from maporl_core.config.load import dump_toml, load_config
from maporl_core.kit.progress import KeptStage, Silent
from maporl_core.store.paths import RunDir
from maporl_core.store.writer import StoreWriter
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.screens.dashboard.chart_grid import ChartGrid
from maporl_tui.screens.dashboard.charts import ChartsPane
from maporl_tui.screens.dashboard.log_view import LogView
from maporl_tui.screens.dialogs import Ask, Whole

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")

HOSTILE = "[/red] [/ [a=b: c] \x1b[31mred\x1b[0m \x1b]0;title\x07 \r\x00 \ud800 🦊 漢字"


def plain_run(root: Path, steps: int, state: str = "finished", **last: float) -> RunDir:
    """A run of quick steps with two metrics; ``last`` are values of the last step beside them."""
    config = load_config("pocket", ["name=plain", f"train.steps={steps}"])
    facts = {"name": "plain", "task": "pocket", "steps": str(steps)}
    run = RunDir.create(root, "plain", dump_toml(config), facts)
    with StoreWriter(run) as writer:
        for step in range(1, steps + 1):
            values = {"messages/length": float(step), "ppo/kl": 0.001 * step}
            writer.write_step(step, [], values | (last if step == steps else {}))
        writer.set_state(state)
    return run


def charts(app: MaporlApp) -> ChartsPane:
    return app.screen.query_one(ChartsPane)


def grid(app: MaporlApp) -> ChartGrid:
    return app.screen.query_one(ChartGrid)


# On the screen ---------------------------------------------------------------------------------


async def test_the_overview_shows_agents_charts_machine_and_log(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "accuracy per turn") and shown(app, "CPU"))
        await until(pilot, lambda: shown(app, r"[▲▼≈]"))
        for words in (
            "Cy +trained on main",
            "charts 1–6 of 10 · steps 1–6",
            "losses",
            "entropy",
            r"steps 0 and 6",
            r"before +after +gain",
            "finished 6 steps",
            "◆",
        ):
            assert shown(app, words), words


async def test_a_small_screen_pages_through_the_charts_and_nothing_overlaps(
    tmp_path: Path,
) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run), size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "charts 1–2 of 10") and shown(app, "turn|1 0"))
        await pilot.press("right", "down", "up", "right")
        await until(pilot, lambda: shown(app, "charts 3–4 of 10") and shown(app, "KL to the base"))
        regions = [app.screen.query_one(f"#{name}").region for name in ("side", "charts", "log")]
        regions += [chart.region for _, chart in grid(app).placed()]
        assert all(app.screen.region.contains_region(region) for region in regions)
        apart = [regions[0], regions[2], *regions[3:]]
        for i, one in enumerate(apart):
            assert not any(one.overlaps(other) for other in apart[i + 1 :])


async def test_enter_and_z_zoom_a_chart_and_escape_goes_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "reward and its parts"))
        for there, back in (("enter", "enter"), ("z", "escape")):
            await pilot.press(there)
            await until(pilot, lambda: shown(app, "charts 1 of 10") and shown(app, "turn 3 0"))
            assert not shown(app, "reward and its parts")
            assert not shown(app, "log:")
            await pilot.press(back)
            await until(pilot, lambda: shown(app, "charts 1–6") and shown(app, "log:"))


async def test_the_crosshair_shows_the_values_of_a_step_and_copies_them(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "message length"))
        await pilot.press("x", "left", "left", "y")
        await until(pilot, lambda: shown(app, r"step 4  \* all 0\.004"))
        assert app.clipboard == "plain: KL to the base\nmetric,step,value\nppo/kl,4,0.004"
        await pilot.press("right", "down")
        await until(pilot, lambda: shown(app, r"▶ message length") and shown(app, "step 5  m"))
        await pilot.press("enter")
        await until(pilot, lambda: shown(app, r"charts 2 of 2") and shown(app, "step 5  m mean 5"))
        await pilot.press("escape", "y")
        assert app.clipboard.endswith("\nmessages/length,6,6.0")


async def test_the_log_axis_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "losses"))
        await pilot.press("l")
        await until(pilot, lambda: shown(app, "losses · log, 6 ≤ 0 left out"))
        await pilot.press("l")
        await until(pilot, lambda: not shown(app, "log, 6"))


async def test_smoothing_goes_through_its_weights(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "KL to the base"))
        for note in ("EMA 0.6", "EMA 0.9"):
            await pilot.press("s")
            await until(pilot, lambda note=note: shown(app, f"KL to the base · {note}"))
        await pilot.press("s")
        await until(pilot, lambda: not shown(app, "EMA"))


async def test_follow_shows_the_newest_steps_and_moves_along(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 150, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: shown(app, "charts 1–2 of 2 · steps 1–150"))
            await pilot.press("f")
            await until(pilot, lambda: shown(app, r"newest steps (\d\d)–150"))
            with StoreWriter(run) as writer:
                writer.write_step(151, [], {"messages/length": 7.0, "ppo/kl": 0.5})
            await until(pilot, lambda: shown(app, "newest steps .*–151"))
            first = charts(app)._steps()[0]
            await pilot.press("x")
            charts(app)._at = first
            await pilot.press("left")
            await until(pilot, lambda: shown(app, f"step {first - 1}  "))
            await pilot.press("f")
            await until(pilot, lambda: shown(app, "newest steps .*–151"))
            await pilot.press("f")
            await until(pilot, lambda: shown(app, " steps 1–151"))


async def test_values_that_are_not_numbers_are_gaps_counted_in_the_title(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6, **{"ppo/kl": float("nan"), "messages/length": float("inf")})
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "KL to the base · 1 NaN or missing"))
        assert shown(app, r"message length \(tokens\) · 1 NaN")


async def test_the_log_filters_and_goes_from_alert_to_alert(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    with StoreWriter(run) as writer:
        for number in range(30):
            level = "warning" if number == 3 else "error" if number == 17 else "info"
            writer.event(level, "note", f"number {number} {HOSTILE}")
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, r"32 events · 2 alerts"))
        assert shown(app, r"number 29 \[/red\] \[/ \[a=b: c\] red 🦊 漢字".replace(" 🦊", " . 🦊"))
        log = app.screen.query_one(LogView)
        for key, number in (("n", 17), ("n", 3), ("N", 17)):
            await pilot.press(key)
            await pilot.pause()
            assert log.chosen is not None
            assert f"number {number} " in log.chosen.text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Whole) and shown(app, "number 17"))
        await pilot.press("escape", "slash", *"number 2", "enter")
        await until(pilot, lambda: shown(app, "filter 'number 2': 11"))
        assert [event.text.split()[1] for event in log.events][:2] == ["29", "28"]
        assert "\x1b" not in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_dead_run_shows_its_last_words_and_what_to_do(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = demo_run(tmp_path, state="running")
    (run.path / "log.txt").write_text(f"one\n{'two ' * 99}\nRuntimeError: [/red] \x1b[31mno luck\n")
    async with run_app(Options(tmp_path, run), size=size) as (app, pilot):
        await until(pilot, lambda: shown(app, "died after step 6 of 6"))
        assert f"maporlresume{run.path}" in "".join(screen_text(app).split())
        assert shown(app, r"RuntimeError: \[/red\] no luck")
        await until(pilot, lambda: shown(app, "accuracy per turn"))


async def test_three_agents_stay_in_sight_under_a_notice_on_a_small_screen(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    (run.path / "log.txt").write_text("one\ntwo\nRuntimeError: no luck\n")
    async with run_app(Options(tmp_path, run), size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "no luck"))
        await until(pilot, lambda: all(shown(app, f"● {name} +turns") for name in AGENTS))
        await until(pilot, lambda: shown(app, "log: 1 event ─"))
        await until(pilot, lambda: shown(app, "accuracy per turn"))


async def test_without_a_run_it_says_where_to_get_one(tmp_path: Path) -> None:
    async with run_app(Options(tmp_path, screen="dashboard")) as (app, pilot):
        await until(pilot, lambda: shown(app, "1 lists the runs, 6 starts one"))
        await pilot.press("enter", "x", "l", "s", "f", "left", "down", "y", "n", "z")
        await pilot.pause()
        assert shown(app, "1 lists the runs")


async def test_a_run_without_a_step_waits_for_the_first(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 0, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: shown(app, "charts come with the first step"))
            with StoreWriter(run) as writer:
                writer.write_step(1, [], {"messages/length": 7.0})
            await until(pilot, lambda: shown(app, "message length"))
            assert not shown(app, "charts come with")


async def test_the_stage_of_a_live_run_moves_on_the_screen_as_it_is_stored(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 0, state="running")
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05), size=(80, 24)) as (app, pilot):
            with StoreWriter(run) as writer:
                stage = KeptStage(Silent(), writer.set_meta)
                await until(pilot, lambda: shown(app, "loading …"))
                stage.stage("evaluating before", 40)
                await until(pilot, lambda: shown(app, r"evaluating before  ░+  0 of 40 messages"))
                await asyncio.sleep(1.0)
                stage.advance(20)
                await until(pilot, lambda: shown(app, r"step 0/0 · evaluating before 20/40"))
                assert shown(app, r"evaluating before  █{10}░{10}  20 of 40 messages")
                assert not shown(app, "the agents talking")
                stage.stage("step 1: rollout", 9)
                await until(pilot, lambda: shown(app, r"step 0/0 · rollout 0/9"))
                assert not shown(app, "evaluating")


async def test_exported_charts_hold_every_step(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "KL to the base"))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        app.screen.query_one("#dialog-input").value = str(tmp_path / "out.json")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, (tmp_path / "out.json").is_file)
        await until(pilot, lambda: shown(app, "written to"))
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["charts"][0]["series"][0]["means"] == [0.001 * step for step in range(1, 7)]


async def test_new_steps_are_read_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plain_run(tmp_path, 1, state="running")
    times: list[float] = []
    with run.lock():
        async with run_app(Options(tmp_path, run, refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: shown(app, "KL to the base"))
            read = ChartsPane._read
            monkeypatch.setattr(
                ChartsPane, "_read", lambda *a: (times.append(time.monotonic()), read(*a))
            )
            with StoreWriter(run) as writer:
                for step in range(2, 12):
                    writer.write_step(step, [], {"messages/length": 7.0, "ppo/kl": 0.1})
                    await asyncio.sleep(0.2)
            await until(pilot, lambda: shown(app, r"steps 1–11"))
            await until(pilot, lambda: charts(app)._steps_read == (1, 11))
    assert len(times) >= 2
    assert all(b - a > 0.9 for a, b in pairwise(times))


async def test_a_run_where_nothing_happens_is_not_drawn_again(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run, refresh=0.1)) as (app, pilot):
        await until(pilot, lambda: shown(app, "accuracy per turn") and shown(app, "CPU"))
        await asyncio.sleep(3.0)  # the second look at the machine
        await pilot.pause()
        drawn: list[str] = []
        for widget in app.screen.walk_children():
            if widget.id != "status-line":  # it counts minutes
                widget.refresh = lambda *a, w=widget, **k: drawn.append(str(w))  # type: ignore[method-assign]
        await asyncio.sleep(1.5)
        assert drawn == []


async def test_another_theme_draws_the_curves_in_its_colours(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: shown(app, "KL to the base"))
        before = grid(app).style_of(1)
        _, chart = grid(app).placed()[0]
        await until(pilot, lambda: before in str(chart._drawn), 30)
        app.theme = "textual-light"
        await until(pilot, lambda: grid(app).style_of(1) != before, 30)
        await until(pilot, lambda: grid(app).style_of(1) in str(chart._drawn), 30)


async def test_a_click_chooses_a_chart(tmp_path: Path) -> None:
    run = plain_run(tmp_path, 6)
    async with run_app(Options(tmp_path, run)) as (app, pilot):
        await until(pilot, lambda: len(grid(app).placed()) == 2)
        await pilot.click(grid(app).placed()[1][1], offset=(10, 4))
        await until(pilot, lambda: shown(app, "▶ message length"))
