"""Ways of grading: how an answer is read from a message and compared with the gold one.

In: texts.  Out: ``Grading`` records, one per name.  Neighbours: ``numerals``, ``maths``,
``choices``, ``texts`` and ``labels`` do the work; ``stored`` holds one grading per task.  No
function of a grading raises because of what a message holds, and each takes bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maporl_core.tasks.answers import choices, labels, maths, numerals, texts
from maporl_core.types import Problem


@dataclass(frozen=True, slots=True)
class Grading:
    """``extract(message)`` gives the answer or None; ``right(answer, gold, meta)`` the verdict.

    ``instruction`` tells agents how to write the answer, and goes below the question.
    """

    extract: Callable[[str], str | None]
    right: Callable[[str, str, Mapping[str, Any]], bool]
    instruction: str

    def is_correct(self, answer: str | None, problem: Problem) -> bool | None:
        """c(t, a): False for no answer, None without a gold answer."""
        if problem.gold is None:
            return None
        return answer is not None and self.right(answer, problem.gold, problem.meta)


def _choice_is_right(answer: str, gold: str, meta: Mapping[str, Any]) -> bool:
    return choices.same_choice(answer, gold, meta.get("choices", ()))


def choice_grading(options: Sequence[str] = ()) -> Grading:
    """Multiple choice; with ``options`` when every question has the same ones."""
    return Grading(
        extract=lambda text: choices.extract_choice(text, options),
        right=_choice_is_right,
        instruction=(
            "Reason briefly, then finish with the letter of the right option in \\boxed{}, "
            "for example \\boxed{B}."
        ),
    )


NUMBER = Grading(
    extract=numerals.extract_number,
    right=lambda answer, gold, _meta: numerals.same_number(answer, gold),
    instruction=(
        "Work it out step by step, then finish with the final number in \\boxed{}, "
        "for example \\boxed{42}."
    ),
)
MATHS = Grading(
    extract=maths.extract_maths,
    right=lambda answer, gold, _meta: maths.same_maths(answer, gold),
    instruction=(
        "Work it out step by step, then finish with the final answer in \\boxed{}, "
        "simplified, for example \\boxed{\\frac{3}{4}}."
    ),
)
TEXT = Grading(
    extract=texts.extract_text,
    right=lambda answer, gold, _meta: texts.same_text(answer, gold),
    instruction=(
        "Reason briefly, then finish with the final answer alone in \\boxed{}, "
        "for example \\boxed{Paris}."
    ),
)
LABEL = Grading(
    extract=labels.extract_label,
    right=lambda answer, gold, _meta: answer == gold,
    instruction=(
        "Does the premise make the hypothesis true (entailment), make it false (contradiction), "
        "or neither (neutral)? Reason briefly, then finish with \\boxed{entailment}, "
        "\\boxed{neutral} or \\boxed{contradiction}."
    ),
)
