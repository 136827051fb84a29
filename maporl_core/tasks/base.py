"""What a task is: problems in a seeded order, an answer read from a message, a verdict.

Neighbours: ``tasks/registry`` makes one from the config, ``discussion`` asks for ``prompt`` and
``grade``, ``train`` and ``evaluate`` ask for problems by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from maporl_core.types import Problem


class Task(Protocol):
    name: str

    def splits(self) -> tuple[str, ...]:
        """Names of the splits this task has, e.g. ("train", "test")."""
        ...

    def size(self, split: str) -> int | None:
        """Number of problems in a split; None when it is endless."""
        ...

    def problems(self, split: str, start: int, count: int, seed: int) -> list[Problem]:
        """Positions start … start+count−1 of an endless order that is reshuffled every epoch.

        A pure function of its arguments, so a resumed run reads on where it stopped.
        Raises DataError for an unknown split, naming those that exist.
        """
        ...

    def prompt(self, problem: Problem) -> str:
        """What an agent reads: the question and how to write the answer."""
        ...

    def extract(self, text: str) -> str | None:
        """The answer a message gives, or None when it gives none.  Never raises."""
        ...

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        """c(t, a): False for no answer, None when the problem has no gold answer."""
        ...

    def dropped(self) -> Mapping[str, int]:
        """Rows left out while loading, by reason."""
        ...
