"""What a verifier is: a problem and one message in, a probability that its answer is right out.

In: the graded messages of one turn (``Message.answer`` and ``Message.correct`` are set).
Out: one score v(t, a) in [0, 1] per message.  Neighbours: ``discussion`` or ``train`` calls
``score`` after every turn and keeps the result in ``Message.score``; ``rewards`` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from maporl_core.errors import DataError
from maporl_core.types import Judged


class Verifier(Protocol):
    @property
    def settings(self) -> Mapping[str, object]:
        """What decides its scores beside the messages, as facts that are kept with a run."""
        ...

    @property
    def needs_gold(self) -> bool:
        """Whether it looks at ``Message.correct``."""
        ...

    def score(self, items: Sequence[Judged]) -> Sequence[float | None]:
        """v(t, a) of each message, in order; None for one that it does not judge.

        A verifier that draws gives the same score for the same (seed, problem id, turn, agent,
        verdict), whatever else is in the batch.  A message without a parsable answer scores
        exactly 0.

        Raises DataError when a verifier that needs the verdict meets a message without one.
        """
        ...


def known_verdict(item: Judged, kind: str) -> bool:
    """c(t, a) for the verifiers that stand on the task's own rule.

    Raises DataError when the task has no gold answer, or the message was never graded.
    """
    problem, message = item.problem, item.message
    if message.correct is not None:
        return message.correct
    if problem.gold is None:
        raise DataError(
            f"verifier.kind = {kind!r} needs gold answers, and problem {problem.id!r} of task "
            f"{problem.task!r} has none: give every problem its answer, or choose a task that "
            "comes with them"
        )
    raise DataError(
        f"the message of turn {message.turn + 1}, agent {message.agent + 1} on problem "
        f"{problem.id!r} has no verdict: grade it with the task before the verifier scores it"
    )
