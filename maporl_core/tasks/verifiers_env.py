"""``verifiers:<id>``: single-turn tasks of a ``verifiers`` taskset (extra ``verifiers``).

In: the id of an installed taskset and its config as options.  Out: a ``Task`` with its rows in
memory, graded by the taskset's own rewards.  Loading and scoring run in processes of their own
with bounded time and memory (``bounded``); loading may download, scoring may write no file.

An answer is right when its weighted reward reaches the full mark, the sum of the positive weights,
or ``options.right_from`` of it.  Rewards read whole replies, and often look for a box or a tag, so
an answer is shown to them alone, in a box and in a tag, and the best of the three counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.kit.plain_text import one_line
from maporl_core.tasks.answers import sentences, spans
from maporl_core.tasks.answers.grading import Grading
from maporl_core.tasks.data.stored import StoredTask, limited, numbered
from maporl_core.tasks.gsm8k import as_two
from maporl_core.tasks.sandbox.bounded import BoundedPool, Patience
from maporl_core.types import Problem

MAX_TASKS = 200_000
_LOAD_SECONDS = 600.0
_READY_SECONDS = 60.0
_MAX_ANSWER = 20_000  # characters
_FORMS = ("{}", "\\boxed{{{}}}", "<answer>{}</answer>")
_SLACK = 1e-9  # weights like 0.1 do not add up exactly
_INSTRUCTION = "Finish with the answer alone between <answer> and </answer>."

_LOADER = BoundedPool("tasksets")
_SCORER = BoundedPool("verifiers")


def load(config: TaskConfig) -> VerifiersTask:
    """The task for a name like "verifiers:my-taskset".

    Raises ConfigError for a taskset that does not fit, DataError where it cannot be loaded.
    """
    _check_package(config.name)
    taskset = config.name.removeprefix("verifiers").removeprefix(":")
    if not taskset:
        raise ConfigError("task.name: verifiers needs the id of a taskset, verifiers:<id>")
    options = dict(config.options)
    share = options.pop("right_from", 1.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ConfigError(f"task.options: right_from must be above 0 and at most 1, not {share!r}")
    if "id" in options:
        raise ConfigError("task.options: id is set by the task itself")
    request = {"id": taskset, "options": options}
    try:
        rows = _rows(config, request)
    finally:
        _LOADER.close()  # the rows are here now
    problems = numbered([_problem(config.name, at, row) for at, row in enumerate(rows)])
    kept = limited(as_two({"train": problems}, config.holdout), config.limit, config.name, {})
    rubric = Rubric(request, [row["data"] for row in rows], float(share))
    grading = Grading(
        extract=extract_answer,
        right=lambda answer, _gold, meta: rubric.right(answer, meta["row"]),
        instruction=_INSTRUCTION,
    )
    return VerifiersTask(config.name, kept, grading)


@dataclass(eq=False)
class VerifiersTask(StoredTask):
    """Stored problems whose verdicts come from rewards, with or without a gold answer."""

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        if "row" not in problem.meta:
            return None
        return bool(answer) and self.grading.right(answer or "", "", problem.meta)


class Rubric:
    """The rewards of one taskset.  Any thread may ask; each verdict is found once."""

    def __init__(self, request: Mapping[str, Any], rows: list[Any], share: float) -> None:
        self._request, self._rows, self._share = dict(request), rows, share
        self._patience = Patience(most=2.0, least=0.1, budget=4.0, refill=0.1)
        self.right = lru_cache(maxsize=8192)(self._right)

    def _right(self, answer: str, row: int) -> bool:
        # The taskset first, which may be slow and is no fault of the answer.
        _SCORER.ask({**self._request, "op": "ready"}, _READY_SECONDS)
        answers = [form.format(answer) for form in _FORMS]
        request = {**self._request, "op": "score", "row": self._rows[row], "answers": answers}
        reply = _SCORER.ask(request, self._patience.limit())
        self._patience.spent(reply.seconds)
        if reply.error:  # a reward that fails on this answer, or takes too long
            return False
        return any(mark["reward"] >= self._share * mark["full"] - _SLACK for mark in reply.value)


def extract_answer(text: str) -> str | None:
    """The last ``<answer>`` tag, else a box, a statement of the answer, or the whole text."""
    seen = spans.visible(text)
    if seen is None:
        return None
    content = spans.tagged(seen)
    box = spans.last_box(seen)
    if content is None and box.written:
        content = box.content
    elif content is None:
        stated = next(spans.explicit(seen), None)
        content = seen.strip() if stated is None else sentences.first_sentence(stated)
    return content if content and len(content) <= _MAX_ANSWER else None


def _check_package(name: str) -> None:
    """Found without importing it: an older one would load half the world into the trainer."""
    spec = find_spec("verifiers")
    if spec is None:
        raise DataError(f"task {name} needs verifiers: pip install 'maporl[verifiers]'")
    if not any((Path(at) / "v1").is_dir() for at in spec.submodule_search_locations or ()):
        raise DataError(
            f"task {name} reads tasksets of verifiers 0.4 (verifiers.v1), and an older one is "
            "installed: pip install 'maporl[verifiers]'"
        )


def _rows(config: TaskConfig, request: Mapping[str, Any]) -> list[Any]:
    """All tasks of a taskset in its own order: {"question", "data"} of each."""
    opened = _ask(config, {**request, "op": "open"})
    if opened["reason"]:
        raise ConfigError(_no_fit(config, opened["reason"]))
    if opened["endless"] and config.limit is None:
        raise ConfigError(_no_fit(config, "it is endless; set task.limit to take its first tasks"))
    most = config.limit if opened["endless"] and config.limit else MAX_TASKS + 1
    rows: list[Any] = []
    more = True
    while more:
        page = _ask(config, {**request, "op": "rows", "start": len(rows), "most": most})
        if page["reason"]:
            raise ConfigError(_no_fit(config, page["reason"]))
        rows += page["rows"]
        more = page["more"]
    if len(rows) > MAX_TASKS:
        raise DataError(f"task {config.name} has more than {MAX_TASKS:,} tasks")
    return rows


def _ask(config: TaskConfig, request: Mapping[str, Any]) -> Any:
    reply = _LOADER.ask(request, _LOAD_SECONDS)
    if reply.error:
        ends = {"died": "its process died, perhaps for memory", "time": "it takes too long"}
        why = ends.get(reply.error, one_line(reply.detail, 300))
        raise DataError(f"task {config.name} cannot be loaded ({why})")
    return reply.value


def _no_fit(config: TaskConfig, reason: str) -> str:
    return f"task {config.name} does not fit: {one_line(reason, 300)}"


def _problem(name: str, at: int, row: Mapping[str, Any]) -> Problem:
    """A ``gold`` is only shown; the rewards decide."""
    data = row["data"]
    gold = data.get("answer")
    facts = json.dumps({**data, "idx": None}, sort_keys=True)
    digest = blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return Problem(
        id=f"{name}/{digest}",
        question=row["question"],
        gold=str(gold) if isinstance(gold, str | int | float) else None,
        task=name,
        split="train",
        meta={"row": at},
    )
