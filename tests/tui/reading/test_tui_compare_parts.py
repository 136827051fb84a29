"""What stands behind the Compare screen, without a screen: items, words, diffs, own questions."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare_samples import FAKE, READY
from tui_samples import evaluation_of, held

from maporl_core.judging.pairing import pair
from maporl_core.store.reader import DiscussionRow, Evaluation, RunDir
from maporl_core.types import Interval
from maporl_tui.drawing.text import safe
from maporl_tui.processes import questioner as compare_questioner
from maporl_tui.processes.asker import Asker
from maporl_tui.processes.questioner import Questioner
from maporl_tui.reading.compare_export import comparison_file, talk_file
from maporl_tui.reading.compare_items import (
    Comparison,
    Item,
    Side,
    Stored,
    before_and_after,
    compare,
    newest_trained,
    passing,
    swapped,
)
from maporl_tui.reading.compare_talk import OwnQuestion, Talk
from maporl_tui.reading.compare_text import item_line, points, side_names, totals, turn_heading
from maporl_tui.screens.compare.dialogs import own_question
from maporl_tui.screens.compare.diff import WORDS, word_diff

WRONG, RIGHT, UNKNOWN = ((False,) * 3,), ((True,) * 3,), ((None,) * 3,)


def row(key: int, verdicts: Sequence[Sequence[bool | None]], question: str = "") -> DiscussionRow:
    return DiscussionRow(
        id=key,
        step=0,
        split="test",
        evaluation=1,
        problem_id=f"q{key % 100}",
        question=question or f"How many of {key % 100}?",
        gold=str(key % 100),
        agents=("Ada", "Bo", "Cy"),
        turns=1,
        stopped_early=False,
        corrected=False,
        broke=False,
        persuaded=False,
        all_wrong=False,
        all_right=False,
        correct_TA=tuple(map(tuple, verdicts)),
    )


def evaluation(key: int, label: str, state: str, step: int = 0) -> Evaluation:
    return Evaluation(key, step, "run", 0.0, evaluation_of(label, state, [held(1, [[True] * 3])]))


def side(key: int, label: str, state: str, step: int = 0, run: str = "demo") -> Side:
    return Side(RunDir(Path("runs") / run), evaluation(key, label, state, step), 12)


@pytest.fixture
def found() -> Comparison:
    """q1 gained, q2 lost, q3 right on both sides, q4 without gold; q5 and q6 only on one side."""
    left = [row(1, WRONG), row(2, RIGHT), row(3, RIGHT), row(4, UNKNOWN), row(5, RIGHT)]
    right = [row(101, RIGHT), row(102, WRONG), row(103, RIGHT), row(104, RIGHT), row(106, RIGHT)]
    return compare((side(1, "before", "base"), side(2, "after", "trained", 12)), left, right)


def test_questions_are_paired_and_flips_named(found: Comparison) -> None:
    assert [item.flip for item in found.items] == ["gained", "lost", None, None]
    assert [item.discussions for item in found.items] == [(1, 101), (2, 102), (3, 103), (4, 104)]
    assert (found.pairing.unpaired, found.pairing.unknown) == (2, 1)
    (flips,) = found.pairing.flips_T
    assert (flips.gained, flips.lost, flips.both_right) == (1, 1, 1)


def vars_of(interval: Interval) -> tuple[float, float, float]:
    return interval.mean, interval.low, interval.high


def test_swapping_equals_comparing_the_other_way_round(found: Comparison) -> None:
    left = {str(i): RIGHT if i % 3 else WRONG for i in range(40)}
    right = {str(i): RIGHT if i % 4 else WRONG for i in range(40)}
    there = Comparison(found.sides, (), pair(left, right), ())
    back = pair(right, left)
    assert swapped(there).pairing.flips_T == back.flips_T
    for got, wanted in zip(swapped(there).pairing.gain_T, back.gain_T, strict=True):
        assert (got.mean, got.low, got.high) == pytest.approx(
            (wanted.mean, wanted.low, wanted.high)
        )
    assert [item.flip for item in swapped(found).items] == ["lost", "gained", None, None]
    assert swapped(swapped(found)).items == found.items


@pytest.mark.parametrize(
    ("words", "flips_only", "places"),
    [
        ("", False, [0, 1, 2, 3]),
        ("", True, [0, 1]),
        ("OF 3", False, [2]),
        ("q4", False, [3]),
        ("2", True, [1]),
        ("nothing", False, []),
    ],
)
def test_items_are_filtered(
    found: Comparison, words: str, flips_only: bool, places: list[int]
) -> None:
    assert passing(found.items, words, flips_only) == places


def test_who_answers_is_the_checkpoint_of_an_earlier_step() -> None:
    assert side(1, "before", "base").voice.endswith("runs/demo::base")
    assert side(2, "after", "trained", 12).voice.endswith("::trained")
    assert side(3, "step 5", "trained", 5).voice.endswith("::step-000005")
    assert side(4, "old", "step-000010", 10).voice.endswith("::step-000010")


def test_a_run_begins_with_before_and_after_two_runs_with_their_trained_agents() -> None:
    runs = [
        Stored(
            RunDir(Path("runs") / name),
            (evaluation(1, "before", "base"), evaluation(2, "after", "trained", 12)),
            12,
        )
        for name in "ab"
    ]
    own, both = before_and_after(runs[0]), newest_trained(*runs)
    assert own is not None
    assert [s.evaluation.id for s in own] == [1, 2]
    assert both is not None
    assert [s.key for s in both] == [("runs/a", 2), ("runs/b", 2)]
    assert before_and_after(Stored(runs[0].run, runs[0].evaluations[:1], 0)) is None


def test_totals_say_numbers_with_words_and_differences(found: Comparison) -> None:
    text = totals(found, wide=True).plain
    assert "before (base, step 0) │ after (trained, step 12) · 4 shared questions" in text
    assert "2 only on one side; 1 without gold" in text
    assert "▲ 1 gained ▼ 1 lost  McNemar p 1.000" in text
    assert all(len(line) <= 78 for line in totals(found, wide=False).plain.splitlines()[1:])


def test_sides_of_two_runs_are_told_apart_by_their_runs(found: Comparison) -> None:
    sides = (side(1, "after", "t", 1, "x"), side(1, "after", "t", 1, "y"))
    two = replace(found, sides=sides)
    assert side_names(two, 40) == ("x: after (t, step 1)", "y: after (t, step 1)")


def test_points_of_nothing_are_no_number() -> None:
    nan = float("nan")
    assert points(Interval(nan, nan, nan)) == "–"
    assert points(Interval(0.1, -0.05, 0.2)) == "+10.0 [-5.0, +20.0]"


def test_a_line_of_the_list_can_be_read_without_colour() -> None:
    item = Item("q", "[/red] \x1b[31m how\nmany?", "7", (1, 2), (False, True))
    assert item_line(item, 40) == ("✗→✓ ▲ gained ", "[/red] how many?")
    assert item_line(item, 13 + 10) == ("✗→✓ ▲ gained ", "[/red] ho…")
    assert item_line(replace(item, question="漢字漢字漢字"), 13 + 10)[1] == "漢字漢字…"


# The diff ---------------------------------------------------------------------------------------


def test_diff_marks_words_that_only_one_side_has() -> None:
    text, marks = word_diff("I get 5: 2 + 3", "I get 6: 2 + 4 now")
    assert text == "I get [-5:-] {+6:+} 2 + [-3-] {+4 now+}"
    assert [(text[m.start : m.end], m.kind) for m in marks] == [
        ("[-5:-]", "removed"),
        ("{+6:+}", "added"),
        ("[-3-]", "removed"),
        ("{+4 now+}", "added"),
    ]


def test_diff_of_equal_texts_has_no_marks() -> None:
    assert word_diff(" a\tb\n\nc ", " a\tb\n\nc ") == (" a    b\n\nc ", [])


HOSTILE = "[/red] \x1b[31mred\x1bc \r\n\x00 \ud800 😀 汉字"


@pytest.mark.parametrize("text", [HOSTILE, "", " ", "\n" * 9])
def test_diff_of_hostile_text_keeps_every_word_and_no_control_codes(text: str) -> None:
    got, marks = word_diff(text, text + " more")
    assert [word for word in safe(text).split() if word not in got] == []
    assert "more" in "".join(got[m.start : m.end] for m in marks if m.kind == "added")
    assert "\x1b" not in got
    assert all(0 <= m.start < m.end <= len(got) for m in marks)


def test_diff_of_megabytes_is_cut_and_quick() -> None:
    started = time.process_time()
    text, _ = word_diff("a " * 5_000_000, "b " * 5_000_000)
    assert f"only the first {WORDS:,} words" in text
    word_diff("x" * 10_000_000, "y")
    assert time.process_time() - started < 10


# Export -----------------------------------------------------------------------------------------


def test_export_holds_totals_and_items(found: Comparison) -> None:
    data = json.loads(comparison_file(Path("x.json"), found, found.items[:2], (None, None)))
    assert data["turns"][0]["gained"] == 1
    assert [item["flip"] for item in data["items"]] == ["gained", "lost"]
    assert (data["before"]["label"], data["after"]["step"]) == ("before", 12)
    page = comparison_file(Path("x.md"), found, found.items, (None, None))
    assert "| 1 | 66.7% " in page
    assert "| ✗ | ✓ | gained | How many of 1? | 1 | 1 \\| 101 |" in page


# Own questions ----------------------------------------------------------------------------------


def message(agent: int, text: str, correct: bool | None = None) -> dict[str, Any]:
    return {
        "agent": agent,
        "policy": None,
        "text": text,
        "answer": text,
        "correct": correct,
        "score": None if correct is None else 0.75,
        "finish": "stop",
        "dropped_context": 0,
    }


def test_events_become_two_debates_that_grow() -> None:
    talk = Talk(OwnQuestion("Why?", gold="7"), ask=1)
    talk.hear({"event": "stage", "text": "loading model", "total": None})
    assert (talk.state, talk.stage, talk.debate(0)) == ("loading", "loading model", None)
    talk.hear(READY)
    talk.hear({"event": "question", "ask": 1, "question": "Why?", "gold": "7"})
    talk.hear({"event": "text", "ask": 1, "side": 0, "turn": 0, "agent": 1, "text": "so"})
    debate = talk.debate(0)
    assert debate is not None
    assert [said.status for said in debate.rows_TC[0]] == ["waiting", "writing"]
    for turn, verdict in ((0, False), (1, True)):
        messages = [message(0, "6", False), message(1, "7", verdict)]
        talk.hear({"event": "turn", "ask": 1, "side": 0, "turn": turn, "messages": messages})
    rewards = [[{"own": 0.5, "total": 0.25 * turn}] * 2 for turn in range(2)]
    talk.hear({"event": "done", "ask": 1, "side": 0, "stopped_early": False, "rewards": rewards})
    debate = talk.debate(0)
    assert debate is not None
    last = debate.rows_TC[1][1]
    assert (last.change, last.score, last.reward) == ("wrong→right", 0.75, 0.25)
    assert turn_heading(debate, talk.debate(1), 1).plain == "turn 2 · 1 of 2 right │ –"
    talk.hear({"event": "finished", "ask": 1})
    assert not talk.busy


def test_answers_to_an_own_question_are_exported_as_far_as_they_are_known() -> None:
    talk = Talk(OwnQuestion("Why?", gold="7"), ask=1)
    talk.hear(READY)
    messages = [message(0, "6", False), message(1, "```7", True)]
    talk.hear({"event": "turn", "ask": 1, "side": 1, "turn": 0, "messages": messages})
    pair = (talk.debate(0), talk.debate(1))
    data = json.loads(talk_file(Path("x.json"), pair))
    assert [one["run"] for one in data["debates"]] == ["left", "right"]
    assert data["debates"][1]["turns"][0][1]["text"] == "```7"
    page = talk_file(Path("x.md"), pair)
    assert page.count("Why?") == 2
    assert "````text" in page


def test_events_of_another_question_change_nothing() -> None:
    talk = Talk(OwnQuestion("Why?"), ask=2)
    talk.hear(READY)
    talk.hear({"event": "text", "ask": 1, "side": 0, "turn": 0, "agent": 0, "text": "old"})
    talk.hear({"event": "finished", "ask": 1})
    debate = talk.debate(0)
    assert debate is not None
    assert (talk.busy, debate.rows_TC[0][0].status) == (True, "waiting")


def test_a_question_without_a_gold_answer_is_scored_where_the_verifier_needs_none() -> None:
    talk = Talk(OwnQuestion("Why?"), ask=1)
    talk.hear(READY)
    unscored = [message(0, "6"), message(1, "7")]
    talk.hear({"event": "turn", "ask": 1, "side": 0, "turn": 0, "messages": unscored})
    assert not talk.scored
    scored = [unscored[0], unscored[1] | {"score": 0.9}]
    talk.hear({"event": "turn", "ask": 1, "side": 1, "turn": 0, "messages": scored})
    assert talk.scored


def test_agents_that_agree_early_leave_no_empty_turn() -> None:
    talk = Talk(OwnQuestion("Why?"), ask=1)
    talk.hear(READY)
    messages = [message(0, "7"), message(1, "7")]
    talk.hear({"event": "turn", "ask": 1, "side": 1, "turn": 0, "messages": messages})
    talk.hear({"event": "done", "ask": 1, "side": 1, "stopped_early": True, "rewards": None})
    debate = talk.debate(1)
    assert debate is not None
    assert (debate.turns, debate.stopped_early) == (1, True)


def typed(**values: str) -> dict[str, str]:
    return {
        name: values.get(name, "") for name in ("question", "gold", "number", "temperature", "seed")
    }


def test_what_was_typed_becomes_a_question() -> None:
    assert own_question(typed()) == OwnQuestion()
    full = typed(question=" Why? ", gold="7", temperature="0", seed="3")
    assert own_question(full) == OwnQuestion("Why?", "7", 1, 0.0, 3)
    assert own_question(typed(number="12")).number == 12


@pytest.mark.parametrize(
    "values",
    [
        {"gold": "7"},
        {"number": "0"},
        {"number": "x"},
        {"number": "9" * 30},
        {"temperature": "-1"},
        {"temperature": "nan"},
        {"temperature": "hot"},
        {"seed": "-1"},
        {"seed": "²"},
    ],
)
def test_what_cannot_be_asked_is_said(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"a whole number|a number|type the question"):
        own_question(typed(**values))


@pytest.fixture
async def questioner() -> Any:
    started: list[tuple[str, ...]] = []

    def make(sides: Sequence[str], heard: Callable[[Any], None]) -> Asker:
        started.append(tuple(sides))
        return Asker(sides, heard, [sys.executable, "-c", FAKE])

    one = Questioner(lambda: None, make)
    one.started = started  # type: ignore[attr-defined]
    yield one
    await one.close()


async def until_over(one: Questioner) -> Talk:
    assert one.talk is not None
    for _ in range(2000):
        if not one.talk.busy:
            return one.talk
        await asyncio.sleep(0.01)
    raise AssertionError(f"still {one.talk.state}")


async def test_the_worker_is_kept_for_the_next_question_and_ended_for_other_sides(
    questioner: Any,
) -> None:
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("one"))
    assert (await until_over(questioner)).state == "finished"
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("two"))
    assert (await until_over(questioner)).question == "two"
    first = questioner._asker
    await questioner.ask(("b::base", "a::trained"), OwnQuestion("three"))
    await until_over(questioner)
    assert questioner.started == [("a::base", "a::trained"), ("b::base", "a::trained")]
    assert not first.alive


async def test_a_withdrawn_question_leaves_the_worker_for_the_next(questioner: Any) -> None:
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("wait"))
    await questioner.withdraw()
    assert questioner.talk.state == "withdrawn"
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("again"))
    assert (await until_over(questioner)).state == "finished"
    assert len(questioner.started) == 1


async def test_a_worker_that_died_says_why_and_another_is_started(questioner: Any) -> None:
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("die"))
    talk = await until_over(questioner)
    assert (talk.state, "out of tea" in talk.problem) == ("failed", True)
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("again"))
    assert (await until_over(questioner)).state == "finished"
    assert len(questioner.started) == 2


async def test_a_worker_that_cannot_start_is_a_problem_not_a_crash() -> None:
    one = Questioner(lambda: None, lambda s, heard: Asker(s, heard, ["/no/such/program"]))
    await one.ask(("a::base", "a::trained"), OwnQuestion("one"))
    assert one.talk is not None
    assert one.talk.state == "failed"
    await one.close()


async def test_an_idle_worker_is_ended(questioner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await questioner.ask(("a::base", "a::trained"), OwnQuestion("one"))
    await until_over(questioner)
    await questioner.close_if_idle()
    assert questioner.alive
    monkeypatch.setattr(compare_questioner, "IDLE", -1.0)
    await questioner.close_if_idle()
    assert not questioner.alive
