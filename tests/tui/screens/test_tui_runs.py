"""The Runs screen: what is listed, read again, filtered, sorted, marked, compared, deleted."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.color import Color
from tui_samples import demo_run, own_settings, run_app, screen_text, shown, until

from maporl_core.kit.sparkline import sparkline
from maporl_core.store.reader import RunDir
from maporl_core.store.writer import StoreWriter
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.reading.run_list import (
    RunLister,
    RunRow,
    disk_size,
    last_accuracy,
    read_overview,
    read_row,
)
from maporl_tui.reading.runs_text import COLUMNS, cells, matches, ordered, table_text
from maporl_tui.screens.dialogs import Ask, Confirm
from maporl_tui.screens.runs import showing as runs_screen
from maporl_tui.screens.runs.run_table import RunTable

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_screen, "REFRESH", 0.1)


def row(name: str, **facts: object) -> RunRow:
    values = {"state": "finished", "task": "pocket", "algorithm": "MAPPO", **facts}
    return RunRow(RunDir(Path("/r") / name), **values)  # type: ignore[arg-type]


def table_of(app: MaporlApp) -> RunTable:
    return app.screen.query_one(RunTable)


def order(app: MaporlApp) -> list[str]:
    return list(table_of(app).order)


def broken_run(root: Path, name: str = "broken") -> RunDir:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "run.db").write_bytes(b"this is no database " * 100)
    return RunDir(folder)


# What is read ------------------------------------------------------------------------------------


def test_a_run_is_opened_again_only_after_it_changed(tmp_path: Path) -> None:
    runs = [demo_run(tmp_path, name, steps=2, questions=0) for name in ("a", "b", "c")]
    lister = RunLister(tmp_path)
    list(lister.look(lister.names()))
    assert lister.opened == 3
    for _ in range(3):
        list(lister.look(lister.names()))
    assert lister.opened == 3
    kept = lister.rows()
    with StoreWriter(runs[1]) as writer:
        writer.write_step(3, [], {"accuracy/turn_1": 0.25})
    list(lister.look(lister.names()))
    assert lister.opened == 4
    assert lister.rows()["b"].step == 3
    assert lister.rows()["b"].accuracy == 0.25
    assert lister.rows()["a"] is kept["a"]


def test_the_state_of_a_run_whose_trainer_ends_without_a_word_is_noticed(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running")
    lister = RunLister(tmp_path)
    with run.lock():
        list(lister.look(lister.names()))
        assert lister.rows()["demo"].state == "running"
        assert lister.rows()["demo"].is_live
    list(lister.look(lister.names()))
    assert lister.rows()["demo"].state == "died"


def test_a_removed_run_is_no_longer_known_and_a_missing_folder_holds_none(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    lister = RunLister(tmp_path)
    list(lister.look(lister.names()))
    shutil.rmtree(run.path)
    assert lister.names() == ()
    assert lister.rows() == {}
    assert RunLister(tmp_path / "none").names() == ()


def test_an_unreadable_run_is_a_row_that_says_why(tmp_path: Path) -> None:
    found = read_row(broken_run(tmp_path))
    assert found.state == "unreadable"
    assert found.problem is not None
    assert "\n" not in found.problem
    assert cells(found, 0.0)[0] == "✗ unreadable"
    assert read_overview(found).problem is not None


def test_an_overview_holds_evaluations_checkpoints_size_and_events(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2)
    (run.checkpoints / "step-000002").mkdir()
    (run.checkpoints / "step-000002" / "weights").write_bytes(b"x" * 5000)
    found = read_overview(read_row(run))
    assert found.before is not None
    assert found.after is not None
    assert found.before.policy_state == "base"
    assert found.after.policy_state == "trained"
    assert found.checkpoints == ("step-000002",)
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert found.size == sum(path.stat().st_size for path in files) == disk_size(run.path)
    assert found.events[-1].text == "finished 2 steps"
    assert found.config is not None
    assert found.config.name == "demo"


def test_the_accuracy_is_that_of_the_last_turn_also_beyond_nine() -> None:
    assert (
        last_accuracy({"accuracy/turn_2": 0.5, "accuracy/turn_10": 0.7, "accuracy/A/x": 1}) == 0.7
    )
    assert last_accuracy({"reward/total": 1.0}) is None


# How it is worded --------------------------------------------------------------------------------


def test_a_line_has_mark_word_numbers_and_age() -> None:
    line = row(
        "a", state="running", step=3, steps=10, rewards=(0.0, 1.0), accuracy=0.456, written=940.0
    )
    assert cells(line, 1000.0) == (
        *("▶ running", "a", "MAPPO", "pocket", "3/10", "▁█", "46%"),
        "60 s",
    )
    assert len(COLUMNS) == len(cells(line, 0.0))


def test_a_sparkline_spans_its_own_range_and_leaves_gaps() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▅▅"
    assert sparkline([0.0, float("nan"), 1.0]) == "▁ █"
    assert sparkline([float("nan")]) == ""


def test_a_filter_finds_words_in_name_task_and_state() -> None:
    one = row("First", task="gsm8k", state="died")
    assert matches(one, "first DIED")
    assert matches(one, "gsm")
    assert matches(one, "")
    assert not matches(one, "first finished")


def test_orders_begin_with_the_newest_the_best_and_the_living() -> None:
    rows = [
        row("a", created=1.0, accuracy=0.3, state="died"),
        row("b", created=3.0, accuracy=float("nan")),
        row("c", created=2.0, accuracy=0.9, state="running"),
        row("d", created=0.0),
    ]
    assert [r.name for r in ordered(rows, "created", False)] == ["b", "c", "a", "d"]
    assert [r.name for r in ordered(rows, "accuracy", False)][:2] == ["c", "a"]
    assert ordered(rows, "state", False)[0].name == "c"
    assert [r.name for r in ordered(rows, "name", True)] == ["d", "c", "b", "a"]


def test_the_list_is_exported_as_markdown_or_json() -> None:
    rows = [row("a", accuracy=float("nan"), rewards=(1.0, float("inf"))), row("b|c", step=4)]
    lines = table_text(rows, 0.0, Path("x.md")).splitlines()
    assert len(lines) == 4
    assert "b\\|c" in lines[3]
    data = json.loads(table_text(rows, 0.0, Path("x.JSON")))
    assert data[0]["accuracy"] is None
    assert data[0]["reward"] == [1.0, None]
    assert data[1]["step"] == 4


# The screen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_runs_are_listed_with_the_one_under_the_cursor_in_short(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    demo_run(tmp_path, "first")
    async with run_app(Options(tmp_path), size) as (app, pilot):
        await until(pilot, lambda: shown(app, r"✓ finished +first +MAPPO pocket +6/6"))
        await until(pilot, lambda: shown(app, r"accuracy  turn 1  turn 2  turn 3"))
        assert shown(app, "1 run ─")


async def test_enter_attaches_and_goes_to_the_dashboard(tmp_path: Path) -> None:
    demo_run(tmp_path, "first", steps=1)
    demo_run(tmp_path, "second", steps=2)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["second", "first"])
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen.NAME == "dashboard")
        await until(pilot, lambda: app.view is not None and app.view.name == "first")
        await pilot.press("1")
        await until(pilot, lambda: shown(app, r"›.*finished +first"))


def noted(rows: list[int], real: Callable[[RunTable, int], None]) -> object:
    """``real``, with the rows it was called for in ``rows``."""

    def call(self: RunTable, row: int) -> None:
        rows.append(row)
        real(self, row)

    return call


async def test_a_new_step_draws_only_its_own_line_and_keeps_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_run(tmp_path, "other", steps=1, questions=0)
    run = demo_run(tmp_path, "live", steps=2, state="running", questions=0)
    with run.lock():
        async with run_app(Options(tmp_path)) as (app, pilot):
            await until(pilot, lambda: order(app) == ["live", "other"])
            await pilot.press("down")
            assert table_of(app).present == "other"
            monkeypatch.setattr("time.time", lambda now=time.time(): now)  # ages stand still
            await pilot.pause(0.3)
            drawn: list[int] = []
            monkeypatch.setattr(RunTable, "redraw_row", noted(drawn, RunTable.redraw_row))
            with StoreWriter(run) as writer:
                writer.write_step(3, [], {"accuracy/turn_1": 0.5, "reward/total": 9.0})
            await until(pilot, lambda: shown(app, r"▶ running +live .* 3/2"))
            assert set(drawn) == {0}
            assert table_of(app).present == "other"


async def test_runs_come_and_go_and_the_cursor_stays_on_its_run(tmp_path: Path) -> None:
    demo_run(tmp_path, "a", steps=1, questions=0)
    demo_run(tmp_path, "b", steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["b", "a"])
        await pilot.press("down")
        demo_run(tmp_path, "c", steps=1, questions=0)
        await until(pilot, lambda: order(app) == ["c", "b", "a"])
        assert table_of(app).present == "a"
        shutil.rmtree(tmp_path / "b")
        await until(pilot, lambda: order(app) == ["c", "a"])
        assert table_of(app).present == "a"


async def test_two_marked_runs_are_handed_to_compare(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        demo_run(tmp_path, name, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["c", "b", "a"])
        await pilot.press("v")
        await until(pilot, lambda: shown(app, "0 runs are marked"))
        await pilot.press("space", "down", "space")
        await until(pilot, lambda: screen_text(app).count("●") == 2)
        await pilot.press("v")
        await until(pilot, lambda: app.screen.NAME == "compare")
        assert app.comparison is not None
        assert [run.name for run in app.comparison] == ["c", "a"]


async def test_one_marked_run_is_compared_with_the_one_under_the_cursor(tmp_path: Path) -> None:
    for name in ("a", "b"):
        demo_run(tmp_path, name, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["b", "a"])
        await pilot.press("space", "v")
        await until(pilot, lambda: app.comparison is not None)
        assert [run.name for run in app.comparison or ()] == ["b", "a"]


async def test_delete_names_what_is_lost_and_asks(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert shown(app, r"\d+ kB")
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(app.screen, Confirm))
        assert run.database.is_file()
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: shown(app, "no runs in "))
        assert not run.path.exists()


async def test_deleting_the_run_that_is_looked_at_lets_go_of_it(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    async with run_app(Options(tmp_path, run, "runs")) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: not run.path.exists() and app.view is None)
        await until(pilot, lambda: shown(app, "no run: choose one"))


async def test_a_living_run_is_not_deleted(tmp_path: Path) -> None:
    run = demo_run(tmp_path, state="running", steps=1)
    with run.lock():
        async with run_app(Options(tmp_path)) as (app, pilot):
            await until(pilot, lambda: order(app) == ["demo"])
            await pilot.press("d")
            await until(pilot, lambda: shown(app, "being trained by process"))
            assert not isinstance(app.screen, Confirm)
    assert run.database.is_file()


async def test_readonly_has_no_delete(tmp_path: Path) -> None:
    demo_run(tmp_path, steps=1)
    async with run_app(Options(tmp_path, readonly=True)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        await pilot.press("d")
        await pilot.pause(0.3)
        assert not isinstance(app.screen, Confirm)
        assert "Delete" not in screen_text(app)


async def test_a_filter_is_asked_for_kept_and_left_with_escape(tmp_path: Path) -> None:
    for name in ("apple", "pear"):
        demo_run(tmp_path, name, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["pear", "apple"])
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"apple", "enter")
        await until(pilot, lambda: not isinstance(app.screen, Ask) and order(app) == ["apple"])
        assert shown(app, "1 of 2 runs · with apple")
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"zzz", "enter")
        await until(pilot, lambda: shown(app, "none of 2 runs has 'zzz'"))
        await pilot.press("escape")
        await until(pilot, lambda: order(app) == ["pear", "apple"])


async def test_sort_goes_through_the_columns_and_reverse_turns_it_round(tmp_path: Path) -> None:
    demo_run(tmp_path, "b", steps=3, questions=0)
    demo_run(tmp_path, "a", steps=1, questions=0, state="failed")
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["a", "b"])
        await pilot.press("s")
        assert order(app) == ["b", "a"]
        assert shown(app, "by state")
        await pilot.press("s")
        assert order(app) == ["a", "b"]
        await pilot.press("r")
        assert order(app) == ["b", "a"]
        assert shown(app, "by name reversed")


async def test_copy_and_export(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        await pilot.press("y")
        assert app.clipboard == str(run.path)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        target = tmp_path / "list.json"
        app.screen.query_one("#dialog-input").value = str(target)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, target.is_file)
        assert json.loads(target.read_text())[0]["name"] == "demo"


async def test_an_unreadable_run_is_shown_and_cannot_be_attached(tmp_path: Path) -> None:
    broken_run(tmp_path)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: shown(app, "✗ unreadable +broken"))
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert app.screen.NAME == "runs"
        assert app.view is None


async def test_an_empty_folder_says_how_to_start_and_a_file_that_it_is_none(tmp_path: Path) -> None:
    async with run_app(Options(tmp_path / "none")) as (app, pilot):
        await until(pilot, lambda: shown(app, r"press\s+.*6"))
    file = tmp_path / "file"
    file.touch()
    async with run_app(Options(file)) as (app, pilot):
        await until(pilot, lambda: shown(app, "name the"))


async def test_text_of_a_store_cannot_reach_the_terminal(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    hostile = "[/red] [a=b: c] \x1b[31mred \x1b]0;t\x07\r\x00 漢字 😀"
    with StoreWriter(run) as writer:
        writer.set_meta({"task": hostile, "algorithm": hostile, "reason": hostile})
        writer.event("error", "run", hostile)
    async with run_app(Options(tmp_path), (120, 40)) as (app, pilot):
        await until(pilot, lambda: shown(app, r"why it ended"))
        text = screen_text(app)
        assert "\x1b" not in text
        assert "[/red] [a=b: c]" in text


async def test_another_theme_recolours_the_states(tmp_path: Path) -> None:
    demo_run(tmp_path, steps=1, questions=0)
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        await until(pilot, lambda: app.theme == "dusk")
        colours = set()
        for theme in ("dusk", "paper"):
            app.theme = theme
            await pilot.pause(0.1)
            cell = table_of(app).cell("demo", "state")
            wanted = Color.parse(app.get_css_variables()["right"])
            assert cell.style.color.get_truecolor() == wanted.rich_color.get_truecolor()
            colours.add(wanted.hex)
        assert len(colours) == 2


async def test_tiny_and_back(tmp_path: Path) -> None:
    demo_run(tmp_path, steps=1, questions=0)
    async with run_app(Options(tmp_path), (80, 24)) as (app, pilot):
        await until(pilot, lambda: order(app) == ["demo"])
        for size in ((20, 5), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
        await until(pilot, lambda: shown(app, "✓ finished +demo"))


async def test_many_runs_are_listed_while_they_are_read_and_walked_through(tmp_path: Path) -> None:
    first = demo_run(tmp_path, "run-000", steps=1, questions=0)
    for number in range(1, 150):
        shutil.copytree(first.path, tmp_path / f"run-{number:03d}")
    async with run_app(Options(tmp_path)) as (app, pilot):
        await until(pilot, lambda: len(order(app)) > 1, 60)
        if len(order(app)) < 150:
            assert shown(app, r"read \d+ of 150")
        await until(pilot, lambda: len(order(app)) == 150, 60)
        for _ in range(3):
            await pilot.press("pagedown")
        assert table_of(app).present not in (None, order(app)[0])
