"""Collaboration incentives: what a message and the others' changes of mind fire.

In: a Discussion whose messages were graded.  Out: a ShapingEvent per message said, which says which
row of the two tables fired or that the others were tied.  Pure.  Neighbours: ``maporl`` pays the
rows, ``explain`` words them.

An agent stands at what it last said, so where not everybody speaks in every turn the others'
verdicts are those they stood at.  Source: MAPoRL (arXiv 2502.18439); docs/rewards.md has both
tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from maporl_core.judging.rewards.verification import score_of
from maporl_core.types import Discussion, Message

Tie = Literal["majority", "fraction"]
Verdict = Literal["right", "wrong", "tied"]
Incentive = Literal["critical", "persuaded", "constructive", "persuasive"]

SCORE_THRESHOLD = 0.5  # without a gold answer a message counts as right from this score on


@dataclass(frozen=True, slots=True)
class ShapingRow:
    """One table row that fired: it pays ``weight`` times the coefficient of that name.

    The weight is ±1 for ``tie = "majority"``, a fraction in [-1, 1] for ``tie = "fraction"``.
    """

    name: Incentive
    weight: float


@dataclass(frozen=True, slots=True)
class ShapingEvent:
    """What the incentives saw around the message of agent ``agent`` in turn ``turn`` (0-based).

    ``right_before`` is the agent's own verdict one turn earlier (None in the first turn).
    ``others_before``, ``others`` and ``others_after`` are the majority verdicts of the other
    agents one turn earlier, in this turn and one turn later; None where there is no such turn or
    there are no others.  ``revision_tied``: the agent changed its verdict and was paid nothing
    because the others had been tied.  ``influence_tied``: the others moved into or out of a tie,
    which pays nothing either.
    """

    turn: int
    agent: int
    right_before: bool | None
    right: bool
    others_before: Verdict | None
    others: Verdict | None
    others_after: Verdict | None
    rows: tuple[ShapingRow, ...] = ()
    revision_tied: bool = False
    influence_tied: bool = False


def shaping_events(
    discussion: Discussion, tie: Tie = "majority", by_score: bool = False
) -> tuple[tuple[ShapingEvent, ...], ...]:
    """Which incentives fired for every message said, per turn, before any coefficient.

    Correctness is ``Message.correct``; where that is None (no gold answer), and everywhere with
    ``by_score`` (a learned verifier decides), a score of at least ``SCORE_THRESHOLD`` counts as
    right.  A message without an answer is wrong.  Raises DataError
    when a message with one has neither.
    """
    stood: list[dict[int, bool]] = []
    for turn in range(discussion.turns):
        said = {m.agent: _is_right(discussion, m, by_score) for m in discussion.said(turn)}
        stood.append({**(stood[-1] if stood else {}), **said})
    return tuple(
        tuple(_event(stood, turn, message.agent, tie) for message in discussion.said(turn))
        for turn in range(discussion.turns)
    )


def count_shaping(events: Iterable[Iterable[ShapingEvent]]) -> dict[str, int]:
    """How often each row fired with each sign, and how often a tie paid nothing.

    Keys, always all ten: "critical+", "critical-", … "persuasive-", "revision_tied",
    "influence_tied".
    """
    counts: Counter[str] = Counter()
    for event in (event for row in events for event in row):
        counts.update(f"{row.name}{'+' if row.weight > 0 else '-'}" for row in event.rows)
        counts["revision_tied"] += event.revision_tied
        counts["influence_tied"] += event.influence_tied
    keys = [f"{name}{sign}" for name in get_args(Incentive) for sign in "+-"]
    return {key: counts[key] for key in (*keys, "revision_tied", "influence_tied")}


def _is_right(discussion: Discussion, message: Message, by_score: bool) -> bool:
    if message.answer is None:
        return False
    if message.correct is not None and not by_score:
        return message.correct
    return score_of(discussion, message) >= SCORE_THRESHOLD


def _event(stood: Sequence[Mapping[int, bool]], turn: int, agent: int, tie: Tie) -> ShapingEvent:
    """The incentives around one message; nothing fires when there are no other agents.

    ``stood``: per turn, the verdict at which each agent stood that had spoken by then.
    """
    own = stood[turn][agent]
    earlier = stood[turn - 1] if turn > 0 else {}
    before = earlier.get(agent)
    around = [j for j in stood[turn] if j != agent]  # who can be moved by this message
    if not around:
        return ShapingEvent(turn, agent, before, own, None, None, None)
    had_spoken = [j for j in earlier if j != agent]
    were_right = sum(earlier[j] for j in had_spoken)
    are_right = sum(stood[turn][j] for j in around)
    rows: list[ShapingRow] = []
    revision_tied = influence_tied = False
    if before is not None and before != own and had_spoken:
        found, revision_tied = _revision(before, were_right, len(had_spoken), tie)
        rows += found
    others_after: Verdict | None = None
    if turn + 1 < len(stood):
        right_after = sum(stood[turn + 1][j] for j in around)
        others_after = _majority(right_after, len(around))
        found, influence_tied = _influence(own, are_right, right_after, len(around), tie)
        rows += found
    return ShapingEvent(
        turn,
        agent,
        before,
        own,
        _majority(were_right, len(had_spoken)) if had_spoken else None,
        _majority(are_right, len(around)),
        others_after,
        tuple(rows),
        revision_tied,
        influence_tied,
    )


def _majority(right: int, others: int) -> Verdict:
    """M(t, a): right or wrong when more than half of the others are, else tied."""
    if 2 * right == others:
        return "tied"
    return "right" if 2 * right > others else "wrong"


def _revision(
    before: bool, right: int, others: int, tie: Tie
) -> tuple[tuple[ShapingRow, ...], bool]:
    """Self-revision of an agent that was ``before`` and is the opposite now; and if it was tied.

    ``right`` of the ``others`` were right one turn earlier.  Leaving a verdict that the others
    shared is critical, coming over to theirs is persuaded; becoming right pays, wrong costs.
    """
    sign = -1.0 if before else 1.0
    shared = right if before else others - right  # others on the side that the agent left
    if tie == "fraction":
        parts: tuple[tuple[Incentive, float], ...] = (
            ("critical", shared / others),
            ("persuaded", (others - shared) / others),
        )
        return tuple(ShapingRow(name, sign * part) for name, part in parts if part), False
    if 2 * shared == others:
        return (), True
    return (ShapingRow("critical" if 2 * shared > others else "persuaded", sign),), False


def _influence(
    own: bool, right: int, right_after: int, others: int, tie: Tie
) -> tuple[tuple[ShapingRow, ...], bool]:
    """Influence of a message with verdict ``own`` on others that move by the next turn.

    ``right`` of the ``others`` are right now and ``right_after`` in the next turn.  Others that
    end up where the message stood were persuaded by it (persuasive), others that leave its side
    moved against it (constructive); a move to right pays, to wrong costs.
    """
    if tie == "fraction":
        weight = (right_after - right) / others
        tied = False
    else:
        now, after = _majority(right, others), _majority(right_after, others)
        tied = (now == "tied") != (after == "tied")
        moved = now != after and "tied" not in (now, after)
        weight = (1.0 if after == "right" else -1.0) if moved else 0.0
    if weight == 0.0:
        return (), tied
    towards_own = own == (weight > 0)
    return (ShapingRow("persuasive" if towards_own else "constructive", weight),), tied
