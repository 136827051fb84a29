"""Training data of a verifier: answers labelled by rule → balanced examples, split by question.

In: every answer that was sampled, with the task's verdict.  Out: ``Example`` records and counts of
what happened to the rest.  Pure: no files, no models.  Neighbours: ``sampling`` samples and
labels, ``files`` stores, ``fit`` trains on the examples.

Balancing (arXiv 2502.18439, verifier training): of each question as many right as wrong answers are
kept.  Whatever a verifier then reads off the question alone says nothing about the label, so all
that is left to learn is whether the answer is right.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from maporl_core.kit.seeds import stable_seed

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Answer:
    """One sampled answer.  ``answer`` is what the task read in it, None if nothing."""

    question_id: str
    question: str
    gold: str
    text: str
    answer: str | None
    right: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One row of the data: is ``text`` a right answer to ``question``?

    ``difficulty`` is the share of right answers among all that were sampled for the question,
    repeated ones and those without a parsable answer included: 1 is easy, 0 hard.
    """

    question_id: str
    question: str
    text: str
    label: bool
    split: str
    gold: str
    difficulty: float


@dataclass(frozen=True, slots=True)
class Selection:
    """How examples are chosen.  ``per_question`` is the most right (and wrong) ones of a question.

    Without ``balance`` every distinct answer of every question is kept.  ``holdout`` is the share
    of questions that go to "valid" and "test", half each.
    """

    balance: bool = True
    per_question: int = 10
    holdout: float = 0.2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the sampled answers, stage by stage."""

    questions: int
    answers: int
    right: int  # of ``answers``
    unparsable: int  # answers left out: they score 0 by rule
    repeated: int  # answers left out: same text as an earlier one of the question
    distinct_right: int
    distinct_wrong: int
    only_right: int  # questions left out: no wrong answer
    only_wrong: int  # questions left out: no right answer
    none_parsable: int  # questions left out: nothing to score
    surplus: int  # answers left out by balancing
    kept_questions: int
    kept_right: int
    kept_wrong: int


def select(answers: Iterable[Answer], selection: Selection) -> tuple[list[Example], Counts]:
    """Distinct answers of each question, balanced and split; in the order of ``answers``.

    A pure function of its arguments: what is kept of one question depends on no other.
    """
    by_question: dict[str, list[Answer]] = {}
    for answer in answers:
        by_question.setdefault(answer.question_id, []).append(answer)
    examples: list[Example] = []
    tally = dict.fromkeys(Counts.__dataclass_fields__, 0)
    for sampled in by_question.values():
        distinct = _distinct(sampled)
        parsable = sum(a.answer is not None for a in sampled)
        right = [a for a in distinct if a.right]
        wrong = [a for a in distinct if not a.right]
        tally["questions"] += 1
        tally["answers"] += len(sampled)
        tally["right"] += sum(a.right for a in sampled)
        tally["unparsable"] += len(sampled) - parsable
        tally["repeated"] += parsable - len(distinct)
        tally["distinct_right"] += len(right)
        tally["distinct_wrong"] += len(wrong)
        if not distinct:
            tally["none_parsable"] += 1
            continue
        if selection.balance and not (right and wrong):
            tally["only_right" if right else "only_wrong"] += 1
            continue
        kept = _balanced(right, wrong, selection) if selection.balance else distinct
        tally["surplus"] += len(distinct) - len(kept)
        tally["kept_questions"] += 1
        tally["kept_right"] += sum(a.right for a in kept)
        tally["kept_wrong"] += sum(not a.right for a in kept)
        difficulty = sum(a.right for a in sampled) / len(sampled)
        side = side_of(sampled[0].question, selection.holdout)
        examples += [
            Example(a.question_id, a.question, a.text, a.right, side, a.gold, difficulty)
            for a in kept
        ]
    return examples, Counts(**tally)


def _distinct(sampled: Sequence[Answer]) -> list[Answer]:
    """Parsable answers, one per text; space around a text does not count."""
    found: dict[str, Answer] = {}
    for answer in sampled:
        if answer.answer is not None:
            found.setdefault(answer.text.strip(), answer)
    return list(found.values())


def _balanced(
    right: Sequence[Answer], wrong: Sequence[Answer], selection: Selection
) -> list[Answer]:
    """n right and n wrong ones by lot, n the largest number that both have, in sampled order."""
    count = min(len(right), len(wrong), selection.per_question)
    kept: list[Answer] = []
    for label, pool in (("right", right), ("wrong", wrong)):
        rng = random.Random(stable_seed(selection.seed, "balance", pool[0].question_id, label))
        kept += [pool[i] for i in sorted(rng.sample(range(len(pool)), count))]
    return kept


def side_of(question: str, holdout: float) -> str:
    """The split of a question, by hash of its text: the same on every machine and in any data."""
    digest = blake2b(question.strip().encode("utf-8", "surrogatepass"), digest_size=7)
    place = int.from_bytes(digest.digest(), "big") / 2**56
    if place < holdout / 2:
        return "test"
    return "valid" if place < holdout else "train"


DIFFICULTY_ENDS = (0.25, 0.5, 0.75, 1.0)
"""Upper ends, included, of the shares right by which questions are grouped."""


def difficulty_name(difficulty: float) -> str:
    """The group of a question, e.g. "0.25-0.50" for a share right of .4."""
    low = 0.0
    for high in DIFFICULTY_ENDS:
        if difficulty <= high + 1e-12:
            return f"{low:.2f}-{high:.2f}"
        low = high
    raise ValueError(f"a share right is at most 1, not {difficulty}")
