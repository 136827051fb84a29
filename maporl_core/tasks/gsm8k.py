"""GSM8K: grade-school word problems with whole-number answers (Cobbe et al., 2021).

From the hub (``openai/gsm8k``, config ``main``) or a local file or folder in its format: rows of
``question`` and ``answer``, the answer ending in "#### 18".  A folder with both splits is used as
it is; a single file, or a folder with one split, is divided by hash (``stored.divided``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from maporl_core.config.schema import TaskConfig
from maporl_core.tasks.answers import numerals
from maporl_core.tasks.answers.grading import NUMBER
from maporl_core.tasks.data.hub import hub_splits
from maporl_core.tasks.data.rows import (
    SUFFIXES,
    BadRow,
    Row,
    Tally,
    local_path,
    nothing_found,
    read_files,
    read_rows,
    split_files,
    text_of,
)
from maporl_core.tasks.data.stored import StoredTask, divided, limited
from maporl_core.types import Problem

HUB_ID = "openai/gsm8k"
SPLITS = ("train", "test")


def load(config: TaskConfig) -> StoredTask:
    """The task for a config.  Raises DataError."""
    tally = Tally(config.skip_bad_rows)
    if config.path is None:
        hint = "a folder with train.jsonl and test.jsonl (question, answer)"
        found = hub_splits(config.hub_id or HUB_ID, "main", hint)
    else:
        found = split_rows(config.path, tally)
    rows = {
        split: problems_of(split_rows, split, tally, _problem)
        for split, split_rows in found.items()
    }
    if len(rows) == 1:
        rows = as_two(rows, config.holdout)
    kept = limited(rows, config.limit, config.path or config.hub_id or HUB_ID, tally.counts)
    return StoredTask("gsm8k", kept, NUMBER, tally.counts)


def split_rows(path: str, tally: Tally) -> dict[str, Iterable[Row]]:
    """Rows per split of a local folder; those of a single file under its own name."""
    found = local_path(path)
    if found.is_file():
        return {found.stem: read_rows(found, tally)}
    splits = {split: files for split in SPLITS if (files := split_files(found, split))}
    if not splits:
        raise nothing_found(found, "train or test file (" + ", ".join(SUFFIXES) + ")")
    return {split: read_files(files, tally) for split, files in splits.items()}


def problems_of(
    rows: Iterable[Row], split: str, tally: Tally, make: Callable[[Row, str], Problem]
) -> list[Problem]:
    """The problems of a split; rows that ``make`` refuses with BadRow go to the tally."""
    problems: list[Problem] = []
    for row in rows:
        try:
            problems.append(make(row, split))
        except BadRow as error:
            tally.bad(row.where, error)
    return problems


def as_two(rows: Mapping[str, list[Problem]], share: float) -> dict[str, list[Problem]]:
    """A single set divided into train and test, its problems renamed to their new split."""
    (problems,) = rows.values()
    return {
        split: [replace(problem, split=split) for problem in side]
        for split, side in divided(problems, share).items()
    }


def _problem(row: Row, split: str) -> Problem:
    question, solution = text_of(row.values, "question"), text_of(row.values, "answer")
    _, mark, answer = solution.rpartition("####")
    if not mark:
        raise BadRow("no ####", "'answer' has no final answer after '####'")
    value = numerals.number(answer) if any(map(str.isdecimal, answer)) else None
    if value is None:
        raise BadRow("no number", f"'answer' ends in {answer.strip()[:40]!r}, which is no number")
    return Problem(
        id=f"gsm8k/{split}/{row.number}",
        question=question,
        gold=numerals.canonical(value),
        task="gsm8k",
        split=split,
    )
