"""The Compare screen: two sides, every key, two runs, a question of one's own, any size."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compare_samples import FAKE
from textual.pilot import Pilot
from textual.widgets import Input, OptionList
from tui_samples import (
    demo_run,
    evaluation_of,
    held,
    own_settings,
    run_app,
    screen_text,
    shown,
    until,
)

from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Place
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.screens.compare.dialogs import AskOwn, ChoosePair
from maporl_tui.screens.compare.screen import CompareScreen
from maporl_tui.screens.dialogs import Ask, Whole

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")

SMALL = (80, 24)
HOSTILE = "[/red] [a=b: c] \x1b[31mred\x1bc \r\n\x00 \ud800 😀 汉字 " * 20
VERDICTS = {"before": [0, 1, 1, 0], "after": [1, 0, 1, 0]}
"""Whether all agents are right in turn 2: gained, lost, right, wrong."""


def options(run: RunDir, **more: object) -> Options:
    return Options(run.path.parent, run, screen="compare", **more)  # type: ignore[arg-type]


def tale(root: Path, name: str = "tale", text: str | None = None, after: str = "after") -> RunDir:
    """A run with two evaluations of four questions, two turns, two agents."""
    run = demo_run(root, name, steps=1, problems=1, questions=0, agents=("Ada", "Bo"))
    with StoreWriter(run) as writer:
        for label, state in (("before", "base"), (after, "trained")):
            right = VERDICTS["before" if label == "before" else "after"]
            found = [
                held(i, [[False, False], [bool(r)] * 2], ("Ada", "Bo"), text, "test")
                for i, r in enumerate(right)
            ]
            summary = evaluation_of(label, state, found)
            writer.write_evaluation(int(state != "base"), summary, [Paid(d) for d in found])
    return run


def screen(app: MaporlApp) -> CompareScreen:
    return next(one for one in app.screen_stack if isinstance(one, CompareScreen))


async def loaded(app: MaporlApp, pilot: Pilot[None], place: int = 0) -> CompareScreen:
    """The screen when it shows both debates of a question."""
    found = screen(app)
    await until(pilot, lambda: found._item is not None and found._item is found.chosen)
    assert found._found is not None
    assert found._found.items.index(found._item) == place  # type: ignore[arg-type]
    await pilot.pause()
    return found


async def test_before_and_after_stand_side_by_side_with_totals(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path))) as (app, pilot):
        await loaded(app, pilot)
        text = screen_text(app)
    assert "before (base, step 0) │ after (trained, step 1) · 4 shared questions" in text
    assert "turn 2  50.0%" in text
    assert "▲ 1 gained ▼ 1 lost  McNemar p 1.000" in text
    assert "✗→✓ ▲ gained Mia has 0 pens" in text
    assert "turn 2 · 0 of 2 right │ 2 of 2 right · ▲ wrong→right" in text
    assert text.count("Ada · turn 2") == 2


async def test_keys_walk_filter_and_swap(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await pilot.press("full_stop", "full_stop")
        await loaded(app, pilot, 2)
        await pilot.press("comma")
        await loaded(app, pilot, 1)
        await pilot.press("w")
        await until(pilot, lambda: shown(app, "2 of 4 · flips only"))
        assert found._list.cursor == 1, "the cursor stays on its question"
        await pilot.press("b")
        await until(pilot, lambda: shown(app, r"after \(trained, step 1\) │ before"))
        assert found.chosen is not None
        assert (found.chosen.flip, found._list.cursor) == ("gained", 1)
        await pilot.press("escape", "b")
        await until(pilot, lambda: shown(app, "4 of 4"))
        await pilot.press("home", "n")
        await loaded(app, pilot, 1)
        await pilot.press("n")
        await until(pilot, lambda: shown(app, "no flipped question after"))
        await pilot.press("N")
        await loaded(app, pilot, 0)


async def test_questions_are_found_by_their_words(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        await loaded(app, pilot)
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        app.screen.query_one(Input).value = "3 pens"
        await pilot.press("enter")
        await loaded(app, pilot, 3)
        assert "1 of 4 · with 3 pens" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: shown(app, "4 of 4"))


async def test_the_focus_moves_between_sides_and_messages(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await pilot.press("l")
        assert found._board.spot == (0, 0, 0)
        await pilot.press("l", "j", "j", "j", "j")
        assert found._board.spot == (1, 1, 1)
        await pilot.press("k", "h")
        assert found._board.spot == (0, 1, 0)
        await pilot.press("z")
        assert screen_text(app).count("Ada · turn 2") == 1
        await pilot.press("escape")
        assert screen(app).maximized is None


async def test_both_messages_scroll_together_until_unlocked(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path, text="word " * 900)), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await pilot.press("l")
        left, right = (found._board._pane((side, 0, 0)) for side in (0, 1))
        assert left is not None
        assert right is not None
        await pilot.press("pagedown")
        await until(pilot, lambda: left.scroll_offset.y > 0)
        assert right.scroll_offset.y == left.scroll_offset.y
        await pilot.press("L", "end")
        await until(pilot, lambda: left.is_vertical_scroll_end)
        assert right.scroll_offset.y < left.scroll_offset.y


async def test_d_shows_which_words_differ(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        await loaded(app, pilot)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Whole))
        await until(pilot, lambda: shown(app, r"\[-12:-\] \{\+10:\+\}"))
        assert "Ada, turn 2" in screen_text(app)


async def test_enter_opens_the_debate_of_the_focused_side(tmp_path: Path) -> None:
    run = tale(tmp_path)
    async with run_app(options(run), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await pilot.press("l", "j", "enter")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "debate")
        assert found._item is not None
        assert app.selection == Place(found._item.discussions[0], 0, 1)
        assert found._loader.open == 0, "the stores are let go of when the screen is left"
        await pilot.press("5")
        await until(pilot, lambda: app.screen is found)
        await pilot.press("full_stop")
        await loaded(app, pilot, 1)


async def test_copy_and_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        await loaded(app, pilot)
        await pilot.press("y")
        assert app.clipboard == "Mia has 0 pens and gets 7 or 9. How many?"
        await pilot.press("l", "y")
        assert app.clipboard.startswith("I get 12")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        assert app.screen.query_one(Input).value == "tale-comparison.md"
        app.screen.query_one(Input).value = "x.json"
        await pilot.press("enter")
        await until(pilot, Path("x.json").exists)
    data = json.loads(Path("x.json").read_text())
    assert [len(data["items"]), len(data["debates"]), data["turns"][1]["gained"]] == [4, 2, 1]
    assert data["debates"][1]["turns"][1][0]["correct"] is True


async def test_any_two_evaluations_can_be_chosen(tmp_path: Path) -> None:
    run = tale(tmp_path)
    with StoreWriter(run) as writer:
        found = [held(i, [[True, True]], ("Ada", "Bo"), None, "test") for i in range(3)]
        writer.write_evaluation(1, evaluation_of("extra", "trained", found), map(Paid, found))
    async with run_app(options(run), SMALL) as (app, pilot):
        await loaded(app, pilot)
        assert "after (trained, step 1)" in screen_text(app)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, ChoosePair))
        assert app.screen.query_one(OptionList).option_count == 3
        await pilot.press("down", "enter", "enter")
        await until(pilot, lambda: shown(app, "That is the left side already"))
        await pilot.press("up", "enter")
        await until(pilot, lambda: shown(app, "3 shared questions"))
        remark = "1 only on one side; not the same on both sides: questions 4 | 3; turns 2 | 1"
        assert remark in screen_text(app)


async def test_two_runs_are_compared_and_their_stores_closed(tmp_path: Path) -> None:
    a, b = tale(tmp_path, "one"), tale(tmp_path, "two")
    async with run_app(Options(tmp_path, a, screen="runs"), SMALL) as (app, pilot):
        app.compare_runs(a, b)
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "compare")
        found = await loaded(app, pilot)
        assert "one: after (trained, ste… │ two: after (trained, ste…" in screen_text(app)
        assert found._loader.open == 2
        await pilot.press("h", "enter")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "debate")
        assert found._loader.open == 0


@pytest.mark.parametrize("size", [(120, 40), SMALL, (20, 5), (1, 1)])
async def test_hostile_text_and_any_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with run_app(options(tale(tmp_path, text=HOSTILE)), size) as (app, pilot):
        await loaded(app, pilot)
        await pilot.press("l", "j", "d")
        await until(pilot, lambda: isinstance(app.screen, Whole))
        text = screen_text(app)
        assert "\x1b" not in text
        if size[0] > 20:
            assert "[/red] [a=b: c] red" in text


async def test_a_message_of_megabytes_is_shown(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, problems=1, questions=0)
    huge = [held(1, [[True]], ("Ada",), "汉 word\x1b[2J" * 1_000_000, "test")]
    with StoreWriter(run) as writer:
        for label, state in (("before", "base"), ("after", "trained")):
            writer.write_evaluation(0, evaluation_of(label, state, huge), [Paid(huge[0])])
    async with run_app(options(run), SMALL) as (app, pilot):
        found = screen(app)
        await until(pilot, lambda: found._item is not None, 60)
        assert "汉 word汉" in screen_text(app)


async def test_a_run_without_two_evaluations_says_what_makes_them(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=0)
    async with run_app(options(run), SMALL) as (app, pilot):
        await until(pilot, lambda: shown(app, "maporl eval demo --base"))
        await pilot.press("c")
        await until(pilot, lambda: shown(app, "no two evaluations to choose from"))
    async with run_app(Options(tmp_path, screen="compare"), SMALL) as (app, pilot):
        await until(pilot, lambda: shown(app, "no run to compare in"))
        await pilot.press("a")
        await until(pilot, lambda: shown(app, "nobody to ask"))


async def test_an_evaluation_that_comes_later_is_taken_in(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, questions=3, state="running")
    async with run_app(options(run, refresh=0.05), SMALL) as (app, pilot):
        await until(pilot, lambda: shown(app, "holds only: before"))
        with StoreReader(run) as reader:
            first = [reader.discussion(o.discussion).discussion for o in reader.outcomes(1)]
        with StoreWriter(run) as writer:
            summary = evaluation_of("after", "trained", first)
            writer.write_evaluation(1, summary, [Paid(one) for one in first])
        found = screen(app)
        await until(pilot, lambda: found._item is not None)
        assert "3 shared questions" in screen_text(app)


# A question of one's own ------------------------------------------------------------------------


@pytest.fixture
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "maporl_tui.processes.asker.worker_command", lambda _: [sys.executable, "-c", FAKE]
    )


async def ask(app: MaporlApp, pilot: Pilot[None], question: str) -> None:
    await pilot.press("a")
    await until(pilot, lambda: isinstance(app.screen, AskOwn))
    app.screen.query_one("#question", Input).value = question
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, CompareScreen))


def gone(pid: int) -> Callable[[], bool]:
    def check() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return check


@pytest.mark.usefixtures("fake_worker")
async def test_both_sides_answer_even_readonly_and_the_worker_ends_with_the_app(
    tmp_path: Path,
) -> None:
    async with run_app(options(tale(tmp_path), readonly=True), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await ask(app, pilot, "Why?")
        await until(pilot, lambda: shown(app, "answered · no gold answer"), 20)
        text = screen_text(app)
        assert "side 0" in text
        assert "side 1" in text
        await pilot.press("b")
        await until(pilot, lambda: shown(app, "0 of 2 right") or shown(app, "2 of 2 right │ 0"))
        await ask(app, pilot, "Once more?")
        await until(pilot, lambda: shown(app, "Once more"))
        await pilot.press("escape")
        await until(pilot, lambda: shown(app, "4 of 4"))
        process = found._questioner._asker._process  # type: ignore[union-attr]
        assert process is not None
        assert process.returncode is None, "kept for the next question"
    assert gone(process.pid)()


@pytest.mark.usefixtures("fake_worker")
async def test_escape_withdraws_then_leaves_and_a_dead_worker_is_one_line(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        found = await loaded(app, pilot)
        await ask(app, pilot, "wait")
        await until(pilot, lambda: shown(app, r"(loading|answering).* s · "))
        await pilot.press("escape")
        await until(pilot, lambda: shown(app, "withdrawn"))
        assert found._questioner.alive
        await pilot.press("escape")
        await until(pilot, lambda: shown(app, "4 of 4"))
        await ask(app, pilot, "die")
        await until(pilot, lambda: shown(app, "the worker ended: RuntimeError: out of tea"), 20)


async def test_missing_adapters_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = {"event": "problem", "ask": None, "text": "run 'tale' has no trained adapters yet"}
    code = f"print({json.dumps(json.dumps(problem))}); raise SystemExit(5)"
    monkeypatch.setattr(
        "maporl_tui.processes.asker.worker_command", lambda _: [sys.executable, "-c", code]
    )
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        await loaded(app, pilot)
        await ask(app, pilot, "Why?")
        await until(pilot, lambda: shown(app, "has no trained adapters yet · a asks another"), 20)


async def test_what_cannot_be_asked_keeps_the_dialog_open(tmp_path: Path) -> None:
    async with run_app(options(tale(tmp_path)), SMALL) as (app, pilot):
        await loaded(app, pilot)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, AskOwn))
        app.screen.query_one("#seed", Input).value = "x"
        await pilot.press("enter")
        await until(pilot, lambda: shown(app, "seed 'x': a whole number"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
