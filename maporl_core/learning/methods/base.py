"""What a method is: what to roll out, who is compared with whom, and by which maths to train.

In: its own options and the run's config.  Out: a ``RolloutPlan`` per step for ``train`` and
``packing``; an estimator and an objective for ``updater``.  Neighbours: ``estimators`` makes
credit, ``objectives`` the loss.  No torch in here: the config reads a method's options.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from maporl_core.learning.keys import MessageKey as MessageKey

if TYPE_CHECKING:
    from maporl_core.config.schema import RunConfig
    from maporl_core.learning.estimators.base import Estimator
    from maporl_core.learning.objectives.base import Objective


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What one step gathers: G ``samples`` of each problem, K ``candidates`` at each place.

    ``base_turns``: so many first turns are spoken by the bare base.  ``trained``: agents whose
    messages are trained, 0-based; of several candidates at a place only the one the discussion went
    on with, unless ``train_unchosen`` is set.
    """

    problems: int
    samples: int = 1
    candidates: int = 1
    base_turns: int = 0
    trained: frozenset[int] = frozenset({0})
    train_unchosen: bool = False


@dataclass(frozen=True, slots=True)
class KLPrice:
    """Price per nat of distance from the base, fixed or adapted towards ``target`` nats per message
    over ``horizon`` messages.  It is taken off every token's reward, or stands in the loss.
    """

    coef: float
    target: float | None = None
    horizon: float = 10_000.0
    within: Literal["reward", "loss"] = "reward"


class Method(Protocol):
    """One way to train.  ``train`` and ``updater`` never learn which."""

    @property
    def name(self) -> str: ...

    @property
    def estimator(self) -> Estimator: ...

    @property
    def objective(self) -> Objective: ...

    @property
    def kl(self) -> KLPrice: ...

    def plan(self, step: int, /) -> RolloutPlan:
        """What step ``step`` (0-based) rolls out and trains."""
        ...

    def group(self, key: MessageKey, /) -> Hashable | None:
        """Messages of one group are compared with each other; None: with nobody."""
        ...


def trained_agents(config: RunConfig) -> frozenset[int]:
    """Indices of the agents that ``train.train_agents`` names; without it, of all."""
    chosen = config.train.train_agents
    return frozenset(
        a for a, agent in enumerate(config.agents) if chosen is None or agent.name in chosen
    )


def base_turns(config: RunConfig) -> int:
    """First turns that the bare base speaks by ``train.train_turns``."""
    return 1 if config.train.train_turns == "discussion" else 0
