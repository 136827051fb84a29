"""The Debate screen: records, filters and walking without a screen, then every key on one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from tui_samples import (
    AGENTS,
    SHAPING,
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

from maporl_core.config.load import load_config
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.records import LiveMessage, Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, Place
from maporl_tui.host import Options
from maporl_tui.reading.debate_answers import convergence
from maporl_tui.reading.debate_export import debate_json, debate_markdown
from maporl_tui.reading.debate_made import stored_debate
from maporl_tui.reading.debate_query import Query, QueryError, filter_words, find_hits, parse_query
from maporl_tui.reading.debate_records import change_of
from maporl_tui.reading.debate_walk import NEWER, OLDER, Walker
from maporl_tui.screens.debate.answer_strip import bar, summary
from maporl_tui.screens.debate.view import DebateView
from maporl_tui.screens.dialogs import Ask, Whole
from maporl_tui.widgets.message_pane import MessagePane, head_line, note_line

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")
Answer = TypeVar("Answer")

RIGHT_TA = [[True, False, False], [True, True, False], [True, True, True]]
HOSTILE = "[/red] [a=b: c] [/ \x1b[31mred\x1b]0;title\x07 \r\x00 \ud800 😀 漢字 end"


def stored_run(root: Path, discussions: list[Discussion], state: str = "finished") -> RunDir:
    """A run whose only step holds these discussions."""
    config = load_config("pocket", [*SHAPING])
    run = RunDir.create(root, "own", "# own\n", {"name": "own", "steps": "1"})
    with StoreWriter(run) as writer:
        written = [paid(discussion, config.reward) for discussion in discussions]
        writer.write_step(1, written, metrics_of(1, written, discussions[0].agents))
        writer.set_state(state, "")
    return run


@contextmanager
def walker_of(run: RunDir) -> Iterator[tuple[Walker, list[int]]]:
    """A walker on a real store, and a list that grows with every question it asks."""
    asked: list[int] = []
    with StoreReader(run) as reader:

        async def ask(question: Callable[[StoreReader], Answer]) -> Answer:
            asked.append(1)
            return question(reader)

        yield Walker(ask), asked


def pane(app: object) -> DebateView:
    return app.screen.query_one(DebateView)  # type: ignore[attr-defined, no-any-return]


def key_of(app: object) -> int | None:
    debate = pane(app).debate
    return None if debate is None else debate.key


# Records --------------------------------------------------------------------------------------


def test_a_change_is_judged_by_verdict_and_then_by_the_answers_text() -> None:
    message = held(1, [[True]]).messages[0][0]
    wrong = replace(message, correct=False, answer="5")
    unknown = replace(message, correct=None, answer="5")
    assert change_of(wrong, message) == "wrong→right"
    assert change_of(message, wrong) == "right→wrong"
    assert change_of(wrong, replace(wrong, answer="6")) == "changed answer"
    assert change_of(wrong, replace(wrong, answer=" 5 ")) == "same answer"
    assert change_of(message, replace(message, answer="11.0")) == "same answer"
    assert change_of(unknown, replace(unknown, answer=None)) == "changed answer"


def test_answers_of_a_turn_are_grouped_with_all_right_ones_as_one(tmp_path: Path) -> None:
    discussion = held(1, [[True, True, False]])
    first, second, third = discussion.messages[0]
    row = (first, replace(second, answer="11.0"), replace(third, answer=None))
    run = stored_run(tmp_path, [replace(discussion, messages=(row,))])
    with StoreReader(run) as reader:
        (turn,) = convergence(stored_debate(reader.discussion(1)))
    assert [(group.answer, group.agents) for group in turn.groups] == [("11", (0, 1)), (None, (2,))]
    assert (turn.agreeing, turn.right, turn.missing) == (2, 2, 0)
    assert summary(turn) == "2 of 3 agree · right 67%"
    assert "".join(text for text, _ in bar(turn, 9)) == "██████▒▒▒"


def test_what_is_amiss_with_a_message_is_said(tmp_path: Path) -> None:
    discussion = held(1, [[False], [True]], agents=("Ada",))
    (first,), (second,) = discussion.messages
    cut = replace(second, finish="length", dropped_context=37)
    whole = replace(discussion, messages=((first,), (cut,)))
    run = stored_run(tmp_path, [whole])
    with StoreReader(run) as reader:
        said = stored_debate(reader.discussion(1)).rows_TC[1][0]
    assert note_line(said).plain == (
        "wrong→right · unfinished: cut at the length limit · 37 prompt tokens dropped"
    )
    assert head_line(replace(said, score=0.75, reward=0.5)).plain == (
        "✓ 11  score 0.75  reward +0.500"
    )
    assert head_line(replace(said, correct=None, score=None, reward=None)).plain == "? 11"


# Filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("", Query()),
        ("so the  total", Query(text="so the total")),
        ("step:12 words", Query(text="words", first_step=12, last_step=12)),
        ("step:5-9", Query(first_step=5, last_step=9)),
        ("step:5-", Query(first_step=5)),
        ("step:-9 split:eval", Query(last_step=9, split="eval")),
        ("eval:after problem:q7", Query(evaluation="after", problem="q7")),
        ('"step:3" x', Query(text="step:3 x")),
        ("ratio 3:4", Query(text="ratio 3:4")),
    ],
)
def test_a_typed_filter_is_read(typed: str, query: Query) -> None:
    assert parse_query(typed) == query


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("step:x", "write step:12"),
        ("step:9-5", "behind the last"),
        ("split:test", "split:train or split:eval"),
        ("stpe:3", 'as text write "stpe:3"'),
        ("step:", "needs a value"),
        ("step:1 step:2", "stands twice"),
        ("split:train eval:after", "exclude each other"),
        ("...", "no letter or digit"),
    ],
)
def test_a_filter_that_cannot_be_read_is_one_line_that_says_why(typed: str, problem: str) -> None:
    with pytest.raises(QueryError, match=r"^[^\n]+$") as caught:
        parse_query(typed)
    assert problem in str(caught.value)


def test_a_filter_is_said_in_words() -> None:
    query = parse_query("step:5-9 split:train apples")
    assert filter_words(query, {"broke", "corrected"}) == (
        "corrected + broke · steps 5–9 · train · “apples”"
    )


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("So the total is; THE TOTAL!", "the total", ["the total", "THE TOTAL"]),
        ("breathe the-tot", "the tot", ["the-tot"]),
        ("thesis to", "th", []),
        ("thesis to", "the", ["thesis"]),
        ("Café CAFE\u0301 cafeteria", "cafe", ["Café", "CAFE\u0301", "cafeteria"]),
        ("答案是漢字吧", "漢字", ["漢字"]),
        ("İstanbul x", "x", ["x"]),
        ("[/red] [a=b", "a b", ["a=b"]),
    ],
)
def test_words_are_found_as_the_store_finds_them(text: str, words: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in find_hits(text, words)] == found


# Walking --------------------------------------------------------------------------------------


async def test_walking_goes_by_id_and_ends_at_both_ends(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(i, RIGHT_TA) for i in range(3)])
    with walker_of(run) as (walker, _):
        everything = DiscussionFilter()
        older = await walker.step(2, OLDER, everything)
        newer = await walker.step(2, NEWER, everything)
        assert (older and older.row.id, newer and newer.row.id) == (1, 3)
        assert await walker.step(1, OLDER, everything) is None
        assert await walker.step(3, NEWER, everything) is None


async def test_neighbours_read_ahead_are_at_hand_without_asking(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(i, RIGHT_TA) for i in range(9)])
    with walker_of(run) as (walker, asked):
        everything = DiscussionFilter()
        await walker.read_ahead(5, everything)
        count = len(asked)
        at_hand = [walker.beside(5, OLDER, everything), walker.beside(5, NEWER, everything)]
        assert [stored and stored.row.id for stored in at_hand] == [4, 6]
        step = await walker.step(7, NEWER, everything)
        assert step is not None
        assert step.row.id == 8
        assert len(asked) == count
        walker.forget()
        assert walker.beside(5, OLDER, everything) is None


async def test_the_debate_nearest_to_a_filtered_one_is_the_older_one(tmp_path: Path) -> None:
    wrong = [[False] * 3] * 2
    run = stored_run(tmp_path, [held(0, wrong), held(1, RIGHT_TA), held(2, wrong)])
    with walker_of(run) as (walker, _):
        near = await walker.near(2, DiscussionFilter(all_wrong=True))
        same = await walker.near(2, DiscussionFilter(corrected=True))
        none = await walker.near(2, DiscussionFilter(broke=True))
        assert (near and near.row.id, same and same.row.id, none) == (1, 2, None)


# Export ---------------------------------------------------------------------------------------


def test_an_export_holds_every_message_and_no_control_code(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(1, RIGHT_TA, text=f"```\n{HOSTILE}")])
    with StoreReader(run) as reader:
        stored = reader.discussion(1)
    debate = stored_debate(stored)
    data = json.loads(debate_json("own", debate, stored.rewards))
    assert data["turns"][2][1]["text"] == f"```\n{HOSTILE}"
    assert data["turns"][2][1]["change"] == "same answer"
    reward = stored.reward(stored.discussion.messages[2][1])
    assert reward is not None
    total = reward.pay.total
    assert data["turns"][2][1]["reward"]["total"] == pytest.approx(total)
    page = debate_markdown("own", debate, stored.rewards)
    assert "\x1b" not in page
    assert "\x00" not in page
    assert page.count("````text") == 9  # the fence is longer than the one in the text
    assert "wrong→right" in page


# The screen -----------------------------------------------------------------------------------


async def test_a_finished_run_shows_its_newest_debate_with_all_that_is_known(
    tmp_path: Path,
) -> None:
    run = demo_run(tmp_path, steps=2, questions=3)
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) is not None)
        with StoreReader(run) as reader:
            assert key_of(app) == reader.page(limit=1)[0].id
        await until(pilot, lambda: shown(app, "eval after"))
        text = screen_text(app)
        for word in ("How many", "gold", "step 2", "Ada · turn 1", "Cy · turn 3", "score 0."):
            assert word in text, word


async def test_every_turn_and_agent_can_be_reached_on_a_small_terminal(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(1, RIGHT_TA)])
    async with run_app(Options(tmp_path, run, screen="debate"), size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "Ada · turn 1"))
        assert not shown(app, "Bo · turn 1")
        await pilot.press("l", "j")
        await until(pilot, lambda: shown(app, "Bo · turn 2"))
        assert shown(app, "wrong→right")
        assert app.selection == Place(1, 1, 1)
        await pilot.press("k", "h", "h", "k")
        await until(pilot, lambda: pane(app).place == (0, 0))
        await pilot.press("z")
        await until(pilot, lambda: app.screen.maximized is not None)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen.maximized, MessagePane))
        assert app.screen.maximized.said.agent == 1
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.maximized is None)


async def test_comma_and_full_stop_walk_and_selection_is_shared(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(i, RIGHT_TA) for i in range(5)])
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 5)
        await pilot.press(*["comma"] * 6)
        await until(pilot, lambda: key_of(app) == 1)
        await until(pilot, lambda: shown(app, "oldest debate"))
        await pilot.press("full_stop", "j", "enter")
        await until(pilot, lambda: app.screen.NAME == "rewards")
        assert app.selection == Place(2, 1, 0)
        app.open_message(Place(4, 2, 1))
        await until(pilot, lambda: app.screen.NAME == "debate" and key_of(app) == 4)
        assert pane(app).place == (2, 1)
        await pilot.press("f")
        await until(pilot, lambda: key_of(app) == 5)


async def test_toggles_combine_say_how_many_pass_and_come_off(tmp_path: Path) -> None:
    wrong = [[False] * 3] * 3
    broke = [[True] * 3, [False, True, True], [True] * 3]
    run = stored_run(tmp_path, [held(0, wrong), held(1, RIGHT_TA), held(2, broke)])
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 3)
        await pilot.press("w")
        await until(pilot, lambda: key_of(app) == 1 and shown(app, "only all wrong: 1 passes"))
        await pilot.press("w", "r")
        await until(pilot, lambda: shown(app, "only corrected: 2 pass"))
        await pilot.press("b")
        await until(pilot, lambda: shown(app, r"corrected \+ broke: 1 passes"))
        assert key_of(app) == 3
        await pilot.press("p", "w")
        await until(pilot, lambda: shown(app, "No debate passes: .*esc takes the filter off"))
        await pilot.press("escape")
        await until(pilot, lambda: key_of(app) == 3 and not shown(app, "only "))


async def test_words_are_asked_for_marked_and_walked_through(tmp_path: Path) -> None:
    texts = ["an apple, an Apple", "pears", "one apple"]
    run = stored_run(tmp_path, [held(i, [[True]], ("Ada",), text) for i, text in enumerate(texts)])
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 3)
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"step", "colon", "x", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask) and shown(app, "write step:12"))
        await pilot.press(*["backspace"] * 6, *"apple", "enter")
        await until(pilot, lambda: shown(app, "only “apple”: 2 pass · hits here: 1"))
        await pilot.press("n")
        await until(pilot, lambda: shown(app, "hit 1 of 1"))
        await pilot.press("n")
        await until(pilot, lambda: key_of(app) == 1 and shown(app, "hit 1 of 2"))
        await pilot.press("n")
        await until(pilot, lambda: shown(app, "hit 2 of 2"))
        await pilot.press("n", "N")
        await until(pilot, lambda: key_of(app) in (1, 3))


async def test_a_message_opens_whole_with_its_prompt_and_is_copied(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(1, RIGHT_TA, text=HOSTILE)])
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 1)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, Whole))
        for word in ("[/red] [a=b: c] [/", "漢字 end"):
            assert word in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Whole))
        await pilot.press("t")
        await until(pilot, lambda: shown(app, "was not kept"))
        await pilot.press("y")
        await until(pilot, lambda: "漢字" in app.clipboard)
        assert "\x1b" not in app.clipboard


async def test_a_debate_is_exported_in_the_form_of_its_ending(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(1, RIGHT_TA)])
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 1)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        file = tmp_path / "d.json"
        app.screen.dismiss(str(file))
        await until(pilot, file.exists)
        await until(pilot, lambda: file.read_text().endswith("}\n"))
        assert json.loads(file.read_text())["id"] == 1


async def test_ten_megabytes_of_text_open_at_once(tmp_path: Path) -> None:
    run = stored_run(tmp_path, [held(1, [[True]], ("Ada",), "word " * 2_000_000 + "\x1b[31m")])
    async with run_app(Options(tmp_path, run, screen="debate"), size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, "word word word"), seconds=20)


async def test_a_run_without_debates_says_what_to_do(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "bare", "# bare\n", {"name": "bare"})
    with StoreWriter(run) as writer:
        writer.set_state("failed", "")
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: shown(app, "maporl resume bare"))
    async with run_app(Options(tmp_path, screen="debate")) as (app, pilot):
        await until(pilot, lambda: shown(app, "No run: choose one on 1 Runs"))


# Live -----------------------------------------------------------------------------------------


def write_turn(writer: StoreWriter, discussion: Discussion, turn: int, part: str) -> None:
    """One turn in the live rows, as far as ``part``: "writing" or "scored"."""
    rows = []
    for m in discussion.messages[turn]:
        if part == "writing":
            rows.append(LiveMessage(turn, m.agent, "writing", m.text[:8]))
        else:
            rows.append(
                LiveMessage(turn, m.agent, "scored", m.text, m.answer, m.correct, m.score, None)
            )
    writer.live.update(rows)


async def test_the_watched_debate_grows_is_scored_and_becomes_the_stored_one(
    tmp_path: Path,
) -> None:
    run = demo_run(tmp_path, steps=2, state="running", questions=0)
    config = load_config("pocket", [*SHAPING])
    step: list[Paid] = [paid(held(900, RIGHT_TA), config.reward)]
    watched = step[0].discussion
    with run.lock(), StoreWriter(run) as writer:
        writer.live.begin(3, "train", watched.problem, watched.agents, 3)
        async with run_app(Options(tmp_path, run, screen="debate", refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: shown(app, "Mia has 900 pens"))
            assert shown(app, "being written · step 3")
            write_turn(writer, watched, 0, "writing")
            await until(pilot, lambda: shown(app, "… writing") and shown(app, "I get 30"))
            write_turn(writer, watched, 0, "scored")
            await until(pilot, lambda: shown(app, "✓ 30") and shown(app, "✗ 32"))
            write_turn(writer, watched, 1, "scored")
            await until(pilot, lambda: shown(app, "wrong→right"))
            await pilot.press("comma")
            await until(pilot, lambda: key_of(app) == 8)
            await until(pilot, lambda: shown(app, "live: step 3 is being written – f returns"))
            await pilot.press("comma", "full_stop", "full_stop")
            await until(pilot, lambda: shown(app, "being written · step 3"))
            write_turn(writer, watched, 2, "scored")
            (key,) = writer.write_step(3, step, metrics_of(3, step, AGENTS))
            writer.live.end(key)
            await until(pilot, lambda: key_of(app) == key and shown(app, "reward"))


async def test_a_debate_held_while_it_is_written_stays_until_it_is_stored(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, state="running", questions=0)
    config = load_config("pocket", [*SHAPING])
    step = [paid(held(900, RIGHT_TA), config.reward)]
    watched = step[0].discussion
    with run.lock(), StoreWriter(run) as writer:
        writer.live.begin(3, "train", watched.problem, watched.agents, 3)
        async with run_app(Options(tmp_path, run, screen="debate", refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: shown(app, "being written · step 3"))
            await pilot.press("f")
            await until(pilot, lambda: shown(app, "f returns"))
            (key,) = writer.write_step(3, step, metrics_of(3, step, AGENTS))
            writer.live.end(key)
            other = held(901, RIGHT_TA)
            writer.live.begin(4, "train", other.problem, other.agents, 3)
            await until(pilot, lambda: key_of(app) == key)
            await asyncio.sleep(0.2)
            assert shown(app, "Mia has 900 pens")
            await pilot.press("f")
            await until(pilot, lambda: shown(app, "Mia has 901 pens"))


async def test_a_run_that_died_shows_its_last_stored_debate(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, state="running", questions=0)
    watched = held(900, RIGHT_TA)
    with StoreWriter(run) as writer:
        writer.live.begin(3, "train", watched.problem, watched.agents, 3)
    async with run_app(Options(tmp_path, run, screen="debate")) as (app, pilot):
        await until(pilot, lambda: key_of(app) == 8)


async def test_rows_taken_back_are_read_anew(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=2, state="running", questions=0)
    config = load_config("pocket", [*SHAPING])
    again = [paid(held(777, RIGHT_TA), config.reward)]
    with run.lock(), StoreWriter(run) as writer:
        async with run_app(Options(tmp_path, run, screen="debate", refresh=0.05)) as (app, pilot):
            await until(pilot, lambda: key_of(app) == 8)
            writer.write_step(2, again, metrics_of(2, again, AGENTS))
            await until(pilot, lambda: shown(app, "Mia has 777 pens"))
