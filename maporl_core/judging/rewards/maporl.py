"""Scores and correctness of one discussion to what each message is paid, part by part.

In: a Discussion whose messages were graded and scored.  Out: T × A RewardParts, and for the
incentives a ShapingEvent per message that says in words which row of the tables fired or that the
others were tied.  Pure; no torch.  Neighbours: ``verifier`` fills ``Message.score`` before,
``packing`` takes the totals after, ``store`` keeps the parts.

Sources: the influence-aware verification reward and the collaboration incentives of MAPoRL (arXiv
2502.18439); docs/rewards.md has the formulas, both tables and a worked example.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from maporl_core.config.schema import RewardConfig
from maporl_core.errors import DataError
from maporl_core.types import Discussion, Message, RewardParts

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


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """One score in a verification reward; ``members`` agents share the ``weight`` of its turn."""

    turn: int
    agent: int
    score: float
    weight: float
    members: int
    denominator: float

    @property
    def paid(self) -> float:
        """Its share of ``own`` or ``influence``."""
        return self.weight * self.score / self.members / self.denominator


def reward_discussion(
    discussion: Discussion, config: RewardConfig, by_score: bool = False
) -> tuple[tuple[RewardParts, ...], ...]:
    """What every message is paid, [T][A]; T is the last turn really held.

    A message without a parsable answer has v = 0 and c = 0, whatever it was given.  ``by_score``
    as in ``shaping_events``.  Raises DataError when a message has no score.
    """
    scores = [[_score(discussion, message) for message in row] for row in discussion.messages]
    events = shaping_events(discussion, config.tie, by_score)
    return tuple(
        tuple(
            _reward_message(message, scores, event, config)
            for message, event in zip(row, event_row, strict=True)
        )
        for row, event_row in zip(discussion.messages, events, strict=True)
    )


def score_terms(
    discussion: Discussion, turn: int, agent: int, config: RewardConfig
) -> tuple[ScoreTerm, ...]:
    """The scores that the verification reward of one message is made of, its own included.

    Its own term is the part ``own``, the others' sum ``influence``.  Raises DataError when a
    message has no score.
    """
    scores = [[_score(discussion, message) for message in row] for row in discussion.messages]
    return tuple(_terms(scores, turn, agent, config))


def shaping_events(
    discussion: Discussion, tie: Tie = "majority", by_score: bool = False
) -> tuple[tuple[ShapingEvent, ...], ...]:
    """Which incentives fired for every message, [T][A], before any coefficient.

    Correctness is ``Message.correct``; where that is None (no gold answer), and everywhere with
    ``by_score`` (a learned verifier decides), a score of at least ``SCORE_THRESHOLD`` counts as
    right.  A message without an answer is wrong.  Raises DataError
    when a message with one has neither.
    """
    right = [
        [_is_right(discussion, message, by_score) for message in row] for row in discussion.messages
    ]
    return tuple(
        tuple(_event(right, turn, agent, tie) for agent in range(len(row)))
        for turn, row in enumerate(right)
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


def explain(event: ShapingEvent) -> tuple[str, ...]:
    """One plain sentence per row that fired and per tie; empty when nothing happened."""
    own = _word(event.right)
    sentences = []
    for row in event.rows:
        if row.name in ("critical", "persuaded"):
            seen = "it broke with" if row.name == "critical" else "it went with"
            story = f"went from {_word(event.right_before)} to {own}; {seen} the others"
        else:
            moved = "wrong to right" if row.weight > 0 else "right to wrong"
            seen = "against" if row.name == "constructive" else "towards"
            story = f"was {own}; the others then moved from {moved}, {seen} its verdict"
        sentences.append(f"{row.name} {row.weight:+.3g}: {story}")
    if event.revision_tied:
        sentences.append(
            f"no self-revision pay: went from {_word(event.right_before)} to {own} while the "
            "others were tied"
        )
    if event.influence_tied:
        sentences.append(
            f"no influence pay: the others moved from {event.others} to {event.others_after}"
        )
    return tuple(sentences)


def _word(right: bool | None) -> str:
    return "right" if right else "wrong"


def _score(discussion: Discussion, message: Message) -> float:
    if message.score is None:
        raise DataError(
            f"the message of turn {message.turn + 1}, agent {message.agent + 1} on problem "
            f"{discussion.problem.id!r} has no score: score the discussion with a verifier first"
        )
    return 0.0 if message.answer is None else message.score


def _is_right(discussion: Discussion, message: Message, by_score: bool) -> bool:
    if message.answer is None:
        return False
    if message.correct is not None and not by_score:
        return message.correct
    return _score(discussion, message) >= SCORE_THRESHOLD


def _reward_message(
    message: Message,
    scores: Sequence[Sequence[float]],
    event: ShapingEvent,
    config: RewardConfig,
) -> RewardParts:
    """The parts of one message; penalties stay with it and never enter anybody's influence."""
    own, influence = _verification(scores, event.turn, event.agent, config)
    paid = dict.fromkeys(get_args(Incentive), 0.0)
    for row in event.rows:
        paid[row.name] += getattr(config, row.name) * row.weight
    return RewardParts(
        own=own,
        influence=influence,
        format=config.format if message.answer is None else 0.0,
        unfinished=config.unfinished if message.finish == "length" else 0.0,
        **paid,
    )


def _verification(
    scores: Sequence[Sequence[float]], turn: int, agent: int, config: RewardConfig
) -> tuple[float, float]:
    """(own, influence) of one message; with horizon "last", own = 0 before the last turn."""
    own, others = 0.0, []
    for term in _terms(scores, turn, agent, config):
        if (term.turn, term.agent) == (turn, agent):
            own = term.paid
        else:
            others.append(term.paid)
    return own, math.fsum(others)  # fsum: the same for any order of the agents


def _terms(
    scores: Sequence[Sequence[float]], turn: int, agent: int, config: RewardConfig
) -> list[ScoreTerm]:
    """The reward of one message as a weighted mean of scores v(u, j), term by term.

    Turn weights are γ^(u−t) for u ≥ t ("discounted"), or all on turn t ("current") or on turn T
    ("last").  A turn's weight goes to the mean over all agents (share "team", a itself included) or
    to agent a alone ("own"); in "discounted" the present turn is always a's alone.
    """
    last = len(scores) - 1
    if config.horizon == "discounted":
        weights = {u: config.gamma ** (u - turn) for u in range(turn, last + 1)}
    else:
        weights = {turn if config.horizon == "current" else last: 1.0}
    denominator = sum(weights.values())
    terms = []
    for u, weight in weights.items():
        alone = config.share == "own" or (config.horizon == "discounted" and u == turn)
        members = (agent,) if alone else tuple(range(len(scores[u])))
        terms += [ScoreTerm(u, j, scores[u][j], weight, len(members), denominator) for j in members]
    return terms


def _event(right: Sequence[Sequence[bool]], turn: int, agent: int, tie: Tie) -> ShapingEvent:
    """The incentives around one message; nothing fires when there are no other agents."""
    others = len(right[turn]) - 1
    first, last = turn == 0, turn == len(right) - 1
    own = right[turn][agent]
    before = None if first else right[turn - 1][agent]
    if others == 0:
        return ShapingEvent(turn, agent, before, own, None, None, None)
    counts = [sum(row) - row[agent] for row in right]  # others that are right, per turn
    rows: list[ShapingRow] = []
    revision_tied = influence_tied = False
    if before is not None and before != own:
        found, revision_tied = _revision(before, counts[turn - 1], others, tie)
        rows += found
    if not last:
        found, influence_tied = _influence(own, counts[turn], counts[turn + 1], others, tie)
        rows += found
    return ShapingEvent(
        turn,
        agent,
        before,
        own,
        None if first else _majority(counts[turn - 1], others),
        _majority(counts[turn], others),
        None if last else _majority(counts[turn + 1], others),
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
