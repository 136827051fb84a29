"""Two stored evaluations question by question: what is counted and which questions are listed.

In: two evaluations with the rows of their questions.  Out: a ``Comparison``; filters on its items.
Pure.  Neighbours: ``compare_load`` reads the rows, ``compare_text`` words them, the Compare screen
shows them; ``maporl_core.judging.pairing`` does the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from maporl_core.judging.pairing import (
    Flips,
    Pairing,
    by_question,
    differences,
    newest_pair,
    own_pair,
    pair,
    team_right,
)
from maporl_core.store.reader import DiscussionRow, Evaluation, RunDir
from maporl_core.types import Interval

Flip = Literal["gained", "lost"]
FLIP_MARKS: dict[Flip, str] = {"gained": "▲ wrong→right", "lost": "▼ right→wrong"}
"""A flip from left to right, with words: colour is not needed to read it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One evaluation, the run that holds it, and the run's last step."""

    run: RunDir
    evaluation: Evaluation
    last_step: int

    @property
    def name(self) -> str:
        """ "pocket: after (trained, step 100)"."""
        return f"{self.run.name}: {evaluation_name(self.evaluation)}"

    @property
    def key(self) -> tuple[str, int]:
        """Tells one side from another."""
        return str(self.run.path), self.evaluation.id

    @property
    def voice(self) -> str:
        """Who answers for this side, as the worker's command line names it.

        The run's own evaluations on the way say "trained" and mean the agents of that step.
        """
        state, step = self.evaluation.summary.policy_state, self.evaluation.step
        if state == "trained" and step < self.last_step:
            state = f"step-{step:06d}"
        return voice(self.run, state)


def voice(run: RunDir, policy_state: str) -> str:
    """A side of the worker: "RUN_FOLDER::STATE"."""
    return f"{run.path.absolute()}::{policy_state}"


def evaluation_name(evaluation: Evaluation) -> str:
    """ "after (trained, step 100)"."""
    summary = evaluation.summary
    state = f"{summary.policy_state}, " if summary.policy_state != summary.label else ""
    return f"{summary.label} ({state}step {evaluation.step})"


@dataclass(frozen=True, slots=True)
class Item:
    """A question that both sides were asked.

    ``discussions``: ids in the two runs' stores; ``verdicts``: whether more than half of the agents
    were right in the last turn, None without a gold answer.  ``question`` is cut as rows are.
    """

    problem_id: str
    question: str
    gold: str | None
    discussions: tuple[int, int]
    verdicts: tuple[bool | None, bool | None]

    @property
    def flip(self) -> Flip | None:
        return flip_of(*self.verdicts)


def flip_of(before: bool | None, after: bool | None) -> Flip | None:
    """How a verdict changed from left to right; None when it did not or is unknown."""
    if before is None or after is None or before == after:
        return None
    return "gained" if after else "lost"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Left is "before" of the pairing, right "after"."""

    sides: tuple[Side, Side]
    items: tuple[Item, ...]
    pairing: Pairing
    differences: tuple[str, ...]


def compare(
    sides: tuple[Side, Side], left: Sequence[DiscussionRow], right: Sequence[DiscussionRow]
) -> Comparison:
    """Pair two evaluations by their questions; takes a second for 10,000 of them."""
    old, new = by_question(left), by_question(right)
    items = tuple(
        Item(
            problem_id=row.problem_id,
            question=row.question,
            gold=row.gold,
            discussions=(row.id, new[key].id),
            verdicts=(team_right(row.correct_TA), team_right(new[key].correct_TA)),
        )
        for key, row in old.items()
        if key in new
    )
    summaries = [side.evaluation.summary for side in sides]
    return Comparison(
        sides=sides,
        items=items,
        pairing=pair(
            {key: row.correct_TA for key, row in old.items()},
            {key: row.correct_TA for key, row in new.items()},
            summaries[0].seed,
        ),
        differences=differences(*summaries),
    )


def swapped(found: Comparison) -> Comparison:
    """The same with left and right exchanged; nothing has to be counted again."""
    pairing = found.pairing
    return Comparison(
        sides=(found.sides[1], found.sides[0]),
        items=tuple(
            replace(item, discussions=item.discussions[::-1], verdicts=item.verdicts[::-1])
            for item in found.items
        ),
        pairing=replace(
            pairing,
            before_T=pairing.after_T,
            after_T=pairing.before_T,
            gain_T=tuple(Interval(-g.mean, -g.high, -g.low) for g in pairing.gain_T),
            flips_T=tuple(
                Flips(f.both_right, f.both_wrong, gained=f.lost, lost=f.gained)
                for f in pairing.flips_T
            ),
        ),
        differences=differences(*(side.evaluation.summary for side in reversed(found.sides))),
    )


def passing(items: Sequence[Item], words: str, flips_only: bool) -> list[int]:
    """Places of the items that hold ``words`` (question, gold answer or id, in any case)."""
    wanted = words.casefold().strip()
    return [
        place
        for place, item in enumerate(items)
        if (not flips_only or item.flip is not None)
        and (
            not wanted
            or wanted in item.question.casefold()
            or wanted in item.problem_id.casefold()
            or wanted == (item.gold or "").casefold()
        )
    ]


@dataclass(frozen=True, slots=True)
class Stored:
    """What one run holds: its evaluations, oldest first, and its last step."""

    run: RunDir
    evaluations: tuple[Evaluation, ...]
    last_step: int

    def side(self, evaluation: Evaluation) -> Side:
        return Side(self.run, evaluation, self.last_step)


def before_and_after(stored: Stored) -> tuple[Side, Side] | None:
    """The sides to begin with for one run; None where it holds no two that go together."""
    places = own_pair([e.summary for e in stored.evaluations])
    if places is None:
        return None
    return stored.side(stored.evaluations[places[0]]), stored.side(stored.evaluations[places[1]])


def newest_trained(left: Stored, right: Stored) -> tuple[Side, Side] | None:
    """The sides to begin with for two runs: trained agents on the same questions."""
    found = [
        [e for e in stored.evaluations if e.summary.policy_state != "base"]
        for stored in (left, right)
    ]
    places = newest_pair(*([e.summary for e in one] for one in found))
    if places is None:
        return None
    return left.side(found[0][places[0]]), right.side(found[1][places[1]])
