"""``gym:<name>``: endless procedural problems of reasoning-gym (extra ``tasks``).

In: the name of a generator and its options.  Out: problems by position, graded by the generator's
own scoring (a score of 1 is right).  Generators and scorers run in a process of their own with
bounded time and memory (``bounded``), because some scorers evaluate what the model wrote.

The test split holds ``TEST_SIZE`` problems, the same for every seed, in an order the seed
decides; train is endless.  Generator seeds of the two never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.kit.nearest import nearest_few
from maporl_core.kit.plain_text import one_line
from maporl_core.tasks.answers import sentences, spans
from maporl_core.tasks.data.order import rows_at
from maporl_core.tasks.data.stored import unknown_split
from maporl_core.tasks.sandbox.bounded import BoundedPool, Patience
from maporl_core.types import Problem

SPLITS = ("train", "test")
TEST_SIZE = 1_000
CHUNK = 500  # problems of one generator; it may use the seeds seed … seed + CHUNK − 1
_MAKE_SECONDS = 60.0
_FIRST_TRAIN_SEED = 1_000_000
_SEED_CHUNKS = 2_000_000  # train seeds stay below 2**31
_MAX_ANSWER = 20_000  # characters
_INSTRUCTION = "Reason briefly, then finish with the answer alone between <answer> and </answer>."

_POOL = BoundedPool("gym")


def load(config: TaskConfig) -> GymTask:
    """The task for a name like "gym:chain_sum".

    Raises ConfigError for an unknown generator or option, DataError without reasoning-gym.
    """
    if find_spec("reasoning_gym") is None:
        raise DataError(f"task {config.name} needs reasoning-gym: pip install 'maporl[tasks]'")
    name = config.name.removeprefix("gym").removeprefix(":")
    if not name:
        raise ConfigError("task.name: gym needs a generator, for example gym:chain_sum")
    known = generators()
    if name not in known:
        near = nearest_few(name, known, 3, 0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {len(known)} of them"
        raise ConfigError(f"reasoning-gym has no generator {name!r}; {hint}")
    reserved = sorted({"seed", "size"} & set(config.options))
    if reserved:
        raise ConfigError(f"task.options: {' and '.join(reserved)} are set by the task itself")
    task = GymTask(name, config.options, config.limit)
    task.check()
    return task


def generators() -> list[str]:
    """Names of all generators of the installed reasoning-gym.  Raises DataError."""
    reply = _POOL.ask({"op": "names"}, _MAKE_SECONDS)
    if reply.error:
        raise DataError(f"reasoning-gym does not work ({one_line(reply.detail)}); reinstall it")
    return list(reply.value)


class GymTask:
    """One generator with its options; ``limit`` shortens the test split."""

    def __init__(self, generator: str, options: Mapping[str, Any], limit: int | None) -> None:
        self.name = f"gym:{generator}"
        self._generator = generator
        self._options = dict(options)
        self._test_size = min(TEST_SIZE, limit or TEST_SIZE)
        self._patience = Patience(most=2.0, least=0.1, budget=4.0, refill=0.1)
        self._verdicts = lru_cache(maxsize=8192)(self._score)
        self._made = lru_cache(maxsize=8192)(self._make)

    def check(self) -> None:
        """Makes a first problem.  Raises ConfigError for options the generator refuses."""
        reply = _POOL.ask(self._request("open", 0, 0), _MAKE_SECONDS)
        if reply.error:
            raise ConfigError(
                f"task.options: generator {self._generator} refuses them or fails "
                f"({one_line(reply.detail)})"
            )
        self._made(0, 0)

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def size(self, split: str) -> int | None:
        self._check_split(split)
        return self._test_size if split == "test" else None

    def problems(self, split: str, start: int, count: int, seed: int) -> list[Problem]:
        """Positions start … start+count−1; train never repeats a generator seed."""
        self._check_split(split)
        if split == "test":
            rows = rows_at(self._test_size, start, count, seed, f"{self.name}/test")
            places = [(row // CHUNK * CHUNK, row % CHUNK) for row in rows]
        else:
            first = _first_chunk(seed)
            places = [
                (_train_seed(first + position // CHUNK), position % CHUNK)
                for position in range(start, start + count)
            ]
        return [self._problem(split, *place) for place in places]

    def prompt(self, problem: Problem) -> str:
        return f"{problem.question}\n\n{_INSTRUCTION}"

    def extract(self, text: str) -> str | None:
        """What the last ``<answer>`` tag holds; else a box, or a statement of the answer."""
        seen = spans.visible(text)
        if seen is None:
            return None
        content = spans.tagged(seen)
        box = spans.last_box(seen)
        if content is None and box.written:
            content = box.content
        elif content is None:
            content = next(spans.explicit(seen), None)
            content = sentences.first_sentence(content) if content is not None else None
        return content if content and len(content) <= _MAX_ANSWER else None

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        """Whether the generator's own scoring gives 1.  Bounded in time, from any thread."""
        known = "gym_seed" in problem.meta
        if problem.gold is None and not known:
            return None
        if not answer or len(answer) > _MAX_ANSWER:
            return False
        if answer == problem.gold or not known:
            return answer == problem.gold
        return self._verdicts(answer, problem.meta["gym_seed"], problem.meta["gym_index"])

    def dropped(self) -> Mapping[str, int]:
        return {}

    def _check_split(self, split: str) -> None:
        if split not in SPLITS:
            raise unknown_split(self.name, split, SPLITS)

    def _request(self, operation: str, seed: int, index: int) -> dict[str, Any]:
        return {
            "op": operation,
            "name": self._generator,
            "options": self._options,
            "seed": seed,
            "size": CHUNK,
            "index": index,
        }

    def _problem(self, split: str, seed: int, index: int) -> Problem:
        question, gold = self._made(seed, index)
        return Problem(
            id=f"{self.name}/{split}/{seed}-{index}",
            question=question,
            gold=gold,
            task=self.name,
            split=split,
            meta={"gym_seed": seed, "gym_index": index},
        )

    def _make(self, seed: int, index: int) -> tuple[str, str | None]:
        reply = _POOL.ask(self._request("problem", seed, index), _MAKE_SECONDS)
        if reply.error:
            raise DataError(
                f"{self.name}: problem {seed}-{index} cannot be made ({one_line(reply.detail)})"
            )
        question, gold = reply.value
        return str(question), gold

    def _score(self, answer: str, seed: int, index: int) -> bool:
        # The generator first, which may be slow and is no fault of the answer.
        _POOL.ask(self._request("problem", seed, index), _MAKE_SECONDS)
        request = {**self._request("score", seed, index), "answer": answer}
        reply = _POOL.ask(request, self._patience.limit())
        self._patience.spent(reply.seconds)
        return isinstance(reply.value, float) and reply.value >= 1.0


def _first_chunk(seed: int) -> int:
    """Where the train problems of a run seed begin, spread over all train chunks."""
    digest = blake2b(str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % _SEED_CHUNKS


def _train_seed(chunk: int) -> int:
    return _FIRST_TRAIN_SEED + CHUNK * (chunk % _SEED_CHUNKS)
