"""Turns × agents: who reads what, what the ids are, what happens when the window is short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small import EOS, config, policies
from table_samples import PROBLEMS, judges, real_table, rules, table

from maporl_core.errors import ModelError
from maporl_core.rollout.discussion import Listeners, hold
from maporl_core.rollout.engine.base import Sampling
from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.rollout.topology import make_topology
from maporl_core.rollout.window import fit_next_prompt, fit_opening


def test_nobody_sees_a_message_of_the_same_turn():
    words = iter(f"w{n}" for n in range(30, 60))
    said = {}

    def script(turn, i):
        return said.setdefault((turn, i), next(words))

    engine, speakers = table(script, agents=3)
    hold(PROBLEMS[:1], [0], speakers, judges(), rules(style="standard"), None)
    decode = speakers[0].codec.tokenizer.decode
    for turn in range(3):
        for i, request in enumerate(engine.asked[turn]):
            text = decode(list(request.prompt_ids)).split()
            for (t, a), word in said.items():
                assert (word in text) == (t < turn), (turn, i, t, a)


def test_prompt_of_a_turn_begins_with_the_ids_of_the_turn_before():
    held = hold(PROBLEMS, range(4), real_table(3), judges(), rules(), None)
    for discussion in held:
        for before, after in zip(discussion.messages, discussion.messages[1:], strict=False):
            for old, new in zip(before, after, strict=True):
                whole = old.prompt_ids + old.ids
                assert new.prompt_ids[: len(whole)] == whole
                assert new.dropped_context == 0


def test_first_turn_is_the_base_in_discussion_training_and_all_turns_when_untrained():
    speakers = real_table(2)
    for base_turns, expected in ((1, [None, "Ada", "Ada"]), (0, ["Ada"] * 3), (3, [None] * 3)):
        held = hold(PROBLEMS[:1], [0], speakers, judges(), rules(base_turns=base_turns), None)
        assert [row[0].policy for row in held[0].messages] == expected


def test_feedback_off_hides_scores():
    for feedback, digit in ((True, True), (False, False)):
        _engine, speakers = table(lambda t, i: "w9")
        seen = []
        original = STYLES["compact"].later

        def spy(own, others, original=original, seen=seen):
            seen.append((own, others))
            return original(own, others)

        style = replace(STYLES["compact"], later=spy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("maporl_core.rollout.table.STYLES", {"compact": style})
            hold(PROBLEMS[:1], [0], speakers, judges(0.7), rules(feedback=feedback), None)
        assert all((own.score is not None) == digit for own, _ in seen)


def test_consensus_stops_a_problem_and_leaves_the_others_going():
    def script(turn, i):
        return "w5" if i < 2 else f"w{5 + i}"  # problem 0 agrees, the others do not

    _engine, speakers = table(script)
    held = hold(PROBLEMS[:2], [0, 1], speakers, judges(), rules(consensus_stop=True), None)
    assert (held[0].turns, held[0].stopped_early) == (1, True)
    assert (held[1].turns, held[1].stopped_early) == (2, True)


def test_no_parsable_answers_are_no_consensus():
    _engine, speakers = table(lambda t, i: "")
    held = hold(PROBLEMS[:1], [0], speakers, judges(), rules(consensus_stop=True), None)
    assert held[0].turns == 3
    assert not held[0].stopped_early


def test_a_discussion_does_not_depend_on_its_company_or_on_chunks():
    speakers = real_table(2)
    whole = hold(PROBLEMS, range(4), speakers, judges(), rules(), None)
    alone = hold(PROBLEMS[2:3], [2], speakers, judges(), rules(), None)[0]
    chunked = hold(PROBLEMS, range(4), speakers, judges(), rules(max_batch=2), None)
    for a, b in ((whole[2], alone), *zip(whole, chunked, strict=True)):
        assert [[m.ids for m in row] for row in a.messages] == [
            [m.ids for m in row] for row in b.messages
        ]


def test_another_seed_says_something_else():
    speakers = real_table(2)
    one = hold(PROBLEMS, range(4), speakers, judges(), rules(), None)
    two = hold(PROBLEMS, range(4), speakers, judges(), rules(seed=4), None)
    assert [d.messages[0][0].ids for d in one] != [d.messages[0][0].ids for d in two]


def test_listeners_hear_only_watched_problems_and_every_turn():
    heard, turns, spoken = [], [], []
    _engine, speakers = table(lambda t, i: "w7 w8")
    listeners = Listeners(
        turn=turns.append,
        watched=frozenset({1}),
        text=lambda q, t, a, text: heard.append((q, t, a, text)),
        spoken=lambda q, row: spoken.append((q, [m.score for m in row])),
    )
    hold(PROBLEMS[:2], [0, 1], speakers, judges(0.25), rules(), listeners)
    assert {q for q, *_ in heard} == {1}
    assert [(t, x) for _, t, a, x in heard if t == 0 and a == 0] == [(0, "w7"), (0, "w7 w8")]
    assert turns == [4, 4, 4]
    assert spoken == [(1, [0.25, 0.25])] * 3


def test_three_agents_and_five_turns_in_a_short_window_finish_and_say_what_was_dropped():
    speakers = real_table(3, context=60)
    held = hold(
        PROBLEMS,
        range(4),
        speakers,
        judges(),
        rules(topology=make_topology(5), sampling=Sampling(1.0, 8)),
        None,
    )
    messages = [m for d in held for row in d.messages for m in row]
    assert len(messages) == 4 * 5 * 3
    assert all(len(m.prompt_ids) + 8 <= 60 for m in messages)
    assert any(m.dropped_context > 0 for m in messages)
    for discussion in held:
        for a in range(3):
            opening = discussion.messages[0][a].prompt_ids
            assert all(row[a].prompt_ids[: len(opening)] == opening for row in discussion.messages)


def test_a_window_shorter_than_the_question_is_one_clear_error():
    with pytest.raises(ModelError, match=r"the question takes .* discussion\.max_context"):
        hold(PROBLEMS[:1], [0], real_table(2, context=8), judges(), rules(), None)


def test_dropping_keeps_the_end_of_the_others_messages():
    codec = policies(config()).bases["main"].codec
    thread = fit_opening(codec, "", "w2 w3", 40)
    long = Seen("w4", " ".join(f"w{i}" for i in range(10, 60)), None)
    later = STYLES["compact"].later
    fitted = fit_next_prompt(codec, thread, (8, EOS), Seen("w6", "w8", None), [long], later, 40)
    text = codec.tokenizer.decode(list(fitted.prompt))
    assert len(fitted.prompt) <= 40
    assert fitted.dropped > 0
    assert "w59" in text
    assert "w12 " not in text
