"""TinyGSM: synthetic word problems whose answers come from small programs (Liu et al., 2023).

From the hub (``TinyGSM/TinyGSM``) or a local file or folder in its format: rows of ``question``
and ``code``, a function ``simple_math_problem()``.  The answer is what ``program`` makes of the
code, exactly and without running it; rows it cannot use are left out and counted, and so are
answers that nobody could be expected to write (``MAX_PLACES``).

There is one split; it is divided into train and test by hash of the question.  The hub's set has
twelve million rows: only as many are fetched as are asked for (``task.limit``, at first
``DEFAULT_ROWS``), in the order of the hub.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from maporl_core.config.schema import TaskConfig
from maporl_core.tasks.answers import numerals
from maporl_core.tasks.answers.grading import NUMBER
from maporl_core.tasks.data.hub import hub_stream
from maporl_core.tasks.data.rows import (
    BadRow,
    Row,
    Tally,
    local_path,
    nothing_found,
    read_files,
    split_files,
    text_of,
)
from maporl_core.tasks.data.stored import StoredTask, limited
from maporl_core.tasks.gsm8k import as_two, problems_of
from maporl_core.tasks.programs.program import result_of
from maporl_core.tasks.programs.values import Unusable
from maporl_core.types import Problem

HUB_ID = "TinyGSM/TinyGSM"
DEFAULT_ROWS = 20_000  # enough for the published 12,800 questions and a test set
MAX_PLACES = 4  # decimals of a usable answer


def load(config: TaskConfig) -> StoredTask:
    """The task for a config.  Raises DataError."""
    tally = Tally(config.skip_bad_rows)
    rows = _hub_rows(config) if config.path is None else _local_rows(config.path, tally)
    problems = problems_of(_usable(rows, tally), "train", tally, _problem)
    sides = as_two({"train": problems}, config.holdout)
    kept = limited(sides, config.limit, config.path or config.hub_id or HUB_ID, tally.counts)
    return StoredTask("tinygsm", kept, NUMBER, tally.counts)


def _hub_rows(config: TaskConfig) -> Iterator[Row]:
    from datasets.utils import tqdm

    wanted = DEFAULT_ROWS
    if config.limit is not None and config.holdout < 1.0:
        # Some rows go to the test split, and some cannot be used.
        wanted = int(1.25 * config.limit / (1.0 - config.holdout)) + 100
    hint = "a .jsonl or .parquet file with question and code"
    rows = islice(hub_stream(config.hub_id or HUB_ID, "train", hint), wanted)
    first = next(rows, None)  # before there is anything to show progress of
    if first is not None:
        yield from tqdm(chain([first], rows), total=wanted, desc="TinyGSM rows", unit=" rows")


def _local_rows(path: str, tally: Tally) -> Iterable[Row]:
    found = local_path(path)
    files = [found] if found.is_file() else split_files(found, "train")
    if not files:
        raise nothing_found(found, "train.jsonl or train-*.parquet")
    return read_files(files, tally)


def _usable(rows: Iterable[Row], tally: Tally) -> Iterator[Row]:
    """Rows with their answer put in; those whose code is of no use are counted."""
    for row in rows:
        try:
            answer = _answer(text_of(row.values, "code"))
        except Unusable as error:
            tally.drop(str(error))
        except BadRow as error:
            tally.bad(row.where, error)
        else:
            yield Row(row.number, row.where, {**row.values, "result": answer})


def _answer(code: str) -> str:
    answer = numerals.canonical(result_of(code))
    _, _, decimals = answer.partition(".")
    if "/" in answer or len(decimals) > MAX_PLACES:
        raise Unusable("answer is no short decimal")
    return answer


def _problem(row: Row, split: str) -> Problem:
    return Problem(
        id=f"tinygsm/{row.number}",
        question=text_of(row.values, "question"),
        gold=row.values["result"],
        task="tinygsm",
        split=split,
    )
