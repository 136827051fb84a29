"""Sampling the data of a verifier: questions → answers → labels → balanced examples on disk.

In: a config (or a run with its trained adapters) and how much to sample.  Out: a folder with the
answers as they were sampled, the chosen examples and a card.  Neighbours: ``assembly`` puts the
agents together, ``discussion`` holds them, ``verifier.data`` chooses, ``verifier.files`` writes,
``cli.verifier`` calls ``make_data``.

Agents answer as they do in a run: same prompts, roles, engines and grading.  The answers of a
question are the messages of as many discussions as it takes.  Parts are whole or not there, and a
part's random numbers depend on the seed and its questions alone, so a second call goes on where the
first was killed and ends with the same data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from maporl_core.assembly import Assembly, assemble
from maporl_core.config import RunConfig
from maporl_core.config_load import override_config, plain
from maporl_core.discussion import Listeners
from maporl_core.errors import ConfigError, DataError, Interrupted
from maporl_core.progress import Progress
from maporl_core.run_state import load_policy_state
from maporl_core.store.paths import RunDir
from maporl_core.types import Problem
from maporl_core.verifier import files
from maporl_core.verifier.cards import data_card, data_page
from maporl_core.verifier.data import Answer, Selection, select

PART_ANSWERS = 512
"""Answers of one part, about: what a killed process loses at most."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is sampled, and by whom.

    ``questions``: the first so many of ``split`` in the config's order.  ``samples``: answers per
    question.  ``turns`` of a discussion; 1 is answering alone.  ``policy_state``: "base", "trained"
    or the name of a checkpoint.
    """

    split: str
    questions: int
    samples: int
    temperature: float
    turns: int = 1
    policy_state: str = "base"


def make_data(
    config: RunConfig,
    sampling: Sampling,
    selection: Selection,
    folder: Path,
    progress: Progress,
    run: RunDir | None = None,
) -> dict[str, Any]:
    """Sample what is still missing in ``folder``, choose examples, write table and card.

    ``run`` holds the adapters where ``policy_state`` is not "base".  Returns the card.  Raises
    ConfigError, naming the keys, when the folder was begun with other settings; DataError without
    gold answers; Interrupted when stopped, with everything sampled so far on disk.
    """
    started = time.perf_counter()
    overrides = [f"discussion.turns={sampling.turns}", "discussion.consensus_stop=false"]
    config = override_config(config, overrides)
    assembly = assemble(config, progress)
    step = 0
    if run is not None:
        step = load_policy_state(run, assembly.policies, sampling.policy_state)
    settings = _settings(config, sampling, step)
    sampler = _Sampler(assembly, sampling, folder, progress)  # an unknown split raises
    _begin(folder, settings)
    try:
        answers = sampler.run()
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; {sampler.parts_done} of {sampler.parts} parts are in {folder}, and the same "
            "command goes on"
        ) from None
    examples, counts = select(answers, selection)
    if not examples:
        raise DataError(
            f"none of {counts.questions} questions has both right and wrong answers "
            f"({counts.only_right} only right, {counts.only_wrong} only wrong, "
            f"{counts.none_parsable} none that can be read): sample more with --samples, or change "
            "--temperature"
        )
    card = data_card(
        settings, selection, counts, examples, time.perf_counter() - started, sampler.left_out
    )
    (folder / files.CARD).unlink(missing_ok=True)  # the card is last: without it nothing is whole
    files.write_examples(folder / files.TABLE, examples)
    files.write_text(folder / files.CARD_PAGE, data_page(card))
    files.write_json(folder / files.CARD, card)
    return card


def _settings(config: RunConfig, sampling: Sampling, step: int) -> dict[str, Any]:
    """Everything that decides what is sampled: the same settings give the same answers."""
    whole = plain(config)
    kept = {
        key: whole[key] for key in ("seed", "task", "bases", "agents", "policies", "discussion")
    }
    if sampling.turns > 1:  # later turns read scores
        kept["verifier"] = whole.get("verifier", {})
    return {**kept, "sampling": asdict(sampling), "step": step, "part_answers": PART_ANSWERS}


def _begin(folder: Path, settings: Mapping[str, Any]) -> None:
    """A new folder, or one begun with the same settings."""
    path = folder / files.SETTINGS
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} exists and holds no verifier data; name another folder")
        files.write_json(path, settings)
        return
    before = _flat(files.read_json(path, "name another folder"))
    now = _flat(settings)
    other = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if other:
        shown = "; ".join(f"{k}: {before.get(k)!r} then, {now.get(k)!r} now" for k in other[:4])
        more = f"; and {len(other) - 4} more" if len(other) > 4 else ""
        raise ConfigError(
            f"{folder} was begun with other settings ({shown}{more}); name another folder"
        )


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of nested tables by dotted key; what JSON makes equal is equal."""
    if isinstance(value, Mapping):
        return {
            k: v for key, item in value.items() for k, v in _flat(item, f"{prefix}.{key}").items()
        }
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        return {
            k: v
            for i, item in enumerate(value)
            for k, v in _flat(item, f"{prefix}.{i + 1}").items()
        }
    return {prefix.removeprefix("."): list(value) if isinstance(value, tuple) else value}


class _Sampler:
    """Samples the parts that are missing."""

    def __init__(
        self, assembly: Assembly, sampling: Sampling, folder: Path, progress: Progress
    ) -> None:
        self.assembly, self.sampling, self.folder, self.progress = (
            assembly,
            sampling,
            folder,
            progress,
        )
        per_discussion = sampling.turns * len(assembly.speakers)
        self.discussions = -(-sampling.samples // per_discussion)  # per question
        size = assembly.task.size(sampling.split)
        self.questions = sampling.questions if size is None else min(size, sampling.questions)
        self.per_part = max(1, PART_ANSWERS // sampling.samples)
        self.parts = -(-self.questions // self.per_part)
        self.parts_done = 0
        self.left_out = 0  # questions that do not fit the context window

    def run(self) -> list[Answer]:
        """All answers, of old parts and new."""
        self.progress.stage("sampling answers", self.questions)
        answers: list[Answer] = []
        for number in range(self.parts):
            path = files.part_path(self.folder, number)
            if not path.exists():
                files.write_part(path, list(self._sample(number)))
            part = files.read_part(path)
            asked = min(self.per_part, self.questions - number * self.per_part)
            self.left_out += asked - len({answer.question_id for answer in part})
            answers += part
            self.parts_done += 1
            self.progress.advance(asked)
        return answers

    def _sample(self, number: int) -> Iterator[Answer]:
        first = number * self.per_part
        count = min(self.per_part, self.questions - first)
        seed = self.assembly.config.seed
        problems = self.assembly.task.problems(self.sampling.split, first, count, seed)
        fitting, places = self.assembly.fitting(problems, range(first, first + count))
        asked = [p for p in fitting for _ in range(self.discussions)]
        seats = [place * self.discussions + d for place in places for d in range(self.discussions)]
        rules = self.assembly.rules(seed, self.sampling.temperature, self._untrained())
        if not self._untrained():  # trained agents speak as such from the first turn
            rules = replace(rules, base_turns=0)
        held = self.assembly.hold(asked, seats, rules, Listeners())
        for place, problem in enumerate(fitting):
            own = held[place * self.discussions : (place + 1) * self.discussions]
            messages = [m for d in own for row in d.messages for m in row]
            for message in messages[: self.sampling.samples]:
                yield Answer(
                    problem.id,
                    problem.question,
                    _gold(problem),
                    message.text.strip(),
                    message.answer,
                    bool(message.correct),
                )

    def _untrained(self) -> bool:
        return self.sampling.policy_state == "base"


def _gold(problem: Problem) -> str:
    if problem.gold is None:
        raise DataError(
            f"problem {problem.id!r} of task {problem.task!r} has no gold answer; a verifier's "
            "data is labelled by rule, so choose a task that comes with answers"
        )
    return problem.gold
