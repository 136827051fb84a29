"""What a reward is: held discussions in, what each message is paid out, part by part.

In: Discussions whose messages were graded and scored, all those of one step.  Out: a ``Pay`` for
every ``Place``, candidates included, and the reasons in plain words.  Pure; no torch.  Neighbours:
``verifier`` fills ``Message.score`` before, ``packing`` takes the totals after, ``store`` keeps the
parts that a scheme declares, the app draws them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from maporl_core.types import Discussion, Message, Part, Pay, Place, Reason

Need = Literal["gold", "scores", "candidates"]
"""What a scheme cannot do without: gold answers, a verifier's scores, several messages a place."""


class RewardScheme(Protocol):
    """Made of its options, and of whether scores, not verdicts, decide what counts as right."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of every Pay, in the order in which they are summed and shown."""
        ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def pay(self, held: Sequence[Discussion]) -> Mapping[Place, Pay]:
        """What every message is paid, in the order of places; discussions count from 0.

        Raises DataError when a message lacks what the scheme needs of it.
        """
        ...

    def explain(self, held: Discussion, place: Place) -> tuple[Reason, ...]:
        """Why each part of one message's pay is what it is; nothing for parts that say nothing."""
        ...

    def counts(self, held: Sequence[Discussion]) -> Mapping[str, float]:
        """Metrics of a step beside the parts' means, by their whole names."""
        ...


def message_at(held: Discussion, place: Place) -> Message:
    """The message of a place.  Raises LookupError where nobody spoke."""
    message = held.at(place.turn, place.agent, place.branch)
    if message is None:
        raise LookupError(f"nobody spoke at turn {place.turn + 1}, agent {place.agent + 1}")
    return message


def ended_by(held: Discussion, message: Message) -> Discussion:
    """The discussion as a message saw it that it did not go on with: cut, and closed by it."""
    last = tuple(
        replace(message, chosen=True) if said.agent == message.agent else said
        for said in held.said(message.turn)
    )
    return replace(
        held, messages=(*(held.said(turn) for turn in range(message.turn)), last), sample=0
    )
