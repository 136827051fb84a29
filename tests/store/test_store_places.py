"""Ragged discussions, candidates, phases and samples come out of a store as they went in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from store_samples import discussion, new_run, paid, rewards

from maporl_core.errors import StoreError
from maporl_core.store.export import export_discussions
from maporl_core.store.outcomes import Outcome, outcome
from maporl_core.store.reader import DiscussionFilter, LiveMessage, StoreReader
from maporl_core.store.records import MessageReward, Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, Message, Part, Pay, Place, Problem

PROBLEM = Problem("q", "How many?", "7", "pocket", "train")


def said(turn: int, agent: int, mark: str, **more: Any) -> Message:
    """A message marked r (right), w (wrong) or - (nothing tells)."""
    correct = {"r": True, "w": False, "-": None}[mark]
    answer = {"r": "7", "w": "8", "-": None}[mark]
    number = 100 * turn + 10 * agent + more.get("branch", 0)
    facts: dict[str, Any] = {
        "policy": f"p{agent}",
        "prompt_ids": (1, agent),
        "ids": (number, 2),
        "logprobs": (-0.5, -0.25),
        "text": f"<{number}>",
        "finish": "stop",
    }
    return Message(turn=turn, agent=agent, answer=answer, correct=correct, **{**facts, **more})


def continuing(before: Message, turn: int, mark: str, **more: Any) -> Message:
    """The same agent's next message, whose prompt goes on from the one before."""
    prompt = (*before.prompt_ids, *before.ids, 50 + turn)
    return said(turn, before.agent, mark, prompt_ids=prompt, **more)


def ragged() -> Discussion:
    """Two plan, of whom the second speaks first; one answers; both answer; a third judges.

    In the second turn three candidates stood at one place, and the middle one was taken.
    """
    plan_1 = said(0, 1, "-", phase="plan")
    plan_0 = said(0, 0, "-", phase="plan")
    tried = [continuing(plan_0, 1, mark, branch=b, chosen=b == 1) for b, mark in enumerate("wrw")]
    last_1 = continuing(plan_1, 2, "w")
    last_0 = continuing(tried[1], 2, "r")
    judged = said(3, 2, "r", phase="judge")
    turns = ((plan_1, plan_0), tuple(tried), (last_0, last_1), (judged,))
    return Discussion(PROBLEM, ("Ada", "Bo", "Cy"), turns, sample=2)


def decode(agent: int, ids: Any) -> str:
    return "".join(f"<{i}>" for i in ids)


def test_a_ragged_discussion_with_candidates_comes_back_whole(tmp_path: Path) -> None:
    run, held = new_run(tmp_path), ragged()
    with StoreWriter(run) as writer:
        (key,) = writer.write_step(1, [Paid(held, rewards(held))], {})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
    assert stored.discussion == held
    assert stored.rewards == rewards(held, key)
    assert list(stored.rewards or ()) == [
        *((key, 0, 0, 0), (key, 0, 1, 0)),
        *((key, 1, 0, 0), (key, 1, 0, 1), (key, 1, 0, 2)),
        *((key, 2, 0, 0), (key, 2, 1, 0), (key, 3, 2, 0)),
    ]
    assert stored.row.sample == 2
    assert stored.row.correct_TA == ((None, None), (True,), (True, False), (True,))


def test_only_what_an_agent_newly_read_is_kept(tmp_path: Path) -> None:
    """Also across a turn in which it was silent, and from the candidate that was taken."""
    run, held = new_run(tmp_path), ragged()
    with StoreWriter(run, decode=decode) as writer:
        (key,) = writer.write_step(1, [Paid(held)], {})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
    assert stored.prompts[Place(key, 2, 1)].continues
    assert stored.raw_prompt(2, 1) == "<1><1>" + "<10>" + "<2>" + "<52>"
    assert stored.raw_prompt(1, 0, branch=2) == "<1><0>" + "<0>" + "<2>" + "<51>"
    assert stored.raw_prompt(2, 0) == "<1><0>" + "<0>" + "<2>" + "<51>" + "<101>" + "<2>" + "<52>"
    assert stored.raw_prompt(1, 1) is None  # it was silent


def test_a_message_that_was_not_paid_has_no_reward(tmp_path: Path) -> None:
    run, held = new_run(tmp_path), ragged()
    pay = MessageReward(Pay({"own": 0.5}))
    with StoreWriter(run) as writer:
        (key,) = writer.write_step(1, [Paid(held, {Place(9, 3, 2): pay})], {})
    with StoreReader(run) as reader:
        stored = reader.discussion(key)
        assert reader.reward_values() == (0.5,)
    judged, planned = stored.discussion.messages[3][0], stored.discussion.messages[0][0]
    assert stored.reward(judged) == pay
    assert stored.reward(planned) is None


def test_samples_of_one_problem_stand_side_by_side(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    group = [replace(discussion(1), sample=g) for g in range(3)]
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [Paid(held) for held in group], {})
        rows = reader.page(DiscussionFilter(problem_id="q1"))
        assert [row.sample for row in rows] == [2, 1, 0]
        assert [s.discussion for s in reader.discussions()] == group


def test_candidates_of_the_watched_discussion_are_told_apart(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = LiveMessage(1, 0, "writing", "one")
    second = LiveMessage(1, 0, "writing", "two", branch=1, phase="plan")
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.live.begin(1, "train", PROBLEM, ("Ada",), 2)
        writer.live.update([second, first])
        writer.live.update([replace(first, text="one more")])
        found = reader.live()
    assert found is not None
    assert found.messages == (replace(first, text="one more"), second)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: (m, m), "same place"),
        (lambda m: (replace(m, turn=1),), "another turn"),
    ],
)
def test_messages_without_a_place_of_their_own_are_refused(
    tmp_path: Path, change: Any, complaint: str
) -> None:
    held = Discussion(PROBLEM, ("Ada",), (change(said(0, 0, "r")),))
    with StoreWriter(new_run(tmp_path)) as writer, pytest.raises(ValueError, match=complaint):
        writer.write_step(1, [Paid(held)], {})


# The parts of a reward ---------------------------------------------------------------------------


def test_parts_are_kept_as_they_are_declared(tmp_path: Path) -> None:
    run, held = new_run(tmp_path), discussion(0, ((True,),))
    parts = (Part("bonus", "for being right"), Part("toll", "for every token"))
    pay = MessageReward(Pay({"bonus": 1.0, "toll": 0.0}))
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.declare_parts(parts)
        (key,) = writer.write_step(1, [Paid(held, {Place(0, 0, 0): pay})], {})
        assert reader.reward_parts() == parts
        (found,) = (reader.discussion(key).rewards or {}).values()
        assert list(found.pay.parts.items()) == [("bonus", 1.0), ("toll", 0.0)]
        assert reader.reward_values("toll") == (0.0,)
        with pytest.raises(StoreError, match="no reward part 'own': one of bonus, toll, total"):
            reader.reward_values("own")


def test_a_scheme_that_changed_keeps_the_parts_of_before_after_its_own(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    old, new = Part("old", "paid once"), Part("new", "paid now")
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.declare_parts([old, Part("both", "as it was")])
        writer.declare_parts([new, Part("both", "as it is")])
        assert reader.reward_parts() == (new, Part("both", "as it is"), old)


def test_parts_that_nobody_declared_are_added_as_they_are_paid(tmp_path: Path) -> None:
    run, held = new_run(tmp_path), discussion(0, ((True,),))
    pay = MessageReward(Pay({"second": 1.0, "first": 2.0}))
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [Paid(held, {Place(0, 0, 0): pay})], {})
        assert reader.reward_parts() == (Part("second", ""), Part("first", ""))
        strangers = {Place(0, 0, 0): pay, Place(1, 0, 0): pay}
        with pytest.raises(ValueError, match="more than one discussion"):
            writer.write_step(2, [Paid(held, strangers)], {})


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_exports_have_a_column_for_every_part_that_the_run_declares(
    tmp_path: Path, kind: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    run, held = new_run(tmp_path), ragged()
    pay = {Place(0, 1, 0, 1): MessageReward(Pay({"bonus": 1.0, "toll": -0.5}), kl=0.25)}
    with StoreWriter(run) as writer:
        writer.write_step(1, [Paid(held, pay)], {})
    path = tmp_path / f"out.{kind}"
    with StoreReader(run) as reader:
        assert export_discussions(reader, path, kind) == 1
    loaded = datasets.load_dataset(
        "json" if kind == "jsonl" else kind,
        data_files=str(path),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    (row,) = loaded
    assert row["sample"] == 3
    taken, other = row["messages"][3], row["messages"][4]
    assert (taken["turn"], taken["branch"], taken["chosen"]) == (2, 2, True)
    assert taken["reward"] == {
        "bonus": 1.0,
        "toll": -0.5,
        "total": 0.5,
        "advantage": None,
        "kl": 0.25,
    }
    assert (other["branch"], other["chosen"], other["reward"]["bonus"]) == (3, False, None)
    assert [m["phase"] for m in row["messages"]] == ["plan"] * 2 + ["answer"] * 5 + ["judge"]


# Outcomes ----------------------------------------------------------------------------------------


def turns(*rows: str) -> Discussion:
    """Rows of marks by agent; a blank is silence."""
    messages = (
        tuple(said(t, a, mark) for a, mark in enumerate(row) if mark != " ")
        for t, row in enumerate(rows)
    )
    return Discussion(PROBLEM, ("Ada", "Bo", "Cy")[: len(rows[0])], tuple(messages))


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        # Ada is wrong, is silent, and is then right as Bo was: corrected and persuaded.
        (turns("wr", " r", "r "), Outcome(1, 1, 1, corrected=True, persuaded=True, all_right=True)),
        # Bo goes wrong after Ada and Cy stood one to one: no majority persuaded it.
        (turns("rrw", " w "), Outcome(2, 0, 1, broke=True, all_wrong=True)),
        # Plans that nothing can judge tell nothing and hinder nothing.
        (ragged(), Outcome(None, 1, 1, all_right=True)),
        # An answer that nothing can judge leaves everything open.
        (turns("r-"), Outcome()),
    ],
)
def test_outcomes_follow_each_agent_through_the_turns_it_spoke_in(
    held: Discussion, wanted: Outcome
) -> None:
    assert outcome(held) == wanted


def test_the_majority_is_of_those_who_spoke_last(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(1, [Paid(turns("www", "r  ")), Paid(turns("rrr", "w  ")), paid(1)], {})
        right = [row.id for row in reader.page(DiscussionFilter(majority_right=True))]
        assert right == [3, 1]
