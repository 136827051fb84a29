"""Discussions in which not everybody speaks, that are held several times, or branch at a place."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from table_samples import PROBLEMS, judges, real_table, rules, table

from maporl_core.kit.seeds import stable_seed
from maporl_core.rollout.discussion import Judges, Listeners, hold
from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.rollout.topology import make_topology
from maporl_core.rollout.topology.base import Slot
from maporl_core.types import Discussion, Message


@dataclass(frozen=True)
class SolversThenJudge:
    """All but the last agent answer twice, then the last one reads everything and judges."""

    def next(self, held: Discussion) -> Slot | None:
        last = len(held.agents) - 1
        solvers = Slot(tuple(range(last)))
        return [solvers, solvers, Slot((last,), "judge"), None][held.turns]

    def reads(self, reader: int, held: Discussion) -> tuple[Message, ...]:
        if reader == len(held.agents) - 1:
            return tuple(m for t in range(held.turns) for m in held.said(t))
        return held.said(held.turns - 1)

    def longest(self, _agents: int, _turns: int) -> int:
        return 3


def test_everybody_speaks_in_every_turn_and_reads_the_turn_before() -> None:
    topology = make_topology(2)
    (held,) = hold(PROBLEMS[:1], [0], real_table(3), judges(), rules(topology=topology))
    begun = Discussion(held.problem, held.agents, ())
    assert topology.next(begun) == Slot((0, 1, 2), "answer")
    assert topology.next(held) is None
    assert topology.reads(1, held) == held.messages[1]
    assert topology.longest(3, 2) == 2


@pytest.mark.parametrize("agents", [1, 7])
def test_one_agent_and_seven_hold_every_turn(agents: int) -> None:
    (held,) = hold(PROBLEMS[:1], [0], real_table(agents), judges(), rules())
    assert [[m.agent for m in held.said(t)] for t in range(held.turns)] == [list(range(agents))] * 3


def test_only_those_who_are_asked_speak_and_messages_carry_the_phase() -> None:
    held = hold(PROBLEMS, range(4), real_table(3), judges(), rules(topology=SolversThenJudge()))
    for discussion in held:
        said = [[(m.agent, m.phase) for m in row] for row in discussion.messages]
        solved = [(0, "answer"), (1, "answer")]
        assert said == [solved, solved, [(2, "judge")]]
        assert discussion.by(2) == (discussion.at(2, 2),)
        assert discussion.at(0, 2) is None


def test_who_speaks_first_after_others_reads_the_question_and_what_the_topology_shows() -> None:
    _engine, speakers = table(lambda t, i: f"w{10 + 2 * t + i}", agents=3)
    (held,) = hold(PROBLEMS[:1], [0], speakers, judges(0.75), rules(topology=SolversThenJudge()))
    names, codec = held.agents, speakers[2].codec
    shown = [Seen(names[m.agent], m.text, 0.75) for row in held.messages[:2] for m in row]
    assert [seen.text for seen in shown] == ["w10", "w11", "w12", "w13"]
    text = STYLES["compact"].joining(held.problem.question, shown)
    (judge,) = held.said(2)
    assert judge.prompt_ids == tuple(codec.opening_ids(speakers[2].role, text))
    assert judge.dropped_context == 0


def test_a_late_speaker_reads_the_endings_that_fit_and_says_what_was_left_out() -> None:
    long = " ".join(f"w{n}" for n in range(10, 30))
    _engine, speakers = table(lambda t, i: long, agents=3, context=70)
    (held,) = hold(PROBLEMS[:1], [0], speakers, judges(), rules(topology=SolversThenJudge()))
    judge = held.at(2, 2)
    assert judge is not None
    assert judge.dropped_context > 0
    assert len(judge.prompt_ids) + judge.dropped_context == len(
        speakers[2].codec.opening_ids(
            speakers[2].role,
            STYLES["compact"].joining(
                held.problem.question,
                [Seen(held.agents[m.agent], m.text, 0.5) for row in held.messages[:2] for m in row],
            ),
        )
    )
    assert len(judge.prompt_ids) <= 70 - 6


def test_nobody_agrees_before_everybody_has_spoken() -> None:
    _engine, speakers = table(lambda t, i: "w5", agents=3)
    wanted = rules(topology=SolversThenJudge(), consensus_stop=True)
    (held,) = hold(PROBLEMS[:1], [0], speakers, judges(), wanted)
    assert (held.turns, held.stopped_early) == (3, False)


def test_samples_of_a_problem_stand_together_and_the_first_is_the_one_held_alone() -> None:
    speakers = real_table(2)
    alone = hold(PROBLEMS, range(4), speakers, judges(), rules())
    sampled = hold(PROBLEMS, range(4), speakers, judges(), rules(samples=3, max_batch=10))
    assert [(d.problem.id, d.sample) for d in sampled] == [
        (p.id, g) for p in PROBLEMS for g in range(3)
    ]
    assert sampled[::3] == alone
    for q in range(4):
        said = {d.messages[0][0].ids for d in sampled[3 * q : 3 * q + 3]}
        assert len(said) > 1


def test_seeds_of_sample_0_name_no_sample_and_others_do() -> None:
    engine, speakers = table(lambda t, i: "w9", agents=1)
    hold(PROBLEMS[:1], [5], speakers, judges(), rules(samples=2, candidates=2))
    first = [request.seed for request in engine.asked[0]]
    assert first == [
        stable_seed(3, "sample", 5, 0, 0),
        stable_seed(3, "sample", 5, 0, 0, 0, 1),
        stable_seed(3, "sample", 5, 0, 0, 1),
        stable_seed(3, "sample", 5, 0, 0, 1, 1),
    ]


def test_candidates_share_a_prompt_and_the_discussion_goes_on_with_the_chosen_one() -> None:
    speakers, asked = real_table(2), judges(lambda m: m.branch / 2)
    best = Judges(
        *(asked.prompt, asked.grade, asked.score, asked.same),
        choose=lambda _problem, each: max(each, key=lambda m: m.score or 0.0).branch,
    )
    for chooser, taken in ((asked, 0), (best, 2)):
        (held,) = hold(PROBLEMS[:1], [0], speakers, chooser, rules(candidates=3))
        for row in held.messages:
            assert [(m.agent, m.branch) for m in row] == [(a, b) for a in (0, 1) for b in range(3)]
            assert [m.branch for m in row if m.chosen] == [taken, taken]
            assert len({(m.agent, m.prompt_ids) for m in row}) == 2
        for t in (1, 2):
            for a in (0, 1):
                before, after = held.at(t - 1, a), held.at(t, a)
                assert before is not None
                assert after is not None
                whole = before.prompt_ids + before.ids
                assert after.prompt_ids[: len(whole)] == whole


def test_listeners_hear_of_candidates_the_first_and_then_the_chosen() -> None:
    _engine, speakers = table(lambda t, i: f"w{10 + i}", agents=1)
    heard: list[tuple[int, int, int, str]] = []
    spoken: list[list[int]] = []
    counted: list[int] = []
    listeners = Listeners(
        counted.append,
        frozenset({0}),
        lambda d, t, a, text: heard.append((d, t, a, text)),
        lambda _d, row: spoken.append([m.branch for m in row]),
    )
    hold(PROBLEMS[:1], [0], speakers, judges(), rules(candidates=2), listeners)
    assert {text for *_, text in heard} == {"w10"}
    assert spoken == [[0]] * 3
    assert counted == [2] * 3


def test_a_verifier_sees_what_was_said_in_earlier_turns() -> None:
    speakers = real_table(2)
    plain, seen = judges(), []

    def score(items):
        seen.append([(i.message.turn, i.message.agent, [m.text for m in i.earlier]) for i in items])
        return plain.score(items)

    (held,) = hold(
        PROBLEMS[:1],
        [0],
        speakers,
        Judges(plain.prompt, plain.grade, score, plain.same),
        rules(topology=make_topology(2), candidates=2),
    )
    said = [m.text for m in held.said(0)]
    assert seen == [
        [(0, 0, []), (0, 0, []), (0, 1, []), (0, 1, [])],
        [(1, 0, said), (1, 0, said), (1, 1, said), (1, 1, said)],
    ]
