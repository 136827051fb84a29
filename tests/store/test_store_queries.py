"""Filters, pages, search, charts, and following a live run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from store_samples import discussion, new_run, paid, summary

from maporl_core.experiments.bench.store import FILTERS, bench_store, build_series, too_slow
from maporl_core.store.outcomes import Outcome, outcome
from maporl_core.store.reader import DiscussionFilter, LiveMessage, RunDir, StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Problem

R, W = True, False


@pytest.mark.parametrize(
    ("correct_TA", "flags"),
    [
        (((W, R), (R, R)), {"corrected", "persuaded", "all_right"}),
        (((R, W), (W, W)), {"broke", "persuaded", "all_wrong"}),
        (((W, W), (R, W)), {"corrected"}),
        (((R, R), (W, R)), {"broke"}),
        (((W, W), (W, W)), {"all_wrong"}),
        (((W,), (R,)), {"corrected", "all_right"}),
        (((R, W, W), (R, R, W)), {"corrected"}),  # the others of agent 2 were tied
        (((R, R, W), (R, R, R)), {"corrected", "persuaded", "all_right"}),
        (((W, R), (R, W), (W, R)), {"corrected", "broke", "persuaded"}),
        (((R, R),), {"all_right"}),
    ],
)
def test_outcome_flags(correct_TA: tuple[tuple[bool, ...], ...], flags: set[str]) -> None:
    found = outcome(discussion(0, correct_TA))
    names = ("corrected", "broke", "persuaded", "all_wrong", "all_right")
    assert {name for name in names if getattr(found, name)} == flags
    assert found.first_right == sum(correct_TA[0])
    assert found.final_right == sum(correct_TA[-1])


def test_without_a_gold_answer_the_score_decides() -> None:
    assert outcome(discussion(0, ((None, None),), gold=None)).all_wrong  # scores of 0.25


def test_without_gold_and_score_no_flag_is_set() -> None:
    held = discussion(0, ((None,),), gold=None)
    bare = type(held.messages[0][0])(0, 0, None, (), (), (), "hm", "stop")
    assert outcome(type(held)(held.problem, ("Ada",), ((bare,),))) == Outcome()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> StoreReader:
    """Steps 1 to 4 with three discussions each, one evaluation."""
    run = new_run(tmp_path_factory.mktemp("queries"))
    shapes = (((W, W), (R, R)), ((R, R), (W, W)), ((W, R), (R, R)))
    with StoreWriter(run) as writer:
        for step in (1, 2, 3, 4):
            writer.write_step(
                step,
                [
                    paid(10 * step + i, correct_TA=shape, text=f"word{step} Ünïcode x{i}y")
                    for i, shape in enumerate(shapes)
                ],
                {"loss": 1.0 / step},
            )
        writer.write_evaluation(4, summary(), [paid(99, text="這個總數是多少 the end")])
    return StoreReader(run)


def found(reader: StoreReader, **wanted: object) -> list[str]:
    chosen = DiscussionFilter(**wanted)  # type: ignore[arg-type]
    rows = reader.page(chosen)
    assert len(rows) == reader.count(chosen)
    return [row.problem_id for row in rows]


def test_filters_choose_and_combine(reader: StoreReader) -> None:
    assert found(reader, last_step=1) == ["q12", "q11", "q10"]
    assert found(reader, first_step=4, split="train") == ["q42", "q41", "q40"]
    assert found(reader, split="eval") == ["q99"]
    assert found(reader, evaluation=1) == ["q99"]
    assert found(reader, evaluation=2) == []
    assert found(reader, broke=True) == ["q41", "q31", "q21", "q11"]
    assert found(reader, persuaded=True, split="train") == ["q42", "q32", "q22", "q12"]
    assert found(reader, corrected=True, persuaded=False) == ["q40", "q30", "q20", "q10"]
    assert found(reader, all_wrong=True, first_step=2, last_step=3) == ["q31", "q21"]
    assert found(reader, majority_right=False) == ["q41", "q31", "q21", "q11"]
    assert found(reader, all_right=True, split="eval", majority_right=True) == ["q99"]
    assert found(reader, problem_id="q31") == ["q31"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("WORD3 unicode", ["q32", "q31", "q30"]),
        ("word3 uni", ["q32", "q31", "q30"]),
        ("unicode word3", []),
        ("number 21", ["q21"]),
        ("總數", ["q99"]),
        ("是多", ["q99"]),
        ("數總", []),
        ("x1y", ["q41", "q31", "q21", "q11"]),
        ('"quoted', []),
        ("***", []),
        ("NEAR(", []),
        ("\x00", []),
        ("\ud800", []),
        ("says word2", ["q22", "q21", "q20"]),
        ("says: word2!", ["q22", "q21", "q20"]),
    ],
)
def test_text_search(reader: StoreReader, text: str, ids: list[str]) -> None:
    assert found(reader, text=text) == ids


def test_text_search_goes_with_other_filters(reader: StoreReader) -> None:
    assert found(reader, text="word3", broke=True) == ["q31"]
    assert found(reader, text="   ") == found(reader)


def test_pages_walk_the_whole_history_both_ways(reader: StoreReader) -> None:
    down: list[int] = []
    before = None
    while rows := reader.page(before=before, limit=4):
        down += [row.id for row in rows]
        before = rows[-1].id
    assert down == list(range(13, 0, -1))
    up: list[int] = []
    after = 0
    while rows := reader.page(after=after, limit=4):
        up = [row.id for row in rows] + up
        after = rows[0].id
    assert up == down
    wanted = DiscussionFilter(broke=True)
    assert [row.problem_id for row in reader.page(wanted, after=2, limit=1)] == ["q21"]
    assert [row.problem_id for row in reader.page(wanted, before=8, limit=1)] == ["q21"]
    assert [
        row.problem_id for row in reader.page(DiscussionFilter(text="x1y"), after=2, limit=1)
    ] == ["q21"]


def test_search_works_without_the_word_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SQLite built without FTS5 scans instead."""
    monkeypatch.setattr("maporl_core.store.schema.SEARCH", "CREATE VIRTUAL TABLE s USING fts5x(w)")
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as bare:
        writer.write_step(1, [paid(1), paid(2, text="[/red] Apples")], {})
        assert found(bare, text="apples") == ["q2"]
        assert found(bare, text="number 1") == ["q1"]
        writer.truncate_after(0)
        assert found(bare) == []


def test_metrics_since_a_cursor_gives_each_value_once(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as follower:
        writer.write_step(1, [], {"b": 1.0, "a": math.nan})
        first = follower.metrics_since(0)
        assert [(s, n) for s, n, _ in first.rows] == [(1, "b"), (1, "a")]
        assert math.isnan(first.rows[1][2])
        writer.write_step(2, [], {"b": math.inf})
        second = follower.metrics_since(first.cursor)
        assert second.rows == ((2, "b", math.inf),)
        assert follower.metrics_since(second.cursor).rows == ()
        writer.write_metrics(2, {"late": 3.0})
        assert (2, "late", 3.0) in follower.metrics_since(second.cursor).rows
        assert follower.latest_metrics() == {"b": math.inf, "late": 3.0}
        assert follower.metric_names() == ("a", "b", "late")


@pytest.mark.parametrize("points", [1, 7, 100, 400, 10_000])
def test_a_decimated_series_keeps_means_and_extremes(tmp_path: Path, points: int) -> None:
    run = new_run(tmp_path)
    values = {step: math.sin(step) * step for step in range(1, 3001)}
    values[1500] = 1e6
    with StoreWriter(run) as writer, writer._write() as connection:
        from maporl_core.store.metric_rows import insert_metrics

        for step, value in values.items():
            insert_metrics(connection, step, {"m": math.nan if step == 7 else value}, 0.0)
    del values[7]
    with StoreReader(run) as reader:
        series = reader.series("m", points)
    assert len(series.steps) <= 2 * points + 1
    assert sum(series.counts) == len(values)
    assert max(series.highs) == 1e6
    assert min(series.lows) == min(values.values())
    total = sum(mean * count for mean, count in zip(series.means, series.counts, strict=True))
    assert total == pytest.approx(sum(values.values()), rel=1e-9)
    if points == 10_000:
        assert series.means == tuple(values.values())


def test_a_series_can_be_zoomed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    build_series(run, 2000, names=("chart/0",))
    with StoreReader(run) as reader:
        zoomed = reader.series("chart/0", 400, first=100, last=149)
        assert zoomed.steps == tuple(range(100, 150))
        assert reader.series("no such metric") == type(zoomed)()
        assert reader.series("chart/0", 400, first=5000) == type(zoomed)()


def test_a_follower_sees_changes_and_the_watched_discussion(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    problem = Problem("q\ud800", "How\x00many?", None, "pocket", "train")
    with StoreWriter(run) as writer, StoreReader(run) as follower:
        assert follower.live() is None
        assert follower.changed()
        assert not follower.changed()
        writer.live.begin(3, "train", problem, ("Ada", "Bo"), turns=2)
        assert follower.changed()
        assert not follower.changed()
        writer.live.update([LiveMessage(0, 0, "writing", "The ans")])
        writer.live.update(
            [
                LiveMessage(0, 0, "scored", "The answer \ud800", "42", True, 0.75, 1.5),
                LiveMessage(0, 1, "waiting"),
            ]
        )
        live = follower.live()
        assert live is not None
        assert (live.problem_id, live.question, live.gold) == ("q\ud800", "How\x00many?", None)
        assert (live.step, live.agents, live.turns) == (3, ("Ada", "Bo"), 2)
        assert live.messages[0] == LiveMessage(
            0, 0, "scored", "The answer \ud800", "42", True, 0.75, 1.5
        )
        assert live.messages[1].status == "waiting"
        writer.live.end(17)
        ended = follower.live()
        assert ended is not None
        assert ended.discussion == 17
        writer.live.begin(4, "train", problem, ("Ada",), turns=2)
        fresh = follower.live()
        assert fresh is not None
        assert (fresh.version, fresh.messages, fresh.discussion) == (live.version + 1, (), None)


def test_reward_values_of_a_range_of_steps(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        for step in (1, 2):
            writer.write_step(step, [paid(step)], {})
        writer.write_evaluation(2, summary(), [paid(5)])
        assert reader.reward_values("own", 2, 2) == pytest.approx((0.1, 0.1, 0.2, 0.2))
        assert len(reader.reward_values()) == 8
        assert len(reader.reward_values(limit=3)) == 3


def test_no_action_is_slow_and_every_filter_answers(tmp_path: Path) -> None:
    """A small version of `maporl bench store`; the limits are those of a million messages."""
    result = bench_store(tmp_path, messages=4000, steps=1000, repeats=1)
    figures = result["figures"]
    assert result["too_slow"] == []
    assert too_slow({"page: a": 0.06, "open: b": 0.9}) == ["page: a"]
    assert len([name for name in figures if name.startswith("filter:")]) == 2 * len(FILTERS)
    assert json.dumps(result)
    run = RunDir(tmp_path / "bench")
    with StoreReader(run) as reader:
        assert reader.count(FILTERS["corrected"]) > 0
        assert reader.count(FILTERS["frequent word"]) > 0
