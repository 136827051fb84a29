"""Incentives in words: which row of which table fired, and who had which verdict.

In: an ``Account`` and a place in it.  Out: lines.  Pure.  Neighbours: ``why`` asks for them;
``maporl_core.judging.rewards.maporl`` holds both tables; docs/rewards.md prints them.
"""

from __future__ import annotations

from collections.abc import Sequence

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.maporl import SCORE_THRESHOLD, ShapingEvent, ShapingRow
from maporl_tui.reading.why_account import INCENTIVES, Account, Why, digits_for, figure, short

_REVISIONS = INCENTIVES[:2]


def incentive_reason(paid: Account, turn: int, agent: int, name: str) -> str:
    """A few words for the sum: who moved how."""
    event = paid.events_TA[turn][agent]
    if name in _REVISIONS:
        return f"{paid.name(agent)} went {_change(event.right)}"
    return f"{_others_moved(paid, event)} after this message"


def judged_by_score(paid: Account) -> bool:
    """Whether incentives may rest on a score: no gold answer, or a learned verifier decides."""
    if paid.config is None or _off(paid.config) or paid.disputed.intersection(INCENTIVES):
        return False
    return len(paid.discussion.agents) > 1 and any(
        (paid.by_score or message.correct is None) and message.answer is not None
        for row in paid.discussion.messages
        for message in row
    )


def second_mark(paid: Account, turn: int, agent: int) -> str:
    """✓ or ✗ where the incentives judge a message by its score, and not as its answer is marked."""
    message = paid.discussion.messages[turn][agent]
    if message.answer is None or not judged_by_score(paid):
        return ""
    right = paid.events_TA[turn][agent].right
    return "" if right == message.correct else _mark(right)


def judged_line(paid: Account, turn: int, agent: int) -> Why:
    """How right was judged, for a message of a debate where some verdict rests on a score."""
    limit, message = short(SCORE_THRESHOLD), paid.discussion.messages[turn][agent]
    why = "a learned verifier decides" if paid.by_score else "no gold answer"
    text = f"{why}: for the incentives a message is right from score {limit} on"
    if second_mark(paid, turn, agent) and message.correct is not None:
        answer = f"{_mark(message.correct)} {_word(message.correct)}"
        text = f"answer {answer}, but {_verdict(paid, turn, agent)} for the incentives ({why})"
    return Why(text, "note", turn, agent)


def incentive_lines(paid: Account, turn: int, agent: int, name: str) -> list[Why]:
    """The table row that fired with the verdicts it rests on; nothing where none did."""
    config = paid.config
    assert config is not None
    event = paid.events_TA[turn][agent]
    row = next((row for row in event.rows if row.name == name), None)
    coefficient = getattr(config, name)
    if row is None or (not coefficient and _off(config)):
        return []
    story = _revision(paid, event, row) if name in _REVISIONS else _movement(paid, event, row)
    if not coefficient:
        text = f"{name} 0: {story}; reward.{name} is 0, so it pays nothing"
        return [Why(text, "part", turn, agent, name)]
    value = getattr(paid.parts(turn, agent), name)
    digits = digits_for([value])
    sign = "+" if row.weight > 0 else "−"
    text = f"{name} {figure(value, digits, True)} = reward.{name} {short(coefficient)} × "
    text += f"{sign}{short(abs(row.weight))}: {story}"
    lines = [Why(text, "part", turn, agent, name)]
    if name in _REVISIONS:
        lines.append(_stood(paid, turn - 1, agent, name))
        lines += [_stood(paid, turn - 1, other, name) for other in _others(paid, agent)]
    else:
        lines += [_moved(paid, turn, other, name) for other in _others(paid, agent)]
    return lines


def _revision(paid: Account, event: ShapingEvent, row: ShapingRow) -> str:
    """Which row of the self-revision table fired, and what the others' verdict had been."""
    critical = row.name == "critical"
    right = event.right != critical  # the verdict of the others that decided
    others = _others(paid, event.agent)
    count = _count(paid, event.turn - 1, event.agent, right)
    start = f"{paid.name(event.agent)} went {_change(event.right)}, "
    start += "against" if critical else "over to"
    stood = f"{_word(right)} in turn {event.turn}"
    if len(others) == 1:
        return f"{start} {paid.name(others[0])}, {stood}"
    if paid.config is not None and paid.config.tie == "fraction":
        return f"{start} the {count} others that were {stood}"
    return f"{start} the majority of the others, {stood} ({count})"


def _movement(paid: Account, event: ShapingEvent, row: ShapingRow) -> str:
    """Which row of the influence table fired, and how the others moved."""
    way = "towards" if row.name == "persuasive" else "away from"
    return (
        f"{paid.name(event.agent)} was {_word(event.right)}; {_others_moved(paid, event)} by turn "
        f"{event.turn + 2}, {way} this message"
    )


def _others_moved(paid: Account, event: ShapingEvent) -> str:
    """ "Bo went wrong → right", or how many were right before and after."""
    others = _others(paid, event.agent)
    before, after = (_right(paid, event.turn + k, event.agent) for k in (0, 1))
    if paid.config is not None and paid.config.tie == "fraction" and len(others) > 1:
        return f"the others right went from {before} to {after} of {len(others)}"
    change = _change(after > before)
    names = [paid.name(other) for other in others]
    if len(names) > 3:
        return f"the majority of the other {len(names)} went {change}"
    if len(names) == 3:
        return f"the majority of {names[0]}, {names[1]} and {names[2]} went {change}"
    return f"{' and '.join(names)} went {change}"


def _stood(paid: Account, turn: int, agent: int, name: str) -> Why:
    text = f"turn {turn + 1}, {paid.name(agent)}: {_verdict(paid, turn, agent)}"
    return Why(text, "from", turn, agent, name)


def _moved(paid: Account, turn: int, agent: int, name: str) -> Why:
    before, after = (_verdict(paid, turn + k, agent) for k in (0, 1))
    text = f"{paid.name(agent)}: turn {turn + 1} {before} → turn {turn + 2} {after}"
    return Why(text, "from", turn + 1, agent, name)


def unpaid_lines(paid: Account, turn: int, agent: int) -> list[Why]:
    """Ties, and why no incentive fired at all."""
    config = paid.config
    assert config is not None
    event, who, others = paid.events_TA[turn][agent], paid.name(agent), _others(paid, agent)
    if not others:
        return [Why(f"no incentives: {who} is the only agent", "note", turn, agent)]
    if _off(config):
        text = "no incentives: all four coefficients of [reward] are 0"
        return [Why(text, "note", turn, agent)]
    lines = []
    if event.revision_tied:
        text = (
            f"tie: {who} went {_change(event.right)}, but the others were tied in turn {turn} "
            f"({_count(paid, turn - 1, agent, True)} right), so self-revision pays nothing"
        )
        lines.append(Why(text, "note", turn, agent))
        lines += [_stood(paid, turn - 1, other, "tie") for other in others]
    if event.influence_tied:
        before, after = (_right(paid, turn + k, agent) for k in (0, 1))
        text = (
            f"tie: the others went {event.others} → {event.others_after} ({before} → {after} of "
            f"{len(others)} right), so influence pays nothing"
        )
        lines.append(Why(text, "note", turn, agent))
        lines += [_moved(paid, turn, other, "tie") for other in others]
    if not lines and not event.rows:
        lines.append(Why(_nothing_fired(paid, event), "note", turn, agent))
    return lines


def _nothing_fired(paid: Account, event: ShapingEvent) -> str:
    own = "the first turn revises nothing"
    if event.right_before is not None:
        own = f"{paid.name(event.agent)} stayed {_word(event.right)}"
    others = "after the last turn nobody can move"
    if event.others_after is not None:
        others = f"the others stayed {event.others}"
    return f"no incentive fired: {own}; {others}"


def _off(config: RewardConfig) -> bool:
    return not any(getattr(config, name) for name in INCENTIVES)


def _others(paid: Account, agent: int) -> Sequence[int]:
    return [other for other in range(len(paid.discussion.agents)) if other != agent]


def _right(paid: Account, turn: int, agent: int) -> int:
    """How many of the other agents were right in a turn."""
    return sum(paid.events_TA[turn][other].right for other in _others(paid, agent))


def _count(paid: Account, turn: int, agent: int, right: bool) -> str:
    others, found = len(_others(paid, agent)), _right(paid, turn, agent)
    return f"{found if right else others - found} of {others}"


def _change(to_right: bool) -> str:
    return "wrong → right" if to_right else "right → wrong"


def _mark(right: bool) -> str:
    return "✓" if right else "✗"


def _word(right: bool) -> str:
    return "right" if right else "wrong"


def _verdict(paid: Account, turn: int, agent: int) -> str:
    """A message's verdict, with its ground where that is not the gold answer."""
    message = paid.discussion.messages[turn][agent]
    right = paid.events_TA[turn][agent].right
    text = f"{_mark(right)} {_word(right)}"
    if message.answer is None:
        return f"{text}, no answer"
    if (paid.by_score or message.correct is None) and message.score is not None:
        than = "≥" if right else "<"
        return f"{text}, score {message.score:.3f} {than} {short(SCORE_THRESHOLD)}"
    return text
