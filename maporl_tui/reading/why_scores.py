"""Own and influence in words: which scores a verification reward is made of.

In: an ``Account`` and a place in it.  Out: lines.  Pure.  Neighbours: ``why`` asks for them;
``judging.rewards.maporl.score_terms`` gives the terms; docs/rewards.md has the formulas.
"""

from __future__ import annotations

from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.maporl import ScoreTerm, score_terms
from maporl_tui.reading.why_account import Account, Why, adds_up, digits_for, figure, short


def own_lines(paid: Account, turn: int, agent: int) -> list[Why]:
    """The score of the message itself, and what it was divided by."""
    assert paid.config is not None
    terms = score_terms(paid.discussion, turn, agent, paid.config)
    value = paid.parts(turn, agent).own
    mine = [term for term in terms if (term.turn, term.agent) == (turn, agent)]
    digits = digits_for([value])
    if not mine:
        text = "own 0: with horizon last only the scores of the last turn count"
    else:
        text = f"own {_fraction(mine[0], value, digits)}"
        text += _denominator(paid.config, mine[0], paid.discussion.turns - turn)
    message = paid.discussion.messages[turn][agent]
    if message.answer is None:
        given = f" (the verifier gave {message.score:.3f})" if message.score else ""
        text += f"; the message has no answer, so its score counts as 0{given}"
    return [Why(text, "part", turn, agent, "own")]


def _denominator(config: RewardConfig, term: ScoreTerm, held: int) -> str:
    """Where the divisors of the own part come from."""
    if config.horizon != "discounted":
        return f" (horizon {config.horizon}, share {config.share})"
    if held == 1:
        return " (the last turn: only this score counts)"
    weights = " + ".join(short(config.gamma**k) for k in range(min(held, 5)))
    more = " + …" if held > 5 else ""
    return f", where {short(term.denominator)} = {weights}{more} (γ = {short(config.gamma)})"


def influence_lines(paid: Account, turn: int, agent: int) -> list[Why]:
    """All other scores that counted, one line each; or why none did."""
    config = paid.config
    assert config is not None
    value = paid.parts(turn, agent).influence
    terms = [
        term
        for term in score_terms(paid.discussion, turn, agent, config)
        if (term.turn, term.agent) != (turn, agent) and term.weight
    ]
    if not terms:
        reason = "no later turn was held"
        if config.horizon != "discounted":
            reason = f"with horizon {config.horizon} no other score counts here"
        elif turn + 1 < paid.discussion.turns:
            reason = "γ is 0, so later turns count nothing"
        return [Why(f"influence 0: {reason}", "part", turn, agent, "influence")]
    digits = digits_for([value, *(term.paid for term in terms)])
    equals = "=" if adds_up([term.paid for term in terms], value, digits) else "≈"
    which = "score" if len(terms) == 1 else f"{len(terms)} scores"
    when = {"discounted": "of later turns", "current": "of this turn", "last": "of the last turn"}
    head = (
        f"influence {figure(value, digits)} {equals} the {which} {when[config.horizon]}, weighed:"
    )
    lines = [Why(head, "part", turn, agent, "influence")]
    for term in terms:
        text = f"turn {term.turn + 1}, {paid.name(term.agent)}: "
        text += _fraction(term, term.paid, digits, first=False)
        if paid.discussion.messages[term.turn][term.agent].answer is None:
            text += " (no answer: counts as 0)"
        lines.append(Why(text, "from", term.turn, term.agent, "influence"))
    return lines


def _fraction(term: ScoreTerm, value: float, digits: int, first: bool = True) -> str:
    """ "0.144 = score 0.200 ÷ 1.39", or the other way round; "≈" where print does not give it."""
    right, printed = f"{term.score:.3f}", float(f"{term.score:.3f}")
    text = f"score {right}"
    if term.weight != 1:
        text, printed = f"{short(term.weight)} × {text}", printed * term.weight
    for divisor, what in ((term.members, " agents"), (term.denominator, "")):
        if divisor != 1:
            text += f" ÷ {short(divisor)}{what}"
            printed /= float(f"{divisor:.4g}")
    equals = "=" if f"{printed:.{digits}f}" == f"{value:.{digits}f}" else "≈"
    sides = (figure(value, digits), text) if first else (text, figure(value, digits))
    return f" {equals} ".join(sides)
