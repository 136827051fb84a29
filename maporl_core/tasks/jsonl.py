"""One's own problems: a file of JSON lines (or Parquet) with a question and an answer per row.

``task.grading`` says how answers are compared: number, maths, choice or text.  Values are kept as
they are written: ``"1"`` and ``2`` become the gold answers "1" and "2", and nothing that looks like
a date is turned into one.  For choices a row may carry the options, which are shown below the
question; its answer is then a letter or the text of an option, or an integer whose meaning
``task.choice_integers`` says: it is never guessed.

A single file is divided into train and test by hash of the question (``task.holdout``); a folder
with train.jsonl and test.jsonl is used as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from string import ascii_uppercase
from typing import Any

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError
from maporl_core.tasks.answers import maths, numerals
from maporl_core.tasks.answers.choices import MAX_OPTIONS, option_letter
from maporl_core.tasks.answers.grading import MATHS, NUMBER, TEXT, Grading, choice_grading
from maporl_core.tasks.answers.texts import exact_text
from maporl_core.tasks.data.rows import (
    BadRow,
    NumberText,
    Row,
    Tally,
    json_type,
    missing_key,
    text_of,
)
from maporl_core.tasks.data.stored import StoredTask, limited, numbered
from maporl_core.tasks.gsm8k import as_two, problems_of, split_rows
from maporl_core.types import Problem


def load(config: TaskConfig) -> StoredTask:
    """The task for a config.  Raises DataError, or ConfigError without a path."""
    if config.path is None:
        raise ConfigError(
            "task jsonl needs a file: --set task.path=FILE (one JSON object per line, with "
            f"{config.question_key!r} and {config.answer_key!r})"
        )
    if config.grading == "maths":
        maths.start_engine()
    tally = Tally(config.skip_bad_rows)
    rows = {
        split: numbered(problems_of(rows, split, tally, lambda row, s: _problem(row, s, config)))
        for split, rows in split_rows(config.path, tally).items()
    }
    if len(rows) == 1:
        rows = as_two(rows, config.holdout)
    kept = limited(rows, config.limit, config.path, tally.counts)
    return StoredTask("jsonl", kept, _grading(config, kept), tally.counts)


def _grading(config: TaskConfig, rows: Mapping[str, Sequence[Problem]]) -> Grading:
    if config.grading == "choice":
        sets = {problem.meta.get("choices") for side in rows.values() for problem in side}
        common = sets.pop() if len(sets) == 1 else None
        return choice_grading(common or ())
    return {"number": NUMBER, "maths": MATHS, "text": TEXT}[config.grading]


def _problem(row: Row, split: str, config: TaskConfig) -> Problem:
    question = text_of(row.values, config.question_key, "task.question_key")
    gold = _gold_text(row.values, config.answer_key)
    meta: dict[str, Any] = {"row": row.number}
    if config.grading == "choice":
        options = _options(row.values, config.choices_key)
        gold = _by_integer(row.values, options, config) or _gold_letter(gold, options, config)
        if options:
            meta["choices"] = options
            question = "\n".join([question, *map("({}) {}".format, ascii_uppercase, options)])
    elif config.grading == "number" and numerals.gold_number(gold) is None:
        raise BadRow("answer is no number", f"answer {gold[:40]!r} is no number (task.grading)")
    elif not exact_text(gold) or (config.grading == "maths" and not maths.spelling(gold)):
        raise BadRow("empty answer", f"{config.answer_key!r} is empty")
    digest = blake2b(f"{question}\0{gold}".encode("utf-8", "surrogatepass"), digest_size=8)
    return Problem(f"jsonl/{digest.hexdigest()}", question, gold, "jsonl", split, meta)


def _gold_text(values: Mapping[str, Any], key: str) -> str:
    """The answer as it is written in the file."""
    if key not in values:
        raise missing_key(values, key, "task.answer_key")
    value = values[key]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | Decimal):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    shown = repr(value) if isinstance(value, float) else f"a {json_type(value)}"
    raise BadRow("bad answer", f"{key!r} is {shown}, not a text or number")


def _options(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = values.get(key)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(option, str) for option in found):
        raise BadRow("bad choices", f"{key!r} must be a list of texts")
    if not 2 <= len(found) <= MAX_OPTIONS:
        raise BadRow("bad choices", f"{key!r} must hold 2 to {MAX_OPTIONS} texts")
    if len(set(map(exact_text, found))) < len(found):
        raise BadRow("bad choices", f"{key!r} holds the same text twice")
    return tuple(str(option) for option in found)


def _by_integer(values: Mapping[str, Any], options: tuple[str, ...], config: TaskConfig) -> str:
    """The letter that an integer answer means by ``task.choice_integers``; "" for other answers.

    Refused without the setting, unless the choices are integers themselves and every reading that
    is possible gives the same one.
    """
    value, meaning = values[config.answer_key], config.choice_integers
    if not _is_integer(value):
        return ""
    readings = {
        "index0": _letter_at(int(value), options),
        "index1": _letter_at(int(value) - 1, options),
        "text": option_letter(str(value), options) or "",
    }
    if meaning == "refused":
        possible = {letter for letter in readings.values() if letter}
        if len(possible) == 1 and all(map(_is_integer, values.get(config.choices_key) or [""])):
            return possible.pop()
        raise BadRow(
            "integer answer to choices",
            f"answer {value} is an integer, neither a letter nor the text of a choice as written; "
            "say what integers mean with --set task.choice_integers=index0 (choices counted from "
            "0), index1 (from 1) or text (the text of a choice)",
        )
    if not readings[meaning]:
        raise BadRow(
            "answer is no choice",
            f"answer {value} is none of the choices (task.choice_integers={meaning})",
        )
    return readings[meaning]


def _is_integer(value: Any) -> bool:
    if isinstance(value, NumberText):
        return value.removeprefix("-").isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)


def _letter_at(index: int, options: tuple[str, ...]) -> str:
    return ascii_uppercase[index] if 0 <= index < (len(options) or MAX_OPTIONS) else ""


def _gold_letter(gold: str, options: tuple[str, ...], config: TaskConfig) -> str:
    """The letter of the right option, given as a letter or as its text."""
    bare = gold.strip().strip("().").upper()
    letters = ascii_uppercase[: len(options) or MAX_OPTIONS]
    by_letter = bare if len(bare) == 1 and bare in letters else None
    by_text = option_letter(gold, options)
    if by_letter and by_text and by_letter != by_text:
        raise BadRow(
            "ambiguous answer",
            f"answer {gold!r} is a letter and the text of option {by_text}; write the letter only "
            "where no option reads like one",
        )
    found = by_letter or by_text
    if found is None:
        raise BadRow(
            "answer is no choice",
            f"answer {gold[:40]!r} is neither a letter nor the text of an option "
            f"(task.answer_key, task.choices_key={config.choices_key})",
        )
    return found
