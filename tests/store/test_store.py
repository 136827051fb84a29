"""What goes into a run's store comes out of it, and one step is one transaction."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pay_samples import published
from store_samples import NAMES, discussion, new_run, paid, rewards, summary

from maporl_core.errors import StoreError
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.records import MessageReward, NewPrompt, Paid
from maporl_core.store.values import (
    get_optional_number,
    get_text,
    pack_floats,
    pack_ints,
    put_optional_number,
    put_text,
    unpack_floats,
    unpack_ints,
)
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, Message, Place, Problem

HOSTILE = (
    "",
    "\x00",
    "a\x00b",
    "\ud800 alone",
    "\udfff\ud800 the wrong way round",
    "\x1b[31m red \x1b]0;title\x07 \x1bc\r\n",
    "[/red] [/ [a=b: c] f[i] [ans]42[/ans]",
    "\u202eright to left\u202c \u200bzero\u200dwidth\ufeff",
    "é vs e\u0301, 👩‍👩‍👧, 中文, ทดสอบ",
    "'; DROP TABLE messages; --",
    "x" * 10_000_000,
)


def with_texts(text: str) -> Discussion:
    problem = Problem(text, text, text, text[:50], text[:50], {"note": text[:50]})
    message = Message(0, 0, text, (1,), (2,), (-0.5,), text, "length", text, False, 0.5, 3)
    return Discussion(problem, (text[:50],), ((message,),))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_text_of_any_kind_comes_out_unchanged(tmp_path: Path, text: str) -> None:
    run = new_run(tmp_path)
    held = with_texts(text)
    with StoreWriter(run, decode=lambda agent, ids: text) as writer:
        (key,) = writer.write_step(1, [Paid(held)], {})
        writer.event("info", "kind", text)
        writer.set_meta({"note": text})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
        assert stored.discussion == held
        assert stored.prompts == {Place(key, 0, 0): NewPrompt(text, False)}
        assert reader.last_events(1)[0].text == text
        assert reader.meta()["note"] == text
        assert [row.id for row in reader.page(DiscussionFilter(problem_id=text))] == [key]


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_survives_its_encoding(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    (value,) = connection.execute("SELECT ?", (put_text(text),)).fetchone()
    connection.close()
    assert get_text(value) == text


@given(st.lists(st.integers(0, 2**64 - 1)) | st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_token_ids_of_any_size_survive_packing(ids: list[int]) -> None:
    assert unpack_ints(pack_ints(ids)) == tuple(ids)


@given(st.lists(st.floats(allow_nan=False)))
def test_logprobs_survive_packing_to_the_last_bit(values: list[float]) -> None:
    assert unpack_floats(pack_floats(values)) == tuple(values)


def test_logprobs_that_fit_take_four_bytes_each() -> None:
    assert len(pack_floats((0.5, -1.25))) == 1 + 2 * 4
    assert len(pack_floats((0.1, -1.25))) == 1 + 2 * 8


@pytest.mark.parametrize("value", [None, 0.0, 0.1, math.inf, -math.inf, math.nan])
def test_an_optional_number_keeps_none_and_nan_apart(value: float | None) -> None:
    found = get_optional_number(put_optional_number(value))
    assert repr(found) == repr(value)


def test_a_discussion_comes_back_whole_with_its_rewards_and_tokens(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    held = discussion(3, ((False, True, None), (True, False, None)))
    with StoreWriter(run) as writer:
        (key,) = writer.write_step(2, [Paid(held, rewards(held))], {"loss": 0.5})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
    assert stored.discussion == held
    assert stored.rewards == rewards(held, key)
    assert (stored.row.step, stored.row.split, stored.row.agents) == (2, "train", NAMES)
    assert stored.row.correct_TA == ((False, True, None), (True, False, None))


def test_a_reward_that_is_not_a_number_comes_back_as_such(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    held = discussion(0, ((True,),))
    odd = MessageReward(published(own=math.nan, influence=math.inf), math.nan, -math.inf)
    with StoreWriter(run) as writer:
        (key,) = writer.write_step(1, [Paid(held, {Place(0, 0, 0): odd})], {})
    with StoreReader(run) as reader:
        found = reader.discussion(key).rewards
    assert found is not None
    (reward,) = found.values()
    assert math.isnan(reward.pay.parts["own"])
    assert reward.pay.parts["influence"] == math.inf
    assert math.isnan(reward.advantage or 0.0)
    assert reward.kl == -math.inf


def test_a_prompt_that_does_not_continue_is_kept_whole(tmp_path: Path) -> None:
    """A context that overflowed: turn 2 begins anew, so nothing can be left out of its ids."""
    run = new_run(tmp_path)
    first = Message(0, 0, None, (1, 2), (3,), (-0.5,), "one", "stop", "1", True)
    second = Message(1, 0, "p", (1, 9), (4,), (-0.5,), "two", "stop", "1", True, None, 2)
    held = Discussion(Problem("q", "?", None, "t", "s"), ("Ada",), ((first,), (second,)))
    with StoreWriter(run, decode=lambda agent, ids: " ".join(map(str, ids))) as writer:
        (key,) = writer.write_step(1, [Paid(held)], {})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
    assert stored.discussion == held
    assert stored.prompts[Place(key, 1, 0)] == NewPrompt("1 9", continues=False)
    assert stored.raw_prompt(1, 0) == "1 9"


def test_the_raw_prompt_holds_everything_the_agent_had_read(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = Message(0, 0, None, (1,), (7, 0), (-0.5, -0.5), "<7>", "stop", "1", True)
    second = Message(1, 0, "p", (1, 7, 0, 5), (6,), (-0.5,), "<6>", "length", "1", True)
    third = Message(2, 0, "p", (1, 7, 0, 5, 6, 4), (3,), (-0.5,), "<3>", "stop", "1", True)
    held = Discussion(Problem("q", "?", None, "t", "s"), ("Ada",), ((first,), (second,), (third,)))
    with StoreWriter(run, decode=lambda agent, ids: "".join(f"<{i}>" for i in ids)) as writer:
        (key,) = writer.write_step(1, [Paid(held)], {})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
    # The end token 0 belongs to no message text, but the agent's next prompt holds it.
    assert stored.raw_prompt(2, 0) == "<1><7><0><5><6><4>"
    assert StoredNothing(tmp_path).raw_prompt() is None


class StoredNothing:
    """A store that was told to keep neither prompts nor tokens."""

    def __init__(self, root: Path) -> None:
        run = new_run(root, "bare")
        with StoreWriter(run, keep_tokens=False) as writer:
            (key,) = writer.write_step(1, [paid(1)], {})
        with StoreReader(run) as reader:
            self.stored = reader.discussion(key)

    def raw_prompt(self) -> str | None:
        return self.stored.raw_prompt(1, 0)


def test_without_tokens_everything_else_is_kept(tmp_path: Path) -> None:
    stored = StoredNothing(tmp_path).stored
    message = stored.discussion.messages[1][0]
    assert message.text == discussion(1).messages[1][0].text
    assert (message.prompt_ids, message.ids, message.logprobs) == ((), (), ())
    assert stored.prompts == {}


def test_a_step_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [paid(1)], {"a": 1.0})
        writer.write_step(2, [paid(2), paid(3)], {"a": 2.0, "gone": 1.0})
        before = reader.generation()
        writer.write_step(2, [paid(4, text="afresh")], {"a": 3.0})
        assert reader.generation() > before
        assert [row.problem_id for row in reader.page()] == ["q4", "q1"]
        assert reader.count(DiscussionFilter(text="says 2")) == 0
        assert reader.count(DiscussionFilter(text="afresh")) == 1
        assert reader.metrics_since(0).rows == ((1, "a", 1.0), (2, "a", 3.0))
        assert reader.series("gone").steps == ()


def test_truncating_forgets_later_steps_and_nothing_else(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        for step in (1, 2, 3):
            writer.write_step(step, [paid(step)], {"a": float(step)})
        writer.write_evaluation(1, summary("early"), [paid(10)])
        writer.write_evaluation(3, summary("late"), [paid(11)])
        writer.write_evaluation(3, summary("asked for"), [paid(12)], origin="command")
        writer.event("info", "step", "three done")
        assert writer.truncate_after(1) == 2
        assert [e.summary.label for e in reader.evaluations()] == ["early", "asked for"]
        assert [row.problem_id for row in reader.page()] == ["q12", "q10", "q1"]
        assert reader.metrics_since(0).rows == ((1, "a", 1.0),)
        assert reader.series("a").means == (1.0,)
        assert reader.last_events()[-1].text == "three done"
        assert reader.status().step == 1


def test_a_resumed_run_ends_with_the_same_rows_as_a_straight_one(tmp_path: Path) -> None:
    def rows(run_name: str, steps: list[int], back_to: int | None) -> list[tuple[object, ...]]:
        run = new_run(tmp_path, run_name)
        with StoreWriter(run) as writer:
            for step in steps:
                writer.write_step(step, [paid(step), paid(step + 50)], {"a": step / 3})
            if back_to is not None:
                writer.truncate_after(back_to)
                for step in range(back_to + 1, 6):
                    writer.write_step(step, [paid(step), paid(step + 50)], {"a": step / 3})
        found: list[tuple[object, ...]] = []
        connection = sqlite3.connect(run.database)
        for table in ("discussions", "messages", "message_tokens", "rewards", "reward_terms",
                      "metrics", "metric_buckets", "problems"):  # fmt: skip
            found += connection.execute(f"SELECT '{table}', * FROM {table} ORDER BY 1, 2, 3, 4")
        connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")
        connection.close()
        return found

    assert rows("cut", [1, 2, 3, 4], 2) == rows("straight", [1, 2, 3, 4, 5], None)


def test_a_failing_step_leaves_nothing_behind(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    held = discussion(2)
    crooked = Paid(held, {Place(0, 2, 0): MessageReward(published())})
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [paid(1)], {"a": 1.0})
        with pytest.raises(ValueError, match="no message"):
            writer.write_step(2, [paid(3), crooked], {"a": 2.0})
        assert reader.count() == 1
        assert reader.status().step == 1
        writer.write_step(2, [paid(3)], {"a": 2.0})
        assert reader.count() == 2


def test_an_evaluation_comes_back_with_its_questions_in_order(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        base = writer.write_evaluation(0, summary(), [paid(1), paid(2)])
        after = writer.write_evaluation(
            5, summary("after", "trained"), [paid(1, correct_TA=((True, True),)), paid(2)]
        )
        first, second = reader.evaluations()
        assert (first.id, first.summary) == (base, summary())
        assert (second.step, second.origin, second.summary.policy_state) == (5, "run", "trained")
        pairs = list(zip(reader.outcomes(base), reader.outcomes(after), strict=True))
        assert [(a.problem_id, b.problem_id) for a, b in pairs] == [("q1", "q1"), ("q2", "q2")]
        assert pairs[0][0].correct_TA == ((False, True), (True, True))
        assert pairs[0][1].correct_TA == ((True, True),)
        assert pairs[1][0].answer_TA == (("8", "7"), ("7", "7"))
        assert pairs[1][0].score_TA == ((0.25, 0.75), (0.75, 0.75))
        assert reader.outcomes(99) == ()


def test_an_evaluation_made_again_after_a_resume_replaces_the_first(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_evaluation(5, summary("during", "trained"), [paid(1)])
        writer.write_evaluation(5, summary("during", "trained"), [paid(2)])
        assert len(reader.evaluations()) == 1
        assert [row.problem_id for row in reader.page()] == ["q2"]
        writer.write_evaluation(5, summary("during", "trained"), [paid(2)], origin="command")
        writer.write_evaluation(5, summary("during", "trained"), [paid(2)], origin="command")
        assert len(reader.evaluations()) == 3


def test_asking_for_what_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        assert reader.reward_values("owm") == ()  # nothing is declared before the first pay
        writer.write_step(1, [paid(1)], {})
        with pytest.raises(StoreError, match="no discussion 5"):
            reader.discussion(5)
        with pytest.raises(StoreError, match="no request 5"):
            reader.request(5)
        with pytest.raises(StoreError, match="no reward part 'owm': one of own"):
            reader.reward_values("owm")


def test_outcomes_of_turns_in_which_not_everybody_speaks_are_what_each_stands_at(
    tmp_path: Path,
) -> None:
    held = discussion()
    (first, second), *_ = held.messages
    again = replace(second, turn=1, answer="7", correct=not second.correct, score=0.25)
    ragged = replace(held, messages=((first, second), (again,)))
    with StoreWriter(new_run(tmp_path)) as store:
        key = store.write_evaluation(0, summary(), [Paid(ragged)])
        with StoreReader(store.run) as reader:
            (outcome,) = reader.outcomes(key)
    assert outcome.correct_TA == (
        (first.correct, second.correct),
        (first.correct, not second.correct),
    )
    assert outcome.answer_TA[1] == (first.answer, "7")
    assert outcome.score_TA[1] == (first.score, 0.25)
