"""What verifiers are given, from lists."""

from __future__ import annotations

from collections.abc import Sequence

from maporl_core.types import Judged, Message, Problem


def judged(
    problems: Sequence[Problem], messages: Sequence[Message], seeds: Sequence[int]
) -> list[Judged]:
    return [
        Judged(problem, message, seed=seed)
        for problem, message, seed in zip(problems, messages, seeds, strict=True)
    ]
