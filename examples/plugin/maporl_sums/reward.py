"""A reward: a right answer is paid, and a brief message a little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from maporl_core.config.kinds import Section, Weight
from maporl_core.types import Discussion, Message, Part, Pay, Place, Reason


class RightOptions(Section):
    right: Weight = Field(1.0, description="pay of a right answer")
    brief: Weight = Field(0.1, description="pay of a message of at most 20 characters")


class Right:
    says = "pays right answers, and brief ones a little"
    Options = RightOptions
    parts = (Part("right", "the answer is right"), Part("brief", "at most 20 characters"))
    needs: frozenset[str] = frozenset({"gold"})

    def __init__(self, options: RightOptions, by_score: bool = False) -> None:
        self.options = options

    def pay(self, held: Sequence[Discussion]) -> Mapping[Place, Pay]:
        return {
            Place(d, message.turn, message.agent, message.branch): self._pay(message)
            for d, discussion in enumerate(held)
            for message in discussion.everything()
        }

    def _pay(self, message: Message) -> Pay:
        right = self.options.right * bool(message.correct)
        return Pay({"right": right, "brief": self.options.brief * (len(message.text) <= 20)})

    def explain(self, held: Discussion, place: Place) -> tuple[Reason, ...]:
        message = held.at(place.turn, place.agent, place.branch)
        if message is None:
            raise LookupError("nobody spoke there")
        paid = self._pay(message).parts
        verdict = "right" if message.correct else "not right"
        return (
            Reason("right", paid["right"], (f"the answer is {verdict}",)),
            Reason("brief", paid["brief"], (f"{len(message.text)} characters",)),
        )

    def counts(self, held: Sequence[Discussion]) -> Mapping[str, float]:
        return {}
