"""ANLI: adversarial natural-language inference in three rounds (Nie et al., 2020; CC BY-NC 4.0).

From the hub (``facebook/anli``) or local files in its format: rows of ``premise``, ``hypothesis``
and ``label`` (0 entailment, 1 neutral, 2 contradiction), in files train_r1, dev_r1, test_r1 and so
on.  ``task.rounds`` chooses the rounds.  "train", "dev" and "test" join those of the rounds.
Without test files the dev rows serve as test, and without train files as train.  Where one part
is all there is, or a single file is named, its rows are divided into train and test by hash of
the premise (``task.holdout``), so that no premise stands on both sides.  Rows without a gold label
(−1) are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import DataError
from maporl_core.kit.plain_text import one_line
from maporl_core.tasks.answers.grading import LABEL
from maporl_core.tasks.answers.labels import LABELS
from maporl_core.tasks.data.hub import hub_splits
from maporl_core.tasks.data.rows import (
    BadRow,
    Row,
    Tally,
    local_path,
    missing_key,
    nothing_found,
    read_files,
    read_rows,
    split_files,
    text_of,
)
from maporl_core.tasks.data.stored import StoredTask, divided, limited, numbered
from maporl_core.types import Problem

HUB_ID = "facebook/anli"
PARTS = ("train", "dev", "test")
_NO_LABEL = "no gold label"


def load(config: TaskConfig) -> StoredTask:
    """The task for a config.  Raises DataError."""
    tally = Tally(config.skip_bad_rows)
    if config.path is None:
        hint = "a folder with dev_r1.jsonl and so on (premise, hypothesis, label)"
        found = hub_splits(config.hub_id or HUB_ID, None, hint)
        parts = _join(found, config.rounds, config.hub_id or HUB_ID, tally)
    else:
        parts = _local_parts(config, tally)
    sides = _two_sides(parts, config.holdout)
    rows = limited(sides, config.limit, config.path or config.hub_id or HUB_ID, tally.counts)
    return StoredTask("anli", rows, LABEL, tally.counts)


def _local_parts(config: TaskConfig, tally: Tally) -> dict[str, list[Problem]]:
    assert config.path is not None
    path = local_path(config.path)
    if path.is_file():
        return {"dev": _problems(read_rows(path, tally), path.stem, tally)}
    found: dict[str, Iterable[Row]] = {}
    for part in PARTS:
        for number in (1, 2, 3):
            name = f"{part}_r{number}"
            if files := split_files(path, name):
                found[name] = read_files(files, tally)
    if not found:
        raise nothing_found(path, "train_r1, dev_r1 or test_r1 (.jsonl or .parquet)")
    return _join(found, config.rounds, str(path), tally)


def _join(
    found: Mapping[str, Iterable[Row]], rounds: Iterable[int], where: str, tally: Tally
) -> dict[str, list[Problem]]:
    """Parts over the rounds.  Raises DataError for a round that is in none of them, or not all."""
    parts: dict[str, list[Problem]] = {}
    for part in PARTS:
        names = [f"{part}_r{number}" for number in rounds]
        there = [name for name in names if name in found]
        if there and there != names:
            missing = ", ".join(name for name in names if name not in found)
            raise DataError(
                f"{where}: {missing} missing; choose the rounds that are there with task.rounds"
            )
        if there:
            parts[part] = [
                problem for name in there for problem in _problems(found[name], name, tally)
            ]
    if not parts:
        raise DataError(
            f"{where}: nothing of round {', '.join(map(str, rounds))}; it has {', '.join(found)}"
        )
    return parts


def _two_sides(parts: Mapping[str, list[Problem]], share: float) -> dict[str, list[Problem]]:
    if len(parts) == 1:
        (only,) = parts.values()
        sides = divided(only, share, _premise)
    else:  # dev stands in for the one that is missing
        spare = parts.get("dev", [])
        sides = {"train": spare, **parts, "test": parts.get("test", spare)}
    return {
        split: [replace(problem, split=split) for problem in problems]
        for split, problems in sides.items()
    }


def _premise(problem: Problem) -> str:
    return problem.question.partition("\nHypothesis: ")[0]


def _problems(rows: Iterable[Row], name: str, tally: Tally) -> list[Problem]:
    problems: list[Problem] = []
    for row in rows:
        try:
            problem = _problem(row, name)
        except BadRow as error:
            if error.reason == _NO_LABEL:
                tally.drop(_NO_LABEL)
            else:
                tally.bad(row.where, error)
        else:
            problems.append(problem)
    return numbered(problems)


def _problem(row: Row, name: str) -> Problem:
    premise = text_of(row.values, "premise").strip()
    hypothesis = text_of(row.values, "hypothesis").strip()
    uid = row.values.get("uid")
    own_name = one_line(uid, 80) if isinstance(uid, str) else ""
    return Problem(
        id=f"anli/{name}/{own_name or row.number}",
        question=f"Premise: {premise}\nHypothesis: {hypothesis}",
        gold=_label(row.values),
        task="anli",
        split=name,
        meta={"source": name},
    )


def _label(values: Mapping[str, object]) -> str:
    """The label's name; labels come as numbers, or as their names."""
    if "label" not in values:
        raise missing_key(values, "label")
    label = str(values["label"]).strip()
    if label == "-1":
        raise BadRow(_NO_LABEL, "has no gold label")
    if label in LABELS:
        return label
    if label not in ("0", "1", "2"):
        raise BadRow("bad label", f"label is {label[:40]!r}; it must be -1, 0, 1 or 2")
    return LABELS[int(label)]
