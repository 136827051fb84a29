"""Why a message was paid what it was paid, in plain words.

In: score terms, incentive events, a message.  Out: lines for people, from 1 where they count.
Pure.  Neighbour: ``maporl`` makes Reasons of them.
"""

from __future__ import annotations

from maporl_core.judging.rewards.incentives import ShapingEvent, ShapingRow
from maporl_core.judging.rewards.verification import ScoreTerm
from maporl_core.types import Discussion


def term_words(discussion: Discussion, term: ScoreTerm) -> str:
    """ "turn 2 Bo: score 0.9 × weight 0.3 / 2 agents / 1.39 = 0.0971"."""
    shared = f" / {term.members} agents" if term.members > 1 else ""
    return (
        f"turn {term.turn + 1} {discussion.agents[term.agent]}: score {term.score:.3g} × weight "
        f"{term.weight:.3g}{shared} / {term.denominator:.3g} = {term.paid:.3g}"
    )


def explain_event(event: ShapingEvent) -> tuple[str, ...]:
    """One plain sentence per row that fired and per tie; empty when nothing happened."""
    sentences = [f"{row.name} {row.weight:+.3g}: {row_words(event, row)}" for row in event.rows]
    if event.revision_tied:
        sentences.append(f"no self-revision pay: {revision_tie_words(event)}")
    if event.influence_tied:
        sentences.append(f"no influence pay: {influence_tie_words(event)}")
    return tuple(sentences)


def row_words(event: ShapingEvent, row: ShapingRow) -> str:
    """What a row that fired rewards or punishes."""
    own = _word(event.right)
    if row.name in ("critical", "persuaded"):
        seen = "it broke with" if row.name == "critical" else "it went with"
        return f"went from {_word(event.right_before)} to {own}; {seen} the others"
    moved = "wrong to right" if row.weight > 0 else "right to wrong"
    seen = "against" if row.name == "constructive" else "towards"
    return f"was {own}; the others then moved from {moved}, {seen} its verdict"


def revision_tie_words(event: ShapingEvent) -> str:
    before, now = _word(event.right_before), _word(event.right)
    return f"went from {before} to {now} while the others were tied"


def influence_tie_words(event: ShapingEvent) -> str:
    return f"the others moved from {event.others} to {event.others_after}"


def _word(right: bool | None) -> str:
    return "right" if right else "wrong"
