"""Why one message was paid what it was paid, in words and numbers.

In: an ``Account`` of a discussion and a place in it.  Out: lines, each with the message it speaks
of.  Pure: no screen, no file.  Neighbours: ``why_account`` makes the account, ``why_scores`` and
``why_incentives`` word the larger parts, the Rewards screen shows the lines.
"""

from __future__ import annotations

from maporl_core.types import REWARD_PARTS
from maporl_tui.reading.why_account import (
    INCENTIVES,
    Account,
    Why,
    account,
    adds_up,
    digits_for,
    figure,
)
from maporl_tui.reading.why_incentives import (
    incentive_lines,
    incentive_reason,
    judged_by_score,
    judged_line,
    unpaid_lines,
)
from maporl_tui.reading.why_scores import influence_lines, own_lines

__all__ = ["Account", "Why", "account", "arithmetic", "explain_message"]


def explain_message(paid: Account, turn: int, agent: int) -> tuple[Why, ...]:
    """Every line about one message, the sum first."""
    lines = [Why(arithmetic(paid, turn, agent), "sum", turn, agent)]
    problem = _problem(paid)
    if problem is not None:
        lines.append(Why(problem, "problem", turn, agent))
    if judged_by_score(paid):
        lines.append(judged_line(paid, turn, agent))
    for name in REWARD_PARTS:
        if paid.explained(name):
            lines += _part(paid, turn, agent, name)
        else:
            lines += _as_stored(paid, turn, agent, name)
    lines += _closing(paid, turn, agent)
    return tuple(lines)


def arithmetic(paid: Account, turn: int, agent: int) -> str:
    """The stored parts of one message as a sum, on one line.

    "≈" where the printed numbers do not add up to the last digit.
    """
    parts = paid.parts(turn, agent)
    values = {name: value for name in REWARD_PARTS if (value := getattr(parts, name)) != 0}
    if not values:
        return "nothing was paid: every part is 0"
    digits = digits_for(list(values.values()))
    line = ""
    for name, value in values.items():
        reason = _reason(paid, turn, agent, name) if paid.explained(name) else ""
        sign = "− " if value < 0 else "+ " if line else ""
        space = " " if line else ""
        line += f"{space}{sign}{name} {abs(value):.{digits}f}{f' ({reason})' if reason else ''}"
    equals = "=" if adds_up(list(values.values()), parts.total, digits) else "≈"
    return f"{line} {equals} {figure(parts.total, digits)}"


def _problem(paid: Account) -> str | None:
    """Why the stored numbers, or some of them, stand without reasons; None when none do."""
    if paid.problem is not None:
        return f"{paid.problem}; the stored numbers stand without their reasons"
    if not paid.disputed:
        return None
    names = ", ".join(name for name in REWARD_PARTS if name in paid.disputed)
    return (
        f"not explained: {names}. What is stored is not what the run's [reward] gives now (config "
        "edited, or paid by another version); the stored numbers stand"
    )


def _as_stored(paid: Account, turn: int, agent: int, name: str) -> list[Why]:
    """A part without its reason, beside what the rules would give; nothing where both are 0."""
    value = getattr(paid.parts(turn, agent), name)
    rule = getattr(paid.rules_TA[turn][agent], name) if paid.rules_TA else 0.0
    if not value and not rule:
        return []
    digits = digits_for([value, rule])
    text = f"{name} {figure(value, digits)} as stored"
    if paid.rules_TA:
        same = figure(rule, digits) == figure(value, digits)
        text += f"; the rules now give {'the same' if same else figure(rule, digits)}"
    return [Why(text, "part", turn, agent, name)]


def _part(paid: Account, turn: int, agent: int, name: str) -> list[Why]:
    """What is to be said of one part that the rules explain; nothing where it says nothing."""
    if name == "own":
        return own_lines(paid, turn, agent)
    if name == "influence":
        return influence_lines(paid, turn, agent)
    if name in INCENTIVES:
        return incentive_lines(paid, turn, agent, name)
    return _penalty(paid, turn, agent, name)


def _reason(paid: Account, turn: int, agent: int, name: str) -> str:
    """A few words for the sum: who moved how, or what was missing; empty for scores."""
    if name in INCENTIVES:
        return incentive_reason(paid, turn, agent, name)
    return {"format": "no answer", "unfinished": "cut at the length limit"}.get(name, "")


def _penalty(paid: Account, turn: int, agent: int, name: str) -> list[Why]:
    message = paid.discussion.messages[turn][agent]
    if name == "format":
        due, story = message.answer is None, "no answer could be read from this message"
    else:
        due = message.finish == "length"
        story = "stopped by the length limit, before its end token"
    if not due:
        return []
    value = getattr(paid.parts(turn, agent), name)
    if value:
        text = f"{name} {figure(value, digits_for([value]))} = reward.{name}: {story}"
    else:
        text = f"{name} 0: {story}; reward.{name} is 0, so it costs nothing"
    return [Why(text, "part", turn, agent, name)]


def _trained(paid: Account, turn: int, agent: int) -> str:
    """What training made of the reward, where it is stored."""
    reward = paid.rewards_TA[turn][agent]
    if reward.advantage is None and reward.kl is None:
        if paid.discussion.messages[turn][agent].policy is None:
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


def _closing(paid: Account, turn: int, agent: int) -> list[Why]:
    """What bears on the whole message: ties, an early end, training."""
    lines = []
    if paid.config is not None and not paid.disputed.intersection(INCENTIVES):
        lines += unpaid_lines(paid, turn, agent)
    if paid.discussion.stopped_early:
        last = paid.discussion.turns
        text = f"all agents agreed in turn {last}: the discussion ended there, as its last turn"
        lines.append(Why(text, "note", last - 1, agent))
    lines.append(Why(_trained(paid, turn, agent), "note", turn, agent))
    return lines
