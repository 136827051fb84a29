"""What an estimator is: the credit of one whole update, over the messages of all bases.

In: ``CreditInputs``, and the state it left after the last update.  Out: ``Credit``.  Neighbours:
``credit`` gathers the inputs and whitens what comes out; a method names its estimator.

Axes: M messages, L tokens of the longest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from maporl_core.learning.keys import MessageKey


@dataclass(frozen=True, slots=True)
class CreditInputs:
    """Every trained message of an update, right-padded; what stands in the padding is never read.

    ``token_rewards_ML`` includes the message reward at the last token; ``rewards_M`` is that
    reward alone, R(t, a).  ``groups`` are the method's: messages with equal ones are compared with
    each other, None stands alone.  ``values_ML`` are those of the policy that sampled, None where
    the estimator needs none.
    """

    token_rewards_ML: Tensor
    lengths_M: Tensor
    rewards_M: Tensor
    keys: Sequence[MessageKey]
    groups: Sequence[Hashable | None]
    values_ML: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Credit:
    """Zero in the padding.  ``returns_ML`` are what values are trained to predict.

    ``state`` is kept for the next update, in checkpoints too.  ``normalised``: advantages are on
    their final scale already, so they are not whitened.
    """

    advantages_ML: Tensor
    returns_ML: Tensor | None = None
    state: Mapping[str, float] = field(default_factory=dict)
    normalised: bool = False


class Estimator(Protocol):
    """Called once per update; pure but for the state that is handed in and out."""

    @property
    def needs_values(self) -> bool:
        """Whether policies have value heads and their values are measured and trained."""
        ...

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit: ...
