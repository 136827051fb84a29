"""Tasks whose problems all lie in memory, and how one set is divided into train and test.

In: problems per split and a ``Grading``.  Out: a ``Task``.  Neighbours: ``gsm8k``, ``tinygsm``,
``anli`` and ``jsonl`` load one each; ``order`` says which problem comes at which position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from maporl_core.errors import DataError
from maporl_core.kit.nearest import nearest
from maporl_core.tasks.answers.grading import Grading
from maporl_core.tasks.data.order import rows_at
from maporl_core.types import Problem


@dataclass(eq=False)
class StoredTask:
    """One loaded dataset.  ``rows`` maps split names to their problems in file order."""

    name: str
    rows: Mapping[str, Sequence[Problem]]
    grading: Grading
    left_out: Mapping[str, int] = field(default_factory=dict)

    def splits(self) -> tuple[str, ...]:
        return tuple(self.rows)

    def size(self, split: str) -> int | None:
        return len(self._rows_of(split))

    def problems(self, split: str, start: int, count: int, seed: int) -> list[Problem]:
        """Positions start … start+count−1 of the split's endless reshuffled order."""
        rows = self._rows_of(split)
        order = rows_at(len(rows), start, count, seed, f"{self.name}/{split}")
        return [rows[row] for row in order]

    def prompt(self, problem: Problem) -> str:
        return f"{problem.question}\n\n{self.grading.instruction}"

    def extract(self, text: str) -> str | None:
        return self.grading.extract(text)

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        return self.grading.is_correct(answer, problem)

    def dropped(self) -> Mapping[str, int]:
        return dict(self.left_out)

    def _rows_of(self, split: str) -> Sequence[Problem]:
        if split not in self.rows:
            raise unknown_split(self.name, split, self.rows)
        return self.rows[split]


def content_of(task: object) -> str | None:
    """A hash of every problem of a stored task, in order; None for tasks that make theirs."""
    if not isinstance(task, StoredTask):
        return None
    digest = blake2b(digest_size=16)
    for split, problems in task.rows.items():
        for problem in problems:
            meta = sorted(problem.meta.items())
            row = repr((split, problem.id, problem.question, problem.gold, meta))
            digest.update(row.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def unknown_split(task: str, split: str, known: Iterable[str]) -> DataError:
    """The error for a split that a task does not have."""
    names = list(known)
    near = nearest(split, names)
    hint = f" (did you mean {near!r}?)" if near else ""
    advice = ""
    if {split, *names} == {"train", "test"}:  # all questions of a single set fell to one side
        key = "eval_split" if split == "test" else "train_split"
        advice = (
            f": add questions, change task.holdout, or use the same ones for both with "
            f"--set task.{key}={names[0]}"
        )
    return DataError(f"task {task} has no split {split!r}{hint}; it has {', '.join(names)}{advice}")


def limited(
    rows: Mapping[str, Sequence[Problem]],
    limit: int | None,
    where: str,
    left_out: Mapping[str, int],
) -> dict[str, Sequence[Problem]]:
    """The first ``limit`` problems of every split.

    Raises DataError when a split, or all of what came from ``where``, holds none.
    """
    why = ", ".join(f"{count} × {reason}" for reason, count in left_out.items())
    why = f" (left out: {why})" if why else ""
    if not any(rows.values()):
        raise DataError(f"{where}: holds no usable rows{why}")
    for split, problems in rows.items():
        if not problems:
            raise DataError(f"{where}: split {split!r} holds no usable rows{why}")
    return {split: problems[:limit] for split, problems in rows.items()}


def numbered(problems: Sequence[Problem]) -> list[Problem]:
    """Problems of the same id get ids of their own: "x", "x-2", "x-3"."""
    seen: Counter[str] = Counter()
    named: list[Problem] = []
    for problem in problems:
        seen[problem.id] += 1
        again = seen[problem.id]
        named.append(replace(problem, id=f"{problem.id}-{again}") if again > 1 else problem)
    return named


def divided(
    problems: Sequence[Problem],
    share: float,
    group: Callable[[Problem], str] = lambda problem: problem.question,
) -> dict[str, list[Problem]]:
    """One set as "train" and "test": a problem's ``group`` decides by hash, never its row.

    So equal questions stay on one side, and a row keeps its side when others come or go.
    ``share`` of the groups go to test; at least one on either side where there are two and the
    share is neither 0 nor 1.  A side without problems is left out.
    """
    shares = {problem.id: _position(group(problem)) for problem in problems}
    bound = share
    if 0.0 < share < 1.0 and shares:
        ordered = sorted(set(shares.values()))
        if bound <= ordered[0]:
            bound = (ordered[0] + ordered[min(1, len(ordered) - 1)]) / 2
        bound = min(bound, ordered[-1])
    sides: dict[str, list[Problem]] = {"train": [], "test": []}
    for problem in problems:
        sides["test" if shares[problem.id] < bound else "train"].append(problem)
    return {split: rows for split, rows in sides.items() if rows}


def _position(text: str) -> float:
    """Where a text falls in [0, 1), evenly and the same on every machine."""
    digest = blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56
