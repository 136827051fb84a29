"""The published reward: scores and correctness to what each message is paid, in eight parts.

In: Discussions whose messages were graded and scored.  Out: a Pay per Place, and why.  Pure; no
torch.  Neighbours: ``verification`` gives the terms of ``own`` and ``influence``, ``incentives``
says which incentive fired, ``explain`` words both; ``base`` says what every scheme is.

A candidate that the discussion did not go on with is paid as if it had ended the discussion.
Sources: the influence-aware verification reward and the collaboration incentives of MAPoRL (arXiv
2502.18439); docs/rewards.md has the formulas, both tables and a worked example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.base import Need, ended_by, message_at
from maporl_core.judging.rewards.explain import explain, rests_on_score
from maporl_core.judging.rewards.explain_incentives import off
from maporl_core.judging.rewards.incentives import (
    SCORE_THRESHOLD,
    Incentive,
    ShapingEvent,
    ShapingRow,
    Tie,
    count_shaping,
    shaping_events,
)
from maporl_core.judging.rewards.told import Told
from maporl_core.judging.rewards.verification import (
    Scores_TA,
    ScoreTerm,
    score_terms,
    scores_of,
    verification,
)
from maporl_core.types import Discussion, Message, Part, Pay, Place, Reason

__all__ = [
    "SCORE_THRESHOLD",
    "Maporl",
    "ScoreTerm",
    "ShapingEvent",
    "ShapingRow",
    "Tie",
    "count_shaping",
    "reward_discussion",
    "score_terms",
    "shaping_events",
]

PARTS = (
    Part("own", "share of the verification reward that comes from the message's own score"),
    Part("influence", "share of it that comes from the scores of others and of later turns"),
    Part("critical", "changed its verdict against the majority of the others"),
    Part("persuaded", "changed its verdict to that of the majority of the others"),
    Part("constructive", "the others then changed their verdict away from its own"),
    Part("persuasive", "the others then changed their verdict to its own"),
    Part("format", "penalty: no answer can be read"),
    Part("unfinished", "penalty: cut off at the length limit"),
)


class Maporl:
    """The scheme of ``reward.kind = "maporl"``; see ``base.RewardScheme``."""

    says = "own and later scores, incentives for changing minds, penalties"
    Options = RewardConfig
    parts = PARTS
    needs: frozenset[Need] = frozenset({"scores"})

    def __init__(self, options: RewardConfig, by_score: bool = False) -> None:
        self.options, self.by_score = options, by_score

    def pay(self, held: Sequence[Discussion]) -> dict[Place, Pay]:
        """Every message of every discussion, in the order of places."""
        paid: dict[Place, Pay] = {}
        for d, discussion in enumerate(held):
            said = dict(self._said(discussion))
            for message in discussion.everything():
                place = Place(d, message.turn, message.agent, message.branch)
                paid[place] = (
                    said[message.turn, message.agent]
                    if message.chosen
                    else dict(self._said(ended_by(discussion, message)))[
                        message.turn, message.agent
                    ]
                )
        return paid

    def explain(self, held: Discussion, place: Place) -> tuple[Reason, ...]:
        """Reasons in the order of the parts, notes before and after them."""
        told = self._told(held, message_at(held, place), place.discussion)
        return explain(told)

    def verdicts(self, held: Discussion) -> dict[Place, bool]:
        """What counts as right where a score decides it; nothing where the answers' marks do."""
        if self._counts_marks(held):
            return {}
        events = shaping_events(held, self.options.tie, self.by_score)
        right = {(e.turn, e.agent): e.right for row in events for e in row}
        return {
            Place(0, m.turn, m.agent, m.branch): right[m.turn, m.agent]
            for row in held.messages
            for m in row
            if m.chosen and m.answer is not None
        }

    def counts(self, held: Sequence[Discussion]) -> dict[str, float]:
        """How often each incentive fired ("shaping/critical+" …), paid or not, and each tie."""
        totals: dict[str, float] = {}
        for discussion in held:
            events = shaping_events(discussion, self.options.tie, self.by_score)
            for name, count in count_shaping(events).items():
                totals[f"shaping/{name}"] = totals.get(f"shaping/{name}", 0.0) + count
        return totals

    def _said(self, discussion: Discussion) -> Iterator[tuple[tuple[int, int], Pay]]:
        """What was paid to everything said, by (turn, agent)."""
        rows = reward_discussion(discussion, self.options, self.by_score)
        for turn, row in enumerate(rows):
            for message, pay in zip(discussion.said(turn), row, strict=True):
                yield (turn, message.agent), pay

    def _told(self, held: Discussion, message: Message, key: int = 0) -> Told:
        """A message beside what was paid for it, in the discussion that it saw."""
        seen = held if message.chosen else ended_by(held, message)
        pay = dict(self._said(seen))[message.turn, message.agent]
        return Told(seen, message, self.options, pay, self.by_score, key)

    def _counts_marks(self, held: Discussion) -> bool:
        """Whether the incentives judge every message as its answer is marked, or not at all."""
        if off(self.options) or len(held.agents) < 2:
            return True
        return not any(rests_on_score(m, self.by_score) for row in held.messages for m in row)


def reward_discussion(
    discussion: Discussion, config: RewardConfig, by_score: bool = False
) -> tuple[tuple[Pay, ...], ...]:
    """What everything said is paid, per turn in speaking order; T is the last turn really held.

    A message without a parsable answer has v = 0 and c = 0, whatever it was given.  ``by_score``
    as in ``shaping_events``.  Raises DataError when a message has no score.
    """
    scores = scores_of(discussion)
    events = shaping_events(discussion, config.tie, by_score)
    return tuple(
        tuple(
            _pay(message, scores, event, config)
            for message, event in zip(discussion.said(turn), row, strict=True)
        )
        for turn, row in enumerate(events)
    )


def _pay(message: Message, scores: Scores_TA, event: ShapingEvent, config: RewardConfig) -> Pay:
    """The parts of one message; penalties stay with it and never enter anybody's influence."""
    own, influence = verification(scores, event.turn, event.agent, config)
    fired = dict.fromkeys(get_args(Incentive), 0.0)
    for row in event.rows:
        fired[row.name] += getattr(config, row.name) * row.weight
    return Pay(
        {
            "own": own,
            "influence": influence,
            **fired,
            "format": config.format if message.answer is None else 0.0,
            "unfinished": config.unfinished if message.finish == "length" else 0.0,
        }
    )
