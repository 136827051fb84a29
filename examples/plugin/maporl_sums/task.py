"""A task: sums of two numbers, as many as are asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from pydantic import Field

from maporl_core.config.kinds import Count, Section
from maporl_core.types import Problem


class SumsOptions(Section):
    largest: Count = Field(20, description="largest number in a sum")


class Sums:
    name = "sums"
    says = "sums of two numbers, made up as they are asked for"
    Options = SumsOptions

    def __init__(self, options: SumsOptions) -> None:
        self.largest = options.largest

    def splits(self) -> tuple[str, ...]:
        return ("train", "test")

    def size(self, split: str) -> int | None:
        return None  # endless

    def problems(self, split: str, start: int, count: int, seed: int) -> list[Problem]:
        return [self._problem(split, position, seed) for position in range(start, start + count)]

    def _problem(self, split: str, position: int, seed: int) -> Problem:
        draw = random.Random(f"{split} {position} {seed}")
        a, b = draw.randint(0, self.largest), draw.randint(0, self.largest)
        return Problem(f"{split}-{position}", f"What is {a} + {b}?", str(a + b), self.name, split)

    def prompt(self, problem: Problem) -> str:
        return f"{problem.question} Answer with the number."

    def extract(self, text: str) -> str | None:
        found = re.findall(r"\d+", text)
        return found[-1] if found else None

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        return answer is not None and int(answer) == int(problem.gold or 0)

    def dropped(self) -> Mapping[str, int]:
        return {}
