"""What a verifier is: a problem and one message in, a probability that its answer is right out.

In: the graded messages of one turn (``Message.answer`` and ``Message.correct`` are set).
Out: one score v(t, a) in [0, 1] per message.  Neighbours: ``discussion`` or ``train`` calls
``score`` after every turn and keeps the result in ``Message.score``; ``rewards`` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from maporl_core.errors import DataError
from maporl_core.types import Message, Problem


class Verifier(Protocol):
    def score(
        self, problems: Sequence[Problem], messages: Sequence[Message], seeds: Sequence[int]
    ) -> list[float]:
        """v(t, a) of each message, in order; three sequences of one length.

        ``problems[i]`` is what ``messages[i]`` answers.  ``seeds[i]`` stands for the run and the
        sample that the message comes from: a verifier that draws gives the same score for the
        same (seed, problem id, turn, agent, verdict), whatever else is in the batch.  A message
        without a parsable answer scores exactly 0.

        Raises DataError when a verifier that needs the verdict meets a message without one.
        """
        ...


def known_verdict(problem: Problem, message: Message, kind: str) -> bool:
    """c(t, a) for the verifiers that stand on the task's own rule.

    Raises DataError when the task has no gold answer, or the message was never graded.
    """
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
