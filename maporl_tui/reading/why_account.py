"""What was paid in one discussion, held against the scheme that pays.

In: a stored discussion, the parts that its run declares, the run's config.  Out: an ``Account`` of
it.  Pure.  Neighbours: the scheme is asked again; ``why`` puts the account into words.

The stored numbers are what was paid.  They are explained only where the scheme still gives them:
an edited config, or a store of another version, makes parts ``disputed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from maporl_core.config.schema import RunConfig
from maporl_core.judging.rewards import make_scheme
from maporl_core.judging.rewards.base import RewardScheme
from maporl_core.store.reader import MessageReward, StoredDiscussion
from maporl_core.types import Discussion, Message, Part, Pay, Place, Reason
from maporl_tui.drawing.text import one_line

Kind = Literal["sum", "part", "from", "note", "problem"]
Spot = tuple[int, int, int]
"""(turn, agent, branch): a place within one discussion."""

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Why:
    """One line.  ``turn``, ``agent`` and ``branch`` (from 0) are the message that it speaks of.

    ``kind``: the sum, one part of it, where a part comes from, a note, or why it is not explained.
    """

    text: str
    kind: Kind
    turn: int
    agent: int
    part: str | None = None
    branch: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """One paid discussion beside what its scheme says of it.

    ``parts`` are those that the run declares, in their order.  ``scheme`` is None, and ``rules``
    empty, when it cannot be asked; ``problem`` then says why.  ``disputed`` are the parts whose
    stored numbers the scheme does not give now.  ``verdicts``: what it counts as right, where
    that is not how the answer is marked.
    """

    discussion: Discussion
    rewards: Mapping[Spot, MessageReward]
    parts: tuple[Part, ...]
    scheme: RewardScheme | None = None
    rules: Mapping[Spot, Pay] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()
    problem: str | None = None
    verdicts: Mapping[Spot, bool] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(part.name for part in self.parts)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything that was paid, in the order of places."""
        return tuple(m for m in self.discussion.everything() if spot_of(m) in self.rewards)

    def pay(self, spot: Spot) -> Pay:
        return self.rewards[spot].pay

    def name(self, agent: int) -> str:
        """An agent's name, safe to print."""
        return one_line(self.discussion.agents[agent], 24) or f"agent {agent + 1}"

    def title(self, message: Message) -> str:
        """A message's turn and agent, with its number where several were written."""
        several = [m for m in self.discussion.messages[message.turn] if m.agent == message.agent]
        number = f"/{message.branch + 1}{'*' * message.chosen}" if len(several) > 1 else ""
        return f"{message.turn + 1} {self.name(message.agent)}{number}"

    def explained(self, part: str) -> bool:
        return self.scheme is not None and part not in self.disputed

    def second_mark(self, message: Message) -> str:
        """✓ or ✗ where the scheme judges a message, and not as its answer is marked."""
        right = self.verdicts.get(spot_of(message))
        if right is None or message.answer is None or right == message.correct:
            return ""
        return "✓" if right else "✗"

    def reasons(self, spot: Spot) -> tuple[Reason, ...]:
        """What the scheme says of one message; nothing where it cannot be asked."""
        if self.scheme is None:
            return ()
        try:
            return self.scheme.explain(self.discussion, Place(0, *spot))
        except Exception as error:  # noqa: BLE001 - others' code may raise anything
            return (Reason("", 0.0, (f"no reasons: {one_line(error, 200)}",)),)


def spot_of(message: Message) -> Spot:
    return message.turn, message.agent, message.branch


def account(
    stored: StoredDiscussion,
    config: RunConfig | None,
    config_problem: str | None = None,
    declared: Sequence[Part] = (),
) -> Account | None:
    """What was paid in a discussion, held against its scheme; None when nothing was."""
    discussion = stored.discussion
    rewards = {spot(place): reward for place, reward in (stored.rewards or {}).items()}
    if not rewards:
        return None
    parts = _parts(rewards.values(), declared)
    if config is None:
        reason = one_line(config_problem or "the run has none", 200)
        return Account(discussion, rewards, parts, problem=f"no config to explain with: {reason}")
    try:
        scheme = make_scheme(config.reward, config.verifier.by_score)
        rules = {spot(place): pay for place, pay in scheme.pay([discussion]).items()}
        judge = getattr(scheme, "verdicts", None)
        verdicts = judge(discussion) if judge is not None else {}
    except Exception as error:  # noqa: BLE001 - others' code may raise anything
        return Account(discussion, rewards, parts, problem=one_line(error, 200))
    disputed = _disputed(rewards, rules, parts)
    right = {} if disputed else {spot(place): found for place, found in verdicts.items()}
    return Account(discussion, rewards, parts, scheme, rules, disputed, verdicts=right)


def spot(place: Place) -> Spot:
    return place.turn, place.agent, place.branch


def _parts(rewards: Iterable[MessageReward], declared: Sequence[Part]) -> tuple[Part, ...]:
    """The declared parts, then those that were paid all the same."""
    named = {part.name: part for part in declared}
    for reward in rewards:
        for name in reward.pay.parts:
            named.setdefault(name, Part(name, ""))
    return tuple(named.values())


def _disputed(
    rewards: Mapping[Spot, MessageReward], rules: Mapping[Spot, Pay], parts: Sequence[Part]
) -> frozenset[str]:
    """Parts of which some stored number is not what the scheme gives."""
    nothing = Pay({})
    return frozenset(
        part.name
        for part in parts
        if not all(
            _same(
                reward.pay.parts.get(part.name, 0.0),
                rules.get(spot, nothing).parts.get(part.name, 0.0),
            )
            for spot, reward in rewards.items()
        )
    )


def _same(stored: float, given: float) -> bool:
    if math.isnan(stored) and math.isnan(given):
        return True
    return math.isclose(stored, given, rel_tol=1e-9, abs_tol=_TOLERANCE)
