"""Why one message was paid what it was paid, in words and numbers.

In: an ``Account`` of a discussion and a place in it.  Out: lines, each with the message it speaks
of.  Pure: no screen, no file.  Neighbours: ``why_account`` makes the account, the run's reward
scheme words the parts, the Rewards screen shows the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from maporl_core.kit.figures import adds_up, digits_for, figure
from maporl_core.types import Pay, Reason
from maporl_tui.drawing.text import one_line
from maporl_tui.reading.why_account import Account, Spot, Why, account

__all__ = ["Account", "Why", "account", "arithmetic", "explain_message"]

_LONGEST = 400
"""Characters of a line that a scheme gives; it may be anybody's."""


def explain_message(paid: Account, turn: int, agent: int, branch: int = 0) -> tuple[Why, ...]:
    """Every line about one message, the sum first."""
    spot = (turn, agent, branch)
    reasons = paid.reasons(spot)
    lines = [_why(_arithmetic(paid, spot, reasons), "sum", spot)]
    problem = _problem(paid)
    if problem is not None:
        lines.append(_why(problem, "problem", spot))
    first = list(takewhile(lambda reason: not reason.part, reasons))
    notes = [reason for reason in reasons[len(first) :] if not reason.part]
    if not paid.disputed:
        lines += _told(first, spot)
    for name in paid.names:
        if paid.explained(name):
            lines += _told([reason for reason in reasons if reason.part == name], spot)
        else:
            lines += _as_stored(paid, spot, name)
    if not paid.disputed:
        lines += _told(notes, spot)
    lines += _closing(paid, spot)
    return tuple(lines)


def arithmetic(paid: Account, turn: int, agent: int, branch: int = 0) -> str:
    """The stored parts of one message as a sum, on one line.

    "≈" where the printed numbers do not add up to the last digit.
    """
    spot = (turn, agent, branch)
    return _arithmetic(paid, spot, paid.reasons(spot))


def _arithmetic(paid: Account, spot: Spot, reasons: Sequence[Reason]) -> str:
    pay = paid.pay(spot)
    values = {name: value for name in paid.names if (value := _of(pay, name)) != 0}
    if not values:
        return "nothing was paid: every part is 0"
    briefs = {r.part: one_line(r.brief, 80) for r in reasons if r.brief and paid.explained(r.part)}
    digits = digits_for(list(values.values()))
    line = ""
    for name, value in values.items():
        sign = "− " if value < 0 else "+ " if line else ""
        space, reason = " " if line else "", briefs.get(name)
        line += f"{space}{sign}{name} {abs(value):.{digits}f}{f' ({reason})' if reason else ''}"
    equals = "=" if adds_up(list(values.values()), pay.total, digits) else "≈"
    return f"{line} {equals} {figure(pay.total, digits)}"


def _of(pay: Pay, name: str) -> float:
    return pay.parts.get(name, 0.0)


def _why(text: str, kind: str, spot: Spot, part: str | None = None) -> Why:
    turn, agent, branch = spot
    return Why(text, kind, turn, agent, part, branch)  # type: ignore[arg-type]


def _told(reasons: Sequence[Reason], spot: Spot) -> list[Why]:
    """The words of reasons as lines: the first of each stands for it, the others lead on."""
    lines = []
    for reason in reasons:
        for k, words in enumerate(reason.words):
            text, about = one_line(words, _LONGEST), spot
            if k < len(reason.about):
                place = reason.about[k]
                about = (place.turn, place.agent, place.branch)
            if not k and reason.part and not text.startswith(reason.part):
                text = f"{reason.part} {figure(reason.amount, digits_for([reason.amount]))}: {text}"
            kind = "from" if k else "part" if reason.part else "note"
            lines.append(_why(text, kind, about, reason.part or None))
    return lines


def _problem(paid: Account) -> str | None:
    """Why the stored numbers, or some of them, stand without reasons; None when none do."""
    if paid.problem is not None:
        return f"{paid.problem}; the stored numbers stand without their reasons"
    if not paid.disputed:
        return None
    names = ", ".join(name for name in paid.names if name in paid.disputed)
    return (
        f"not explained: {names}. What is stored is not what the run's [reward] gives now (config "
        "edited, or paid by another version); the stored numbers stand"
    )


def _as_stored(paid: Account, spot: Spot, name: str) -> list[Why]:
    """A part without its reason, beside what the rules would give; nothing where both are 0."""
    value = _of(paid.pay(spot), name)
    rule = _of(paid.rules[spot], name) if spot in paid.rules else 0.0
    if not value and not rule:
        return []
    digits = digits_for([value, rule])
    text = f"{name} {figure(value, digits)} as stored"
    if spot in paid.rules:
        same = figure(rule, digits) == figure(value, digits)
        text += f"; the rules now give {'the same' if same else figure(rule, digits)}"
    elif says := next((part.says for part in paid.parts if part.name == name), ""):
        text += f": {one_line(says, _LONGEST)}"
    return [_why(text, "part", spot, name)]


def _trained(paid: Account, spot: Spot) -> str:
    """What training made of the reward, where it is stored."""
    reward = paid.rewards[spot]
    if reward.advantage is None and reward.kl is None:
        message = paid.discussion.at(*spot)
        if message is not None and message.policy is None:
            return "not trained on: the frozen base spoke here, the reward is for reading only"
        return "no advantage and no KL stored: this message was not trained on"
    facts = []
    if reward.advantage is not None:
        facts.append(
            f"advantage {figure(reward.advantage, 3, True)} (whitened, mean over its tokens)"
        )
    if reward.kl is not None:
        facts.append(f"KL {figure(reward.kl)} to the base (sum over its tokens)")
    return "training saw: " + ", ".join(facts)


def _closing(paid: Account, spot: Spot) -> list[Why]:
    """What bears on the whole message: an early end, training."""
    lines = []
    if paid.discussion.stopped_early:
        last = paid.discussion.turns
        text = f"all agents agreed in turn {last}: the discussion ended there, as its last turn"
        lines.append(_why(text, "note", (last - 1, spot[1], 0)))
    lines.append(_why(_trained(paid, spot), "note", spot))
    return lines
