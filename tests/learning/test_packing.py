"""Rows of ragged discussions, samples and candidates."""

from __future__ import annotations

from small import training

from maporl_core.learning.packing import pack
from maporl_core.types import Discussion, Message, Pay, Place, Problem

PROBLEM = Problem("p", "q", "1", "made-up", "train")


def message(turn: int, agent: int, prompt: tuple[int, ...], *ids: int, **more: object) -> Message:
    policy = ("Ada", "Bo", "Cy")[agent]
    return Message(turn, agent, policy, prompt, ids, (-1.0,) * len(ids), "", "stop", **more)  # type: ignore[arg-type]


def paid(*held: Discussion) -> dict[Place, Pay]:
    """Every message gets a reward of its own: 0, 1, 2, … in place order."""
    places = [
        Place(d, m.turn, m.agent, m.branch)
        for d, discussion in enumerate(held)
        for m in discussion.everything()
    ]
    return {place: Pay({"own": float(n)}) for n, place in enumerate(places)}


def test_turns_in_which_an_agent_is_silent_leave_no_mark_in_its_row() -> None:
    # Cy speaks in turn 2 only, Ada in turns 1 and 3, Bo in turn 1.
    held = Discussion(
        PROBLEM,
        ("Ada", "Bo", "Cy"),
        (
            (message(0, 0, (5,), 6), message(0, 1, (7,), 8)),
            (message(1, 2, (9, 9), 10),),
            (message(2, 0, (5, 6, 3), 11),),
        ),
    )
    rows = pack([held], paid(held), training(0, 1, 2))
    assert [(row.policy, row.ids) for row in rows] == [
        ("Ada", (5, 6, 3, 11)),
        ("Bo", (7, 8)),
        ("Cy", (9, 9, 10)),
    ]
    assert [[span.place for span in row.spans] for row in rows] == [
        [Place(0, 0, 0), Place(0, 2, 0)],
        [Place(0, 0, 1)],
        [Place(0, 1, 2)],
    ]
    assert [span.reward for row in rows for span in row.spans] == [0.0, 3.0, 1.0, 2.0]


def tree() -> Discussion:
    """Two candidates in each of two turns; the talk went on with number 1, then with number 0."""
    return Discussion(
        PROBLEM,
        ("Ada",),
        (
            (
                message(0, 0, (5,), 6, branch=0, chosen=False),
                message(0, 0, (5,), 7, branch=1),
            ),
            (
                message(1, 0, (5, 7, 3), 8, branch=0),
                message(1, 0, (5, 7, 3), 9, 10, branch=1, chosen=False),
            ),
        ),
    )


def test_only_the_chosen_candidates_are_trained_unless_the_plan_says_more() -> None:
    held = tree()
    (row,) = pack([held], paid(held), training(0))
    assert row.ids == (5, 7, 3, 8)
    assert [span.place for span in row.spans] == [Place(0, 0, 0, 1), Place(0, 1, 0, 0)]
    assert [span.reward for span in row.spans] == [1.0, 2.0]


def test_a_candidate_that_was_not_chosen_is_a_row_that_branches_off_the_shared_prefix() -> None:
    held = tree()
    chain, *branches = pack([held], paid(held), training(0, train_unchosen=True))
    assert chain.ids == (5, 7, 3, 8)
    assert [row.ids for row in branches] == [(5, 6), (5, 7, 3, 9, 10)]
    assert [span.place for row in branches for span in row.spans] == [
        Place(0, 0, 0, 0),
        Place(0, 1, 0, 1),
    ]
    assert [span.reward for row in branches for span in row.spans] == [0.0, 3.0]
    assert [(span.start, span.end) for row in branches for span in row.spans] == [(1, 2), (3, 5)]


def test_a_key_says_problem_sample_policy_and_phase() -> None:
    held = Discussion(PROBLEM, ("Ada",), ((message(0, 0, (5,), 6, phase="plan"),),), sample=3)
    (row,) = pack([held], paid(held), training(0))
    (key,) = [span.key for span in row.spans]
    assert (key.place, key.problem, key.sample) == (Place(0, 0, 0), "p", 3)
    assert (key.policy, key.phase) == ("Ada", "plan")


def test_agents_that_are_not_trained_and_words_of_the_bare_base_make_no_row() -> None:
    bare = message(0, 0, (5,), 6)
    bare = Message(**{name: getattr(bare, name) for name in bare.__slots__} | {"policy": None})
    held = Discussion(PROBLEM, ("Ada", "Bo"), ((bare, message(0, 1, (7,), 8)),))
    assert pack([held], paid(held), training(0)) == []
    assert [row.policy for row in pack([held], paid(held), training(0, 1))] == ["Bo"]
