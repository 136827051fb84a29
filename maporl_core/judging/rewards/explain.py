"""Why a message was paid what it was paid, in plain words.

In: a ``Told`` message.  Out: Reasons in the order in which they are read: a note on how right was
judged, the parts, notes on what did not pay.  Pure.  Neighbours: ``maporl`` hands them out;
``explain_scores`` and ``explain_incentives`` word the larger parts.
"""

from __future__ import annotations

from maporl_core.judging.rewards.explain_incentives import (
    INCENTIVES,
    incentive_reasons,
    judged_note,
    off,
    unpaid_notes,
)
from maporl_core.judging.rewards.explain_scores import influence_reason, own_reason
from maporl_core.judging.rewards.told import Told
from maporl_core.kit.figures import digits_for, figure
from maporl_core.types import Message, Reason


def explain(told: Told) -> tuple[Reason, ...]:
    """Every reason; parts that neither pay nor say anything are left out."""
    reasons = [judged_note(told)] if judges_by_score(told) else []
    reasons += [own_reason(told), influence_reason(told)]
    for name in INCENTIVES:
        reasons += incentive_reasons(told, name)
    message = told.message
    if message.answer is None:
        story = "no answer could be read from this message"
        reasons.append(_penalty(told, "format", story, "no answer"))
    if message.finish == "length":
        story = "stopped by the length limit, before its end token"
        reasons.append(_penalty(told, "unfinished", story, "cut at the length limit"))
    return (*reasons, *unpaid_notes(told))


def judges_by_score(told: Told) -> bool:
    """Whether incentives may rest on a score: no gold answer, or a learned verifier decides."""
    if off(told.options) or len(told.held.agents) < 2:
        return False
    return any(
        rests_on_score(message, told.by_score) for row in told.held.messages for message in row
    )


def rests_on_score(message: Message, by_score: bool) -> bool:
    return (by_score or message.correct is None) and message.answer is not None


def _penalty(told: Told, name: str, story: str, brief: str) -> Reason:
    value = told.pay.parts[name]
    if value:
        text = f"{name} {figure(value, digits_for([value]))} = reward.{name}: {story}"
    else:
        text = f"{name} 0: {story}; reward.{name} is 0, so it costs nothing"
    return Reason(name, value, (text,), (told.place(told.message),), brief)
