"""Incentives in words: which row of which table fired, and who had which verdict.

In: a ``Told`` message.  Out: Reasons; those without a part are notes on the whole message.  Pure.
Neighbours: ``explain`` asks for them; ``incentives`` holds both tables; docs/rewards.md prints
them.
"""

from __future__ import annotations

from typing import get_args

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.incentives import (
    SCORE_THRESHOLD,
    Incentive,
    ShapingEvent,
    ShapingRow,
)
from maporl_core.judging.rewards.told import Told, change, mark, word
from maporl_core.kit.figures import digits_for, figure, short
from maporl_core.types import Message, Place, Reason

INCENTIVES: tuple[Incentive, ...] = get_args(Incentive)
_REVISIONS = INCENTIVES[:2]

Line = tuple[str, Place]


def off(options: RewardConfig) -> bool:
    return not any(getattr(options, name) for name in INCENTIVES)


def judged_note(told: Told) -> Reason:
    """How right was judged, for a message of a debate where some verdict rests on a score."""
    message = told.message
    why = "a learned verifier decides" if told.by_score else "no gold answer"
    text = f"{why}: for the incentives a message is right from score {short(SCORE_THRESHOLD)} on"
    answered = message.answer is not None and message.correct is not None
    if answered and told.event.right != message.correct:
        answer = f"{mark(bool(message.correct))} {word(bool(message.correct))}"
        text = f"answer {answer}, but {told.verdict(message)} for the incentives ({why})"
    return Reason("", 0.0, (text,), (told.place(message),))


def incentive_reasons(told: Told, name: str) -> list[Reason]:
    """The table row that fired with the verdicts it rests on; nothing where none did."""
    options, event, here = told.options, told.event, told.place(told.message)
    row = next((row for row in event.rows if row.name == name), None)
    coefficient = getattr(options, name)
    if row is None or (not coefficient and off(options)):
        return []
    revises = name in _REVISIONS
    story = _revision(told, event, row) if revises else _movement(told, event, row)
    if not coefficient:
        text = f"{name} 0: {story}; reward.{name} is 0, so it pays nothing"
        return [Reason(name, 0.0, (text,), (here,))]
    value = told.pay.parts[name]
    text = f"{name} {figure(value, digits_for([value]), True)} = reward.{name} "
    text += f"{short(coefficient)} × {'+' if row.weight > 0 else '−'}{short(abs(row.weight))}"
    lines: list[Line] = [(f"{text}: {story}", here)]
    if revises:
        brief = f"{told.who} went {change(event.right)}"
        lines += _stood(told, event.turn - 1, [event.agent, *told.others(event.turn - 1)])
    else:
        brief = f"{_others_moved(told, event)} after this message"
        lines += _moves(told, event.turn)
    return [_reason(name, value, lines, brief)]


def _reason(name: str, value: float, lines: list[Line], brief: str = "") -> Reason:
    return Reason(
        name, value, tuple(text for text, _ in lines), tuple(place for _, place in lines), brief
    )


def _revision(told: Told, event: ShapingEvent, row: ShapingRow) -> str:
    """Which row of the self-revision table fired, and what the others' verdict had been."""
    critical = row.name == "critical"
    right = event.right != critical  # the verdict of the others that decided
    others = told.others(event.turn - 1)
    count = told.count(event.turn - 1, right)
    start = f"{told.who} went {change(event.right)}, "
    start += "against" if critical else "over to"
    stood = f"{word(right)} in turn {event.turn}"
    if len(others) == 1:
        return f"{start} {told.name(others[0])}, {stood}"
    if told.options.tie == "fraction":
        return f"{start} the {count} others that were {stood}"
    return f"{start} the majority of the others, {stood} ({count})"


def _movement(told: Told, event: ShapingEvent, row: ShapingRow) -> str:
    """Which row of the influence table fired, and how the others moved."""
    way = "towards" if row.name == "persuasive" else "away from"
    return (
        f"{told.who} was {word(event.right)}; {_others_moved(told, event)} by turn "
        f"{event.turn + 2}, {way} this message"
    )


def _others_moved(told: Told, event: ShapingEvent) -> str:
    """ "Bo went wrong → right", or how many were right before and after."""
    others = told.others(event.turn)
    before, after = (told.others_right(event.turn + k, event.turn) for k in (0, 1))
    if told.options.tie == "fraction" and len(others) > 1:
        return f"the others right went from {before} to {after} of {len(others)}"
    went = change(after > before)
    names = [told.name(other) for other in others]
    if len(names) > 3:
        return f"the majority of the other {len(names)} went {went}"
    if len(names) == 3:
        return f"the majority of {names[0]}, {names[1]} and {names[2]} went {went}"
    return f"{' and '.join(names)} went {went}"


def _stood(told: Told, turn: int, agents: list[int]) -> list[Line]:
    """At which verdict each of them stood."""
    found = []
    for agent in agents:
        message = told.stood(turn, agent)
        if message is not None:
            text = f"turn {message.turn + 1}, {told.name(agent)}: {told.verdict(message)}"
            found.append((text, told.place(message)))
    return found


def _moves(told: Told, turn: int) -> list[Line]:
    """What became of every other's verdict by the next turn."""
    pairs = [(told.stood(turn, j), told.stood(turn + 1, j)) for j in told.others(turn)]
    return [_move(told, b, a) for b, a in pairs if b is not None and a is not None]


def _move(told: Told, before: Message, after: Message) -> Line:
    was, now = told.verdict(before), told.verdict(after)
    text = f"{told.name(after.agent)}: turn {before.turn + 1} {was} → turn {after.turn + 1} {now}"
    return text, told.place(after)


def unpaid_notes(told: Told) -> list[Reason]:
    """Ties, and why no incentive fired at all."""
    event, here, others = told.event, told.place(told.message), told.others(told.event.turn)
    if not others:
        only = "is the only agent" if len(told.held.agents) == 1 else "speaks before all others"
        return [Reason("", 0.0, (f"no incentives: {told.who} {only}",), (here,))]
    if off(told.options):
        return [Reason("", 0.0, ("no incentives: all four coefficients of [reward] are 0",))]
    notes = []
    if event.revision_tied:
        text = (
            f"tie: {told.who} went {change(event.right)}, but the others were tied in turn "
            f"{event.turn} ({told.count(event.turn - 1, True)} right), so self-revision pays "
            "nothing"
        )
        stood = _stood(told, event.turn - 1, told.others(event.turn - 1))
        notes.append(_reason("", 0.0, [(text, here), *stood]))
    if event.influence_tied:
        before, after = (told.others_right(event.turn + k, event.turn) for k in (0, 1))
        text = (
            f"tie: the others went {event.others} → {event.others_after} ({before} → {after} of "
            f"{len(others)} right), so influence pays nothing"
        )
        notes.append(_reason("", 0.0, [(text, here), *_moves(told, event.turn)]))
    if not notes and not event.rows:
        notes.append(Reason("", 0.0, (_nothing_fired(told, event),), (here,)))
    return notes


def _nothing_fired(told: Told, event: ShapingEvent) -> str:
    own = "the first turn revises nothing" if not event.turn else "a first message revises nothing"
    if event.right_before is not None:
        own = f"{told.who} stayed {word(event.right)}"
    others = "after the last turn nobody can move"
    if event.others_after is not None:
        others = f"the others stayed {event.others}"
    return f"no incentive fired: {own}; {others}"
