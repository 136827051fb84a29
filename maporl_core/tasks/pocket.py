"""Little word problems with one smudged number, for agents that must talk to get past one half.

"Mia has 12 pens, gets 7 or 9 and loses 4. How many?": three whole numbers, two steps, and one
number that reads as either of two values.  Which reading is meant is drawn 50/50 per problem and
shows nowhere in the question, so one agent alone is right half of the time at best: neither
greedy decoding nor a majority of answers gets further.  Only what the verifier says about the
messages of a discussion tells the readings apart.
With ``task.options.lean`` above .5 the larger reading is meant that often: something a verifier can
learn, and the built-in agents were never taught.

In: split, position and seed.  Out: Problems, and verdicts on messages of the form
"9: 12 + 9 = 21 - 4 = 17", which say how the smudge was read and then work it out.
Neighbours: ``registry`` names this task; ``runs.pocket.lessons`` makes the supervised data of the
built-in models from the third split, "lessons".
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.tasks.data.order import rows_at
from maporl_core.types import Problem

NAMES = (
    *("Mia", "Leo", "Ann", "Tom", "Zoe", "Sam", "Eva", "Max"),
    *("Ida", "Ben", "Lily", "Noah", "Ruth", "Omar", "Nina", "Jack"),
)
OBJECTS = (
    *("pens", "cards", "coins", "shells", "books", "stamps", "keys", "beads"),
    *("apples", "plums", "nuts", "eggs", "stones", "toys", "cups", "balls"),
)
# (present, past) of the verbs that add and that take away.
VERBS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "+": (("gets", "got"), ("finds", "found"), ("buys", "bought"), ("wins", "won")),
    "-": (("loses", "lost"), ("sells", "sold"), ("gives", "gave"), ("drops", "dropped")),
}
TEMPLATES = (
    "{name} has {a} {things}, {now1} {b} and {now2} {c}. How many?",
    "{name} had {a} {things}, {past1} {b} and {past2} {c}. How many?",
    "There are {a} {things}. {name} {now1} {b}, then {now2} {c}. How many?",
    "{name} starts with {a} {things}, {now1} {b} and {now2} {c}. How many?",
)
SPLITS = ("train", "test", "lessons")
TEST_SIZE = 5_000

_FIRST = (10, 39)  # the first number, both ends in
_OTHER = (2, 9)  # the second and the third
_LARGEST = 99
# Every form "12 + 9 = 21 - 4 = 17" in a text; digits must not run on at either end.
_WORKED = re.compile(
    r"(?<!\d)\d{1,2} [+-] \d{1,2} = \d{1,2} [+-] \d{1,2} = (\d{1,2})(?!\d|\.\d| ?[+-])", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one problem: ``triples`` are its two readings, told apart at ``smudged``.

    ``signs`` are those of the second and the third number.  Readings are kept in rising order,
    so equal problems are equal records whichever reading is printed first.
    """

    triples: tuple[tuple[int, int, int], tuple[int, int, int]]
    signs: tuple[str, str]
    smudged: int

    @property
    def split(self) -> str:
        """The one split these numbers may appear in: 2 in 10 test, 4 train, 4 lessons."""
        bucket = blake2b(repr((self.triples, self.signs)).encode(), digest_size=8).digest()
        return ("test", "train", "lessons")[(int.from_bytes(bucket, "big") % 10 + 2) // 4]

    def worked(self, reading: int) -> str:
        """The right message for one reading (0 or 1), e.g. "9: 12 + 9 = 21 - 4 = 17"."""
        a, b, c = self.triples[reading]
        step, end = _steps((a, b, c), self.signs)
        read = self.triples[reading][self.smudged]
        return f"{read}: {a} {self.signs[0]} {b} = {step} {self.signs[1]} {c} = {end}"

    def result(self, reading: int) -> int:
        return _steps(self.triples[reading], self.signs)[1]


def _steps(triple: tuple[int, int, int], signs: tuple[str, str]) -> tuple[int, int]:
    a, b, c = triple
    step = a + b if signs[0] == "+" else a - b
    return step, step + c if signs[1] == "+" else step - c


@cache
def _look_alikes(value: int, low: int, high: int) -> tuple[int, ...]:
    """Values that differ from this one in exactly one digit, equally long."""
    text = str(value)
    return tuple(
        other
        for other in range(low, high + 1)
        if len(str(other)) == len(text)
        and sum(x != y for x, y in zip(str(other), text, strict=True)) == 1
    )


def draw_numbers(rng: random.Random, split: str) -> Numbers:
    """Numbers of this split: both readings stay within 0 … 99 at each step."""
    while True:
        triple = [rng.randint(*_FIRST), rng.randint(*_OTHER), rng.randint(*_OTHER)]
        smudged = rng.randrange(3)
        twins = _look_alikes(triple[smudged], *(_OTHER if smudged else _FIRST))
        signs = (rng.choice("+-"), rng.choice("+-"))
        if not twins:
            continue
        other = list(triple)
        other[smudged] = rng.choice(twins)
        low, high = sorted(((triple[0], triple[1], triple[2]), (other[0], other[1], other[2])))
        numbers = Numbers((low, high), signs, smudged)
        reached = [value for pair in numbers.triples for value in _steps(pair, signs)]
        if min(reached) >= 0 and max(reached) <= _LARGEST and numbers.split == split:
            return numbers


def draw_question(rng: random.Random, numbers: Numbers) -> str:
    """A word problem around the numbers, both readings shown in random order."""
    shown = [str(value) for value in numbers.triples[0]]
    both = [str(triple[numbers.smudged]) for triple in numbers.triples]
    rng.shuffle(both)
    shown[numbers.smudged] = " or ".join(both)
    (now1, past1), (now2, past2) = (rng.choice(VERBS[sign]) for sign in numbers.signs)
    return rng.choice(TEMPLATES).format(
        name=rng.choice(NAMES),
        things=rng.choice(OBJECTS),
        now1=now1,
        past1=past1,
        now2=now2,
        past2=past2,
        **dict(zip("abc", shown, strict=True)),
    )


def load(config: TaskConfig) -> PocketTask:
    """The task for a config.  Raises ConfigError for an option that it has not."""
    unknown = sorted(config.options.keys() - {"lean"})
    if unknown:
        raise ConfigError(f"task.options: pocket has no {unknown[0]!r}; its one option is lean")
    lean = config.options.get("lean", 0.5)
    if isinstance(lean, bool) or not isinstance(lean, int | float) or not 0.5 <= lean <= 1.0:
        raise ConfigError("task.options.lean: must be a number from 0.5 to 1")
    return PocketTask(float(lean))


class PocketTask:
    """The task of the built-in agents.  ``train`` is endless, ``test`` holds 5,000 problems.

    The three splits share no numbers.  ``test`` is the same set for every seed, in an order the
    seed decides; ``train`` and ``lessons`` are drawn afresh per position and seed.
    """

    name = "pocket"

    def __init__(self, lean: float = 0.5) -> None:
        """``lean``: the chance, 0.5 to 1, that the larger reading is the one that is meant."""
        self.lean = lean

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def size(self, split: str) -> int | None:
        _check_split(split)
        return TEST_SIZE if split == "test" else None

    def problems(self, split: str, start: int, count: int, seed: int) -> list[Problem]:
        _check_split(split)
        if split == "test":
            rows = rows_at(TEST_SIZE, start, count, seed, "pocket")
            return [self._problem(split, row, 0) for row in rows]
        return [self._problem(split, position, seed) for position in range(start, start + count)]

    def _problem(self, split: str, index: int, seed: int) -> Problem:
        rng = random.Random(f"pocket/{split}/{index}/{seed}")
        numbers = draw_numbers(rng, split)
        question = draw_question(rng, numbers)
        true = rng.randrange(2)
        if self.lean != 0.5:
            true = int(rng.random() < self.lean)  # reading 1 is the larger
        return Problem(
            id=f"pocket-{split}-{index}" + ("" if split == "test" else f"-s{seed}"),
            question=question,
            gold=str(numbers.result(true)),
            task=self.name,
            split=split,
            meta={"other": str(numbers.result(1 - true)), "smudged": numbers.smudged},
        )

    def prompt(self, problem: Problem) -> str:
        return problem.question

    def extract(self, text: str) -> str | None:
        """The result of the last worked step "a + b = c - d = e"; None where there is none."""
        found = _WORKED.findall(text)
        return str(int(found[-1])) if found else None

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        if problem.gold is None:
            return None
        return answer == problem.gold

    def dropped(self) -> Mapping[str, int]:
        return {}


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise DataError(f"pocket has no split {split!r}; it has {', '.join(SPLITS)}")
