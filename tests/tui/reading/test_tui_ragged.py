"""Debates in which not everybody speaks, and places with several candidates, as they are read."""

from __future__ import annotations

import json
from dataclasses import replace

from maporl_core.config.schema import RunConfig
from maporl_core.judging.rewards.maporl import Maporl
from maporl_core.store.reader import DiscussionRow, LiveDiscussion, LiveMessage, MessageReward
from maporl_core.store.records import StoredDiscussion
from maporl_core.types import Discussion, Message, Part, Pay, Place, Problem
from maporl_tui.reading.debate_answers import convergence
from maporl_tui.reading.debate_export import debate_json
from maporl_tui.reading.debate_made import live_debate, stored_debate
from maporl_tui.reading.why import account, explain_message

PROBLEM = Problem("p", "How many?", "7", "pocket", "train")


def said(
    turn: int, agent: int, right: bool, branch: int = 0, chosen: bool = True, phase: str = "answer"
) -> Message:
    answer = "7" if right else "8"
    return Message(
        *(turn, agent, "p", (), (), (), f"I say {answer}", "stop", answer, right, 0.5 + right / 4),
        *(0, branch, phase, chosen),
    )


# Two solvers, A with two candidates of which the second is gone on with; then C judges; then A.
HELD = Discussion(
    PROBLEM,
    ("A", "B", "C"),
    (
        (said(0, 0, True, 0, chosen=False), said(0, 0, False, 1), said(0, 1, True)),
        (said(1, 2, True, phase="judge"),),
        (said(2, 0, True),),
    ),
    sample=1,
)


def stored(held: Discussion = HELD, rewards: dict[Place, MessageReward] | None = None):
    row = DiscussionRow(
        *(4, 1, "train", None, "p", "How many?", "7", held.agents, held.turns),
        *(False, False, False, False, False, False, ()),
        sample=held.sample,
    )
    return StoredDiscussion(row, held, rewards, {})


def test_every_candidate_has_a_column_and_silence_leaves_a_gap() -> None:
    debate = stored_debate(stored(), samples=3)
    assert debate.columns == ((0, 0), (0, 1), (1, 0), (2, 0))
    spoken = [[one is not None for one in row] for row in debate.rows_TC]
    assert spoken == [
        [True, True, True, False],
        [False, False, False, True],
        [True, False, False, False],
    ]
    titles = [one.title for one in debate.everything()]
    assert titles == [
        "A/1 · turn 1 · answer",
        "A/2 ★ · turn 1 · answer",
        "B · turn 1 · answer",
        "C · turn 2 · judge",
        "A · turn 3 · answer",
    ]
    assert debate.sample == 2
    assert debate.column_name(1) == "A/2"
    last = debate.said(2, 0)
    assert last is not None
    assert last.change == "wrong→right"  # against the candidate that the discussion went on with


def test_the_cursor_goes_over_gaps_and_stays_at_the_ends() -> None:
    debate = stored_debate(stored())
    assert debate.beside((0, 0), 1, 0) == (2, 0)
    assert debate.beside((0, 2), 0, 1) == (0, 2)
    assert debate.beside((0, 2), 0, -1) == (0, 1)
    assert debate.nearest((1, 0)) == (1, 3)
    assert debate.cell(0, 0, 1) == (0, 1)
    assert debate.cell(9, 9) == (2, 0)


def test_only_what_the_discussion_went_on_with_counts_for_how_answers_converge() -> None:
    first, judge, last = convergence(stored_debate(stored()))
    assert (first.spoken, first.right, first.missing) == (2, 1, 0)
    assert (judge.spoken, last.spoken) == (1, 1)


def test_of_a_debate_being_written_turns_that_are_over_wait_for_nobody() -> None:
    live = LiveDiscussion(
        *(1, 1, "train", 3, ("A", "B", "C"), "p", "How many?", "7", 0.0, None),
        (
            LiveMessage(0, 0, "scored", "7", "7", True, branch=0),
            LiveMessage(0, 0, "scored", "8", "8", False, branch=1),
            LiveMessage(1, 2, "writing", "hm", phase="judge"),
        ),
    )
    debate = live_debate(live)
    status = [[None if one is None else one.status for one in row] for row in debate.rows_TC]
    assert status == [
        ["scored", "scored", None, None],
        ["waiting", None, "waiting", "writing"],
        ["waiting", None, "waiting", "waiting"],
    ]


def test_exports_name_candidates_and_phases_where_there_are_any() -> None:
    turns = json.loads(debate_json("own", stored_debate(stored()), None))["turns"]
    assert [len(turn) for turn in turns] == [3, 1, 1]
    assert (turns[0][1]["branch"], turns[0][1]["chosen"]) == (2, True)
    assert turns[1][0]["phase"] == "judge"
    assert "branch" not in turns[1][0]
    plain = replace(HELD, messages=((said(0, 0, True),),), agents=("A",), sample=0)
    (message,) = json.loads(debate_json("own", stored_debate(stored(plain)), None))["turns"][0]
    assert not {"branch", "phase"} & set(message)


def test_a_ragged_debate_is_explained_message_by_message() -> None:
    config = RunConfig()
    scheme = Maporl(config.reward)
    rewards = {
        Place(4, *place[1:]): MessageReward(pay) for place, pay in scheme.pay([HELD]).items()
    }
    paid = account(stored(rewards=rewards), config, declared=scheme.parts)
    assert paid is not None
    assert not paid.disputed
    assert [paid.title(m) for m in paid.messages] == ["1 A/1", "1 A/2*", "1 B", "2 C", "3 A"]
    for message in paid.messages:
        lines = explain_message(paid, message.turn, message.agent, message.branch)
        total = paid.pay((message.turn, message.agent, message.branch)).total
        assert lines[0].text.endswith(f"= {total:.3f}")


def test_parts_that_nobody_can_explain_are_shown_with_what_they_say() -> None:
    plain = replace(HELD, messages=((said(0, 0, True),),), agents=("A",))
    rewards = {Place(4, 0, 0): MessageReward(Pay({"style": 0.5, "brevity": -0.25}))}
    declared = (Part("style", "reads well"), Part("brevity", "penalty: long"))
    paid = account(stored(plain, rewards), None, "reward.kind: unknown", declared)
    assert paid is not None
    lines = [line.text for line in explain_message(paid, 0, 0)]
    assert lines[0] == "style 0.500 − brevity 0.250 = 0.250"
    assert "style 0.500 as stored: reads well" in lines
    assert "brevity −0.250 as stored: penalty: long" in lines
