"""Sampling the data of a verifier: questions → answers → labels → balanced examples on disk.

In: a config (or a run with its trained adapters) and how much to sample.  Out: a folder with the
answers as they were sampled, the chosen examples and a card.  Neighbours: ``assembly`` puts the
agents together, ``discussion`` holds them, ``verifier.data`` chooses, ``verifier.files`` writes,
``cli.verifier`` calls ``make_data``.

Agents answer as they do in a run: same prompts, roles, engines and grading.  The answers of a
question are the messages of as many discussions as it takes.  Parts are whole or not there, and a
part's random numbers depend on the seed and its questions alone, so a second call goes on where the
first was killed and ends with the same data, byte for byte.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.load import override_config, plain
from maporl_core.config.schema import RunConfig, VerifierConfig
from maporl_core.config.verifier import VerifierFitConfig
from maporl_core.errors import DataError, Interrupted, ModelError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.begun import begin
from maporl_core.judging.verifier.cards import data_card, data_page
from maporl_core.judging.verifier.data import Answer, Selection, select
from maporl_core.judging.verifier.keeper import kept_verifier
from maporl_core.kit.offline import offline
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.kit.seeds import stable_seed
from maporl_core.models.policy import Policies
from maporl_core.rollout.discussion import Listeners
from maporl_core.runs.run_state import load_policy_state
from maporl_core.store.failures import store_errors
from maporl_core.store.paths import RunDir
from maporl_core.types import Message, Problem

PART_ANSWERS = 512
"""Answers of one part at most; about what a killed process loses."""
PART_WORK = 400_000_000_000
"""Weights × tokens of one part on a CPU: a minute or two of one core."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is sampled, and by whom.

    ``questions``: the first so many of ``split`` in the config's order.  ``samples``: answers per
    question.  ``turns`` of a discussion; 1 is answering alone.  ``policy_state``: "base", "trained"
    or the name of a checkpoint.  Trained agents speak as such in every turn that they train; alone,
    in their only one.
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
    files.check_place(folder)  # before anything is loaded
    overrides = [f"discussion.turns={sampling.turns}", "discussion.consensus_stop=false"]
    config = override_config(config, overrides)
    if sampling.turns == 1:  # nobody hears a score, so nobody needs a verifier
        config = config.model_copy(update={"verifier": VerifierConfig(fit=config.verifier.fit)})
    assembly = assemble(config, progress, kept_verifier(run, config))
    assembly.task.size(sampling.split)  # an unknown split raises
    step = 0
    if run is not None:
        step = load_policy_state(run, assembly.policies, sampling.policy_state)
    settings = _settings(assembly, sampling, step)
    with files.only_writer(folder), offline():  # all is loaded
        settings = begin(folder, settings, PART_ANSWERS)
        sampler = _Sampler(assembly, sampling, folder, settings["part_answers"], progress)
        try:
            answers = sampler.run()
            return _finish(
                folder, settings, selection, answers, sampler.left_out, config.verifier.fit
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; {sampler.parts_done} of {sampler.parts} parts are in "
                f"{one_line(folder)}, and the same command goes on"
            ) from None


def _finish(
    folder: Path,
    settings: Mapping[str, Any],
    selection: Selection,
    answers: Sequence[Answer],
    left_out: int,
    fit: VerifierFitConfig,
) -> dict[str, Any]:
    """Choose examples, write table and card; ``fit`` is what fitting takes its defaults from."""
    examples, counts = select(answers, selection)
    if not examples:
        raise DataError(
            f"none of {counts.questions} questions has both right and wrong answers "
            f"({counts.only_right} only right, {counts.only_wrong} only wrong, "
            f"{counts.none_parsable} none that can be read): in another folder, ask more questions "
            "(-n), sample more answers of each (--samples) or change --temperature"
        )
    card = data_card(settings, selection, counts, examples, left_out)
    card["fit"] = fit.model_dump(mode="json")
    with store_errors("write", folder):
        # The card is last: without it nothing is whole.
        (folder / files.CARD).unlink(missing_ok=True)
    files.write_examples(folder / files.TABLE, examples)
    files.write_text(folder / files.CARD_PAGE, data_page(card))
    files.write_json(folder / files.CARD, card)
    return card


def _settings(assembly: Assembly, sampling: Sampling, step: int) -> dict[str, Any]:
    """Everything that decides what is sampled: the same settings give the same answers."""
    config, trained = assembly.config, sampling.policy_state != "base"
    whole = plain(config)
    kept = {
        key: whole[key] for key in ("seed", "task", "bases", "agents", "policies", "discussion")
    }
    if sampling.turns > 1:  # later turns read scores
        kept["verifier"] = whole.get("verifier", {})
        kept["train_turns"] = config.train.train_turns
    # Which checkpoint it was is told by its step and weights; "trained" may be another tomorrow.
    who = {"policy_state": "trained" if trained else "base"}
    return {
        **kept,
        "sampling": asdict(sampling) | who,
        "step": step,
        "weights": _weights(assembly.policies, trained),
        "part_answers": _part_answers(assembly),
    }


def _weights(policies: Policies, trained: bool) -> dict[str, str]:
    """Precision and hash of every base, and of the adapters that speak."""
    found = {
        name: f"{next(base.model.parameters()).dtype} {base.frozen_hash()[:16]}".removeprefix(
            "torch."
        )
        for name, base in policies.bases.items()
    }
    for name in policies.names() if trained else ():
        digest = hashlib.sha256()
        for weight in policies[name].parameters():
            flat = weight.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())
        found[f"adapter of {name}"] = digest.hexdigest()[:16]
    return found


def _part_answers(assembly: Assembly) -> int:
    """Answers of one part: few where a CPU samples from a large model."""
    bases = assembly.policies.bases.values()
    if any(base.device.type != "cpu" for base in bases):
        return PART_ANSWERS
    weights = max(sum(weight.numel() for weight in base.model.parameters()) for base in bases)
    per_answer = weights * assembly.config.discussion.max_new_tokens
    return int(max(1, min(PART_ANSWERS, PART_WORK // per_answer)))


class _Sampler:
    """Samples the parts that are missing."""

    def __init__(
        self,
        assembly: Assembly,
        sampling: Sampling,
        folder: Path,
        part_answers: int,
        progress: Progress,
    ) -> None:
        self.assembly, self.sampling, self.progress = assembly, sampling, progress
        self.folder = folder
        per_discussion = sampling.turns * len(assembly.speakers)
        self.discussions = -(-sampling.samples // per_discussion)  # per question
        size = assembly.task.size(sampling.split)
        self.questions = sampling.questions if size is None else min(size, sampling.questions)
        self.per_part = max(1, part_answers // sampling.samples)
        self.parts = -(-self.questions // self.per_part)
        self.parts_done = 0
        self.left_out = 0  # questions that do not fit the context window
        self.refusal: ModelError | None = None

    def run(self) -> list[Answer]:
        """All answers, of old parts and new.  Raises ModelError when no question fits."""
        self.progress.stage("sampling answers", self.questions)
        answers: list[Answer] = []
        for number in range(self.parts):
            part, asked = self._part(number)
            self.left_out += asked - len({answer.question_id for answer in part})
            answers += part
            self.parts_done += 1
            self.progress.advance(asked)
        if not answers:
            raise self.refusal or ModelError(
                "no question fits the agents' context window: lower discussion.max_new_tokens, or "
                "raise discussion.max_context, and name another folder"
            )
        return answers

    def _part(self, number: int) -> tuple[list[Answer], int]:
        """One part, sampled if it is missing, and how many questions it stands for."""
        first = number * self.per_part
        count = min(self.per_part, self.questions - first)
        seed = self.assembly.config.seed
        problems = self.assembly.task.problems(self.sampling.split, first, count, seed)
        golds = {problem.id: (problem.question, _gold(problem)) for problem in problems}
        path = files.part_path(self.folder, number)
        if not path.exists():
            files.write_part(path, self._sample(problems, range(first, first + count)))
        part = files.read_part(path)
        for answer in part:
            asked = golds.get(answer.question_id)
            if asked is None or files.clean_text(asked) != (answer.question, answer.gold):
                raise DataError(
                    f"{one_line(path)}: holds answers to other questions than task "
                    f"{self.assembly.config.task.name} gives now; its data has changed, so name "
                    "another folder"
                )
        return part, count

    def _sample(self, problems: Sequence[Problem], places: Sequence[int]) -> list[Answer]:
        try:
            fitting, places = self.assembly.fitting(problems, places)
        except ModelError as error:  # none of this part; there may be others
            self.refusal = error
            return []
        each = range(self.discussions)
        asked = [problem for problem in fitting for _ in each]
        seats = [place * self.discussions + d for place in places for d in each]
        untrained = self.sampling.policy_state == "base"
        rules = self.assembly.rules(self.assembly.config.seed, self.sampling.temperature, untrained)
        if not untrained and self.sampling.turns == 1:
            rules = replace(rules, base_turns=0)
        held = self.assembly.hold(asked, seats, rules, Listeners())
        answers: list[Answer] = []
        for place, problem in enumerate(fitting):
            own = held[place * self.discussions : (place + 1) * self.discussions]
            messages = [m for d in own for row in d.messages for m in row]
            answers += [_answer(problem, message) for message in self._chosen(problem, messages)]
        return answers

    def _chosen(self, problem: Problem, messages: Sequence[Message]) -> list[Message]:
        """As many as are asked for, by lot: the first ones would be those of some agents only."""
        count = min(self.sampling.samples, len(messages))
        seed = stable_seed(self.assembly.config.seed, "verifier sample", problem.id)
        chosen = random.Random(seed).sample(range(len(messages)), count)
        return [messages[place] for place in sorted(chosen)]


def _answer(problem: Problem, message: Message) -> Answer:
    return Answer(
        problem.id,
        problem.question,
        _gold(problem),
        message.text.strip(),
        message.answer,
        bool(message.correct),
    )


def _gold(problem: Problem) -> str:
    if problem.gold is None:
        raise DataError(
            f"problem {problem.id!r} of task {problem.task!r} has no gold answer; a verifier's "
            "data is labelled by rule, so choose a task that comes with answers"
        )
    return problem.gold
