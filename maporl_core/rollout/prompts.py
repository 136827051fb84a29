"""What an agent reads: the first question, and per later turn its own and the others' messages.

In: a task's question text, the messages that a topology shows with their scores.  Out: user texts,
which ``chat_codec`` turns into ids.  A style is a pair of pure functions; ``STYLES`` names them.
Nobody sees a message of the same turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a reader sees it; ``score`` None where feedback is off."""

    name: str
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """What an agent is told before it speaks.

    ``opening(question)`` where nobody has spoken, ``joining(question, others)`` where others have
    and it has not, ``later(own, others)`` after a message of its own.
    """

    opening: Callable[[str], str]
    joining: Callable[[str, Sequence[Seen]], str]
    later: Callable[[Seen, Sequence[Seen]], str]


def _probability(score: float | None) -> str:
    return "" if score is None else f" (judged right with probability {score:.2f})"


def _bare(score: float | None) -> str:
    return "" if score is None else f" [{score:.2f}]"


def _worded_later(
    shown_score: Callable[[float | None], str], own: Seen, others: Sequence[Seen]
) -> str:
    """The published setting: every solution with its score, then the request to answer again."""
    if not others:
        return (
            f"Your solution above was read again{shown_score(own.score)}. "
            "Check it step by step and give your final answer again in the same format."
        )
    shown = _solutions(shown_score, others)
    own_line = f"\n\nYour own solution{shown_score(own.score)} is the one you gave above."
    return (
        f"These are the solutions of the other agents to the same problem.\n\n{shown}{own_line}\n\n"
        "Compare them with yours, say which steps are right, and give your updated final answer "
        "in the same format."
    )


def _worded_joining(
    shown_score: Callable[[float | None], str], question: str, others: Sequence[Seen]
) -> str:
    """The question with every solution so far and its score, then the request to answer."""
    if not others:
        return question
    return (
        f"{question}\n\nThese are the solutions of the other agents to this problem.\n\n"
        f"{_solutions(shown_score, others)}\n\n"
        "Compare them, say which steps are right, and give your final answer in the same format."
    )


def _solutions(shown_score: Callable[[float | None], str], others: Sequence[Seen]) -> str:
    return "\n\n".join(
        f"{other.name}'s solution{shown_score(other.score)}:\n{other.text.strip()}"
        for other in others
    )


def score_digit(score: float) -> int:
    """A score in [0, 1] as one digit 0–9: floor(10·score), 1.0 shown as 9."""
    return min(9, max(0, int(score * 10)))


def _compact(seen: Seen) -> str:
    digit = "" if seen.score is None else f" ({score_digit(seen.score)})"
    return f"{seen.name} {seen.text.strip()}{digit}"


def _compact_later(own: Seen, others: Sequence[Seen]) -> str:
    """A few tokens per message, for the built-in agents: name, text, score digit; own one first.

    "Ada 9: 12 + 9 = 21 - 4 = 17 (6); Bo 7: 12 + 7 = 19 - 4 = 15 (3)".  The digit stands after
    what it judges, so that a causal model reads it knowing the message; before the text, small
    models are slower to learn its use.
    """
    return "; ".join(_compact(seen) for seen in (own, *others))


def _compact_joining(question: str, others: Sequence[Seen]) -> str:
    return "; ".join((question, *(_compact(seen) for seen in others)))


def _worded(shown_score: Callable[[float | None], str]) -> PromptStyle:
    return PromptStyle(
        opening=lambda question: question,
        joining=partial(_worded_joining, shown_score),
        later=partial(_worded_later, shown_score),
    )


STYLES: Mapping[str, PromptStyle] = {
    "standard": _worded(_probability),
    "short": _worded(_bare),
    "compact": PromptStyle(
        opening=lambda question: question, joining=_compact_joining, later=_compact_later
    ),
}
