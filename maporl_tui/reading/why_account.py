"""What was paid in one discussion, held against the rules that pay.

In: a stored discussion and the run's config.  Out: an ``Account`` of it, and numbers as sums print
them.  Pure.  Neighbours: ``judging.rewards.maporl`` is asked again; ``why`` and ``why_parts`` put
the account into words.

The stored numbers are what was paid.  They are explained only where the rules still give them: an
edited config, or a store of another version, makes parts ``disputed``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from maporl_core.config.schema import RewardConfig, RunConfig
from maporl_core.errors import DataError
from maporl_core.judging.rewards.maporl import ShapingEvent, reward_discussion, shaping_events
from maporl_core.store.reader import MessageReward, StoredDiscussion
from maporl_core.types import REWARD_PARTS, Discussion, Pay
from maporl_tui.drawing.text import one_line

Kind = Literal["sum", "part", "from", "note", "problem"]

INCENTIVES = ("critical", "persuaded", "constructive", "persuasive")
GROUPS = (("own", "influence"), INCENTIVES, ("format",), ("unfinished",))
"""Parts that one rule pays: explained together or not at all."""

_TOLERANCE = 1e-6
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Why:
    """One line.  ``turn`` and ``agent`` (from 0) are the message that it speaks of.

    ``kind``: the sum, one part of it, where a part comes from, a note, or why it is not explained.
    """

    text: str
    kind: Kind
    turn: int
    agent: int
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """One paid discussion beside what the rules say of it, all [T][A].

    ``config`` is None, and ``events_TA`` and ``rules_TA`` empty, when the rules cannot be asked;
    ``problem`` then says why.  ``disputed`` are the parts whose stored numbers the rules of the
    present config do not give.
    """

    discussion: Discussion
    rewards_TA: tuple[tuple[MessageReward, ...], ...]
    config: RewardConfig | None = None
    events_TA: tuple[tuple[ShapingEvent, ...], ...] = ()
    rules_TA: tuple[tuple[Pay, ...], ...] = ()
    disputed: frozenset[str] = frozenset()
    problem: str | None = None
    by_score: bool = False  # a learned verifier decided what counts as right

    def parts(self, turn: int, agent: int) -> Pay:
        return self.rewards_TA[turn][agent].parts

    def name(self, agent: int) -> str:
        """An agent's name, safe to print."""
        return one_line(self.discussion.agents[agent], 24) or f"agent {agent + 1}"

    def explained(self, part: str) -> bool:
        return self.config is not None and part not in self.disputed


def account(
    stored: StoredDiscussion, config: RunConfig | None, config_problem: str | None = None
) -> Account | None:
    """What was paid in a discussion, held against the rules; None when nothing was."""
    discussion, rewards = stored.discussion, stored.rewards_TA
    if rewards is None or [len(row) for row in rewards] != [len(r) for r in discussion.messages]:
        return None
    if config is None:
        reason = one_line(config_problem or "the run has none", 200)
        return Account(discussion, rewards, problem=f"no config to explain with: {reason}")
    try:
        by_score = config.verifier.by_score
        rules_TA = reward_discussion(discussion, config.reward, by_score)
        events_TA = shaping_events(discussion, config.reward.tie, by_score)
    except DataError as error:
        return Account(discussion, rewards, problem=one_line(error, 200))
    disputed = _disputed(rewards, rules_TA)
    return Account(
        discussion, rewards, config.reward, events_TA, rules_TA, disputed, by_score=by_score
    )


def _disputed(
    rewards_TA: Sequence[Sequence[MessageReward]], rules_TA: Sequence[Sequence[Pay]]
) -> frozenset[str]:
    """All parts of each group in which some stored number is not what the rules give."""
    differing = {
        name
        for rewards, rules in zip(rewards_TA, rules_TA, strict=True)
        for reward, rule in zip(rewards, rules, strict=True)
        for name in REWARD_PARTS
        if not _same(getattr(reward.parts, name), getattr(rule, name))
    }
    return frozenset(name for group in GROUPS if differing.intersection(group) for name in group)


def _same(stored: float, given: float) -> bool:
    if math.isnan(stored) and math.isnan(given):
        return True
    return math.isclose(stored, given, rel_tol=1e-9, abs_tol=_TOLERANCE)


def digits_for(values: Sequence[float]) -> int:
    """Decimals with which no number but 0 is printed as 0; 3 to 6."""
    digits = 3
    small = [abs(value) for value in values if value and math.isfinite(value)]
    while digits < _MOST_DIGITS and any(not _printed(value, digits) for value in small):
        digits += 1
    return digits


def adds_up(values: Sequence[float], total: float, digits: int) -> bool:
    """Whether the numbers as printed give the total as printed."""
    if not all(map(math.isfinite, (*values, total))):
        return False
    return sum(_printed(value, digits) for value in values) == _printed(total, digits)


def _printed(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits}f}")


def figure(value: float, digits: int = 3, sign: bool = False) -> str:
    """A number with a real minus sign, and a plus where ``sign`` is asked for."""
    text = f"{abs(value):.{digits}f}"
    if value < 0:
        return f"−{text}"
    return f"+{text}" if sign else text


def short(value: float) -> str:
    """A weight or coefficient as people write it: 1, 0.3, 1.39."""
    return f"{value:.4g}".replace("-", "−")
