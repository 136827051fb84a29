"""The Rewards screen: the table, the reasons, the run's charts, every key, any size."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static
from tui_samples import (
    demo_run,
    held,
    metrics_of,
    own_settings,
    paid,
    run_app,
    screen_text,
    shown,
    until,
)

from maporl_core.config.load import dump_toml, load_config
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.types import REWARD_PARTS, Discussion, Place
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.reading.why import account, arithmetic
from maporl_tui.screens.dialogs import Ask, Keys
from maporl_tui.screens.rewards import run as rewards_run
from maporl_tui.screens.rewards.run import RunPane
from maporl_tui.screens.rewards.table import PartsTable, abbreviations, columns
from maporl_tui.screens.rewards.why import WhyList

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")

PAYING = ("reward.persuasive=2.0", "reward.critical=0.5", "reward.gamma=0.3")
SMALL = (80, 24)
STORY = [[False, True], [True, True], [True, True]]
"""Bo is right alone; Ada comes over; both stay."""
HOSTILE = "[/red] [a=b: c] \x1b[31mred\x1bc \r\n\x00 \ud800 😀 汉字 " * 20


def options(run: RunDir, **more: object) -> Options:
    return Options(run.path.parent, run, screen="rewards", **more)  # type: ignore[arg-type]


def run_of(
    root: Path, discussions: Sequence[Discussion], *keys: str, steps: int = 1, state: str = "x"
) -> RunDir:
    """A run whose every step trains on these discussions."""
    config = load_config("pocket", ["name=tale", "train.steps=9", *PAYING, *keys])
    run = RunDir.create(root, "tale", dump_toml(config), {"name": "tale", "steps": "9"})
    with StoreWriter(run) as writer:
        for step in range(1, steps + 1):
            add_step(writer, run, step, discussions)
        writer.set_state("interrupted" if state == "x" else state)
    return run


def add_step(writer: StoreWriter, run: RunDir, step: int, found: Sequence[Discussion]) -> None:
    written = [paid(one, load_config(run.config).reward) for one in found]
    writer.write_step(step, written, metrics_of(step, written, found[0].agents))


def newest(run: RunDir) -> int:
    with StoreReader(run) as reader:
        return reader.page(DiscussionFilter(split="train"), limit=1)[0].id


def why(app: MaporlApp) -> WhyList:
    return app.screen.query_one("#why", WhyList)


def why_text(app: MaporlApp) -> str:
    return "\n".join(str(option.prompt) for option in why(app).options)


def cursor(app: MaporlApp) -> int:
    return app.screen.query_one("#parts", PartsTable).cursor_row


async def ready(app: MaporlApp, pilot: Pilot[None]) -> None:
    """The reasons and the charts are there."""
    await until(pilot, lambda: why(app).option_count > 0)
    await until(pilot, lambda: bool(app.screen.query_one(RunPane).border_title))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_newest_debate_is_shown_with_its_table_reasons_and_charts(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))], steps=2)
    async with run_app(options(run), size) as (app, pilot):
        await ready(app, pilot)
        await pilot.pause()
        assert app.selection == Place(newest(run), 0, 0)
        assert shown(app, r"debate 2 · step 2 · gold 17")
        assert shown(app, r"1 Ada +✗0\.\d+ ")
        assert shown(app, r"2 Bo +✓0\.\d+ ")
        assert shown(app, r"3 Bo +✓0\.\d+ ")
        assert shown(app, r"own \d\.\d{3} \+ influence \d\.\d{3} = |≈ ")
        assert shown(app, r"total mean \d\.\d{3} · median")


async def test_the_cursor_chooses_the_message_that_is_explained_and_shared(tmp_path: Path) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.press("down")
        await until(pilot, lambda: app.selection == Place(1, 0, 1))
        await until(pilot, lambda: "Bo was right; Ada went wrong → right" in why_text(app))
        assert shown(app, r"why Bo got \+\d\.\d{3} in turn 1")
        app.selection = Place(1, 1, 0)
        await until(pilot, lambda: cursor(app) == 2)
        assert "Ada went wrong → right, over to Bo" in why_text(app)


async def test_enter_on_a_reason_goes_to_its_row_and_on_a_row_to_the_debate(tmp_path: Path) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.press("tab", "end", "up", "up", "up")
        line = why(app).line
        assert line is not None
        assert line.kind == "from"
        assert (line.turn, line.agent) != (0, 0)
        await pilot.press("enter")
        await until(pilot, lambda: app.selection == Place(1, line.turn, line.agent))
        assert cursor(app) == 2 * line.turn + line.agent
        assert app.screen.focused is app.screen.query_one("#parts")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.NAME == "debate")
        assert app.selection == Place(1, line.turn, line.agent)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.NAME == "rewards")


async def test_comma_and_stop_walk_through_the_debates_of_training(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, problems=2)
    last = newest(run)
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.press("down", "comma")
        await until(pilot, lambda: app.selection == Place(last - 1, 0, 1))
        assert shown(app, f"debate {last - 1} ")
        await pilot.press("full_stop")
        await until(pilot, lambda: app.selection == Place(last, 0, 1))
        await pilot.press("full_stop")
        await until(pilot, lambda: shown(app, "this is the newest debate of training"))
        for _ in range(3):
            await pilot.press("comma")
            await pilot.pause(0.1)
        await pilot.press("comma")
        await until(pilot, lambda: shown(app, "no earlier debate of training"))


async def test_c_goes_through_all_parts_and_comes_back(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, problems=2, questions=0)
    async with run_app(options(run)) as (app, pilot):
        await ready(app, pilot)
        pane = app.screen.query_one(RunPane)
        for part in (*REWARD_PARTS, "total"):
            await pilot.press("c")
            await until(pilot, lambda part=part: str(pane.border_title).endswith(f" by {part}"))
            assert shown(app, f"part: {part} ")
            assert shown(app, f"{part} mean ")
        assert shown(app, "▸total")


async def test_charts_stay_where_they_are_while_parts_are_gone_through(tmp_path: Path) -> None:
    """Longer and shorter words above them would move them, and arrange the pane anew each time."""
    run = demo_run(tmp_path)
    async with run_app(options(run), size=(200, 40)) as (app, pilot):
        pane = app.screen.query_one(RunPane)
        words, tops = set(), []
        for part in ("total", *REWARD_PARTS):
            await until(pilot, lambda part=part: str(pane.border_title).endswith(part))
            await pilot.pause()
            words.add(str(pane.query_one("#spread", Static).content))
            tops.append(pane.query_one("#histogram").region.y)
            await pilot.press("c")
        assert len(words) > 1
        again = []
        for part in ("total", *REWARD_PARTS):
            await until(pilot, lambda part=part: str(pane.border_title).endswith(part))
            await pilot.pause()
            again.append(pane.query_one("#histogram").region.y)
            await pilot.press("c")
        assert set(again) == {max(tops)}


async def test_the_help_names_every_key_whatever_pane_has_the_focus(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, problems=1, questions=0)
    async with run_app(options(run), (80, 50)) as (app, pilot):
        await ready(app, pilot)
        for _ in range(2):
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, Keys))
            text = screen_text(app)
            for name in ("part", "to_debate", "previous_debate", "next_debate"):
                assert f"rewards.{name}" in text
            for name in ("follow", "copy", "export", "back", "maximise"):
                assert f"common.{name}" in text
            await pilot.press("escape", "tab")


async def test_y_copies_the_arithmetic_as_plain_text(tmp_path: Path) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    with StoreReader(run) as reader:
        found = account(reader.discussion(1), load_config(run.config))
    assert found is not None
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.press("down", "y")
        await until(pilot, lambda: bool(app.clipboard))
        assert app.clipboard == f"Bo, turn 1: {arithmetic(found, 0, 1)}"
        assert "+ persuasive 2.000 (Ada went wrong → right after this message)" in app.clipboard


async def test_e_writes_the_table_as_the_ending_says(tmp_path: Path) -> None:
    discussion = held(7, STORY, ("Ada", "Bo"))
    run = run_of(tmp_path / "runs", [discussion])
    paying = paid(discussion, load_config(run.config).reward).rewards or {}
    totals = [reward.pay.total for reward in paying.values()]
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        for name in ("t.csv", "t.json", "t.md"):
            await pilot.press("e")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            app.screen.query_one("#dialog-input").value = str(tmp_path / name)  # type: ignore[attr-defined]
            await pilot.press("enter")
            await until(pilot, lambda name=name: (tmp_path / name).exists())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert [float(row["total"]) for row in rows] == totals
    assert [(row["turn"], row["agent"]) for row in rows[:3]] == [
        ("1", "Ada"),
        ("1", "Bo"),
        ("2", "Ada"),
    ]
    told = json.loads((tmp_path / "t.json").read_text())
    assert [row["total"] for row in told["messages"]] == totals
    assert told["messages"][1]["why"][0].startswith("own ")
    page = (tmp_path / "t.md").read_text()
    assert f"| 1 | Bo | 17 | yes | {discussion.messages[0][1].score:.4f} |" in page
    assert "- Bo, turn 1: own " in page


async def test_f_follows_the_newest_debate_until_another_is_chosen(tmp_path: Path) -> None:
    story = [held(7, STORY, ("Ada", "Bo"))]
    run = run_of(tmp_path, story, steps=2, state="running")
    with run.lock():
        async with run_app(options(run, refresh=0.05), SMALL) as (app, pilot):
            await ready(app, pilot)
            with StoreWriter(run) as writer:
                add_step(writer, run, 3, story)
                await until(pilot, lambda: app.view.step == 3)
                assert app.selection == Place(2, 0, 0)
                await pilot.press("f")
                await until(pilot, lambda: shown(app, "debate 3 .*following the newest"))
                add_step(writer, run, 4, story)
                await until(pilot, lambda: app.selection == Place(4, 0, 0))
                await pilot.press("comma")
                await until(pilot, lambda: app.selection == Place(3, 0, 0))
                add_step(writer, run, 5, story)
                await until(pilot, lambda: app.view.step == 5)
                await pilot.pause(0.2)
                assert app.selection == Place(3, 0, 0)
                assert not shown(app, "following")


async def test_an_evaluation_is_said_to_pay_nobody_and_leads_to_training(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, problems=2, questions=2)
    async with run_app(options(run), (80, 24)) as (app, pilot):
        await ready(app, pilot)
        app.selection = Place(1, 2, 1)
        await until(pilot, lambda: shown(app, "Debate 1 is of an evaluation"))
        assert shown(app, r"Press , or \. for the nearest debate of training")
        await pilot.press("full_stop")
        await until(pilot, lambda: app.selection == Place(3, 2, 1))
        assert why(app).option_count > 0


async def test_a_run_without_a_step_says_what_will_fill_the_screen(tmp_path: Path) -> None:
    story = [held(7, STORY, ("Ada", "Bo"))]
    run = run_of(tmp_path, story, steps=0, state="running")
    with run.lock():
        async with run_app(options(run, refresh=0.05), (80, 24)) as (app, pilot):
            await until(pilot, lambda: shown(app, "No step has been trained yet"))
            await pilot.press("c", "y", "e", "enter", "comma", "full_stop", "f", "f", "z")
            with StoreWriter(run) as writer:
                add_step(writer, run, 1, story)
            await until(pilot, lambda: why(app).option_count > 0)
    ended = run_of(tmp_path / "other", story, steps=0)
    async with run_app(options(ended), (80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "maporl resume tale"))


async def test_no_run_at_all_says_where_to_find_one(tmp_path: Path) -> None:
    async with run_app(Options(tmp_path, screen="rewards"), (80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "choose one on 1 Runs"))
        await pilot.press("c", "y", "e", "enter", "comma", "full_stop", "f")


async def test_a_store_that_was_never_readable_says_why(tmp_path: Path) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    run.database.write_bytes(b"no database at all " * 100)
    async with run_app(options(run), (80, 24), settled=False) as (app, pilot):
        await until(pilot, lambda: shown(app, r"(?s)run\.db.*1 Runs shows the others"))


async def test_an_edited_config_does_not_explain_what_it_did_not_pay(tmp_path: Path) -> None:
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    run.config.write_text(run.config.read_text().replace("persuasive = 2.0", "persuasive = 1.0"))
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.press("down")
        await until(pilot, lambda: "persuasive 2.000 as stored" in why_text(app))
        assert "! not explained: persuasive." in why_text(app)
        assert "after this message" not in why_text(app)


async def test_a_debate_that_was_taken_back_is_said_to_be_gone(tmp_path: Path) -> None:
    story = [held(7, STORY, ("Ada", "Bo"))]
    run = run_of(tmp_path, story, steps=3)
    async with run_app(options(run, refresh=0.05), SMALL) as (app, pilot):
        await ready(app, pilot)
        with StoreWriter(run) as writer:
            writer.truncate_after(1)
        await until(pilot, lambda: shown(app, "has no discussion 3"))
        await pilot.press("f")
        await until(pilot, lambda: app.selection == Place(1, 0, 0))
        assert why(app).option_count > 0


@pytest.mark.parametrize("state", ["failed", "running"])
async def test_a_run_that_failed_or_died_can_be_read(tmp_path: Path, state: str) -> None:
    run = demo_run(tmp_path, steps=2, problems=1, questions=0, state=state)
    async with run_app(options(run), (80, 24)) as (app, pilot):
        await ready(app, pilot)
        assert shown(app, "failed|died")


async def test_one_agent_and_an_early_stop_are_explained(tmp_path: Path) -> None:
    alone = held(7, [[False], [True]], ("Solo",))
    run = run_of(tmp_path, [Discussion(alone.problem, alone.agents, alone.messages, True)])
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        assert "no incentives: Solo is the only agent" in why_text(app)
        assert "all agents agreed in turn 2" in why_text(app)
        assert shown(app, "stopped early after turn 2")


async def test_hostile_names_and_texts_are_shown_as_written(tmp_path: Path) -> None:
    names = ("[/red]", "A\x1b[2J\r\nB", "汉" * 30)
    run = run_of(tmp_path / "runs", [held(7, [[False] * 3, [True] * 3], names, HOSTILE)])
    async with run_app(options(run), SMALL) as (app, pilot):
        await ready(app, pilot)
        await pilot.pause()
        assert shown(app, r"1 \[/re…")
        assert shown(app, r"why \[/red\] got")
        assert "turn 2, [/red]:" in why_text(app)
        text = screen_text(app)
        assert "\x1b" not in text
        assert "\x00" not in text
        await pilot.press("y", "e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        out = tmp_path / "out.md"
        app.screen.query_one("#dialog-input").value = str(out)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: out.exists())
        assert "\\[/red\\]" in out.read_text()


async def test_every_pane_can_be_used_at_80_columns_and_maximised(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, problems=2, questions=0)
    async with run_app(options(run), (80, 24)) as (app, pilot):
        await ready(app, pilot)
        heights = []
        for pane, least in (("parts", 10), ("why", 6), ("run", 6)):
            assert app.screen.focused.id == pane
            await pilot.pause(0.1)
            heights.append(app.screen.focused.size.height)
            assert heights[-1] >= least
            await pilot.press("z")
            await until(pilot, lambda: app.screen.focused.region.width == 80)
            await until(pilot, lambda: app.screen.focused.size.height >= 20)
            await pilot.press("escape", "tab")
        assert app.screen.NAME == "rewards"


async def test_any_size_does_no_harm(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, problems=1, questions=0)
    async with run_app(options(run), (80, 24)) as (app, pilot):
        await ready(app, pilot)
        for size in ((20, 5), (1, 1), (120, 20), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("tab", "down", "c")
        await until(pilot, lambda: shown(app, r"t agent +v +own"))


async def test_charts_are_read_once_per_step_and_second_and_never_when_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    real = rewards_run.read_charts
    monkeypatch.setattr(rewards_run, "read_charts", lambda *a: read.append(a) or real(*a))
    monkeypatch.setattr(rewards_run, "PAUSE", 0.6)
    story = [held(7, STORY, ("Ada", "Bo"))]
    run = run_of(tmp_path, story, state="running")
    with run.lock():
        async with run_app(options(run, refresh=0.02)) as (app, pilot):
            await ready(app, pilot)
            await pilot.pause(0.7)
            count, started = len(read), time.monotonic()
            await pilot.pause(0.7)
            assert len(read) == count
            with StoreWriter(run) as writer:
                for step in range(2, 9):
                    add_step(writer, run, step, story)
                    await pilot.pause(0.05)
            pane = app.screen.query_one(RunPane)
            summary = pane.query_one("#spread", Static)
            await until(pilot, lambda: "steps 1–8" in str(summary.content))
            assert len(read) - count <= 1 + (time.monotonic() - started) / 0.6


async def test_without_colours_marks_and_signs_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = run_of(tmp_path, [held(7, STORY, ("Ada", "Bo"))])
    async with run_app(options(run)) as (app, pilot):
        await ready(app, pilot)
        assert app.no_color
        await pilot.pause(0.2)
        for mark in ("✗0.", "✓0.", "▸total", "█ own", "▓ influence", r"\+2\.000"):
            assert shown(app, mark), mark


def test_columns_have_short_names_that_tell_parts_apart_and_keep_the_chosen_one_in_sight() -> None:
    assert abbreviations(REWARD_PARTS) == (
        *("own", "infl", "crit", "persd", "cons", "perss", "form", "unfi"),
    )
    many = [f"part{k:02}" for k in range(20)]
    keys = [column.key for column in columns(many, wide=False, chosen="part15")]
    assert keys[2:10] == [f"part{k}" for k in range(11, 19)]
    assert sum(column.width for column in columns(many, wide=False)) <= 80
