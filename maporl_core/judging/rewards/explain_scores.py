"""Own and influence in words: which scores a verification reward is made of.

In: a ``Told`` message.  Out: Reasons.  Pure.  Neighbours: ``explain`` asks for them;
``verification`` gives the terms; docs/rewards.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

from maporl_core.judging.rewards.told import Told
from maporl_core.judging.rewards.verification import ScoreTerm, score_terms
from maporl_core.kit.figures import adds_up, digits_for, figure, short
from maporl_core.types import Place, Reason


def own_reason(told: Told) -> Reason:
    """The score of the message itself, and what it was divided by."""
    message = told.message
    terms = score_terms(told.held, message.turn, message.agent, told.options)
    value = told.pay.parts["own"]
    mine = [term for term in terms if (term.turn, term.agent) == (message.turn, message.agent)]
    if not mine:
        text = "own 0: with horizon last only the scores of the last turn count"
    else:
        text = f"own {_fraction(mine[0], value, digits_for([value]))}"
        text += _denominator(told, mine[0], terms)
    if message.answer is None:
        given = f" (the verifier gave {message.score:.3f})" if message.score else ""
        text += f"; the message has no answer, so its score counts as 0{given}"
    return Reason("own", value, (text,), (told.place(message),))


def _denominator(told: Told, term: ScoreTerm, terms: Sequence[ScoreTerm]) -> str:
    """Where the divisors of the own part come from."""
    options = told.options
    if options.horizon != "discounted":
        return f" (horizon {options.horizon}, share {options.share})"
    away = sorted({one.turn - told.message.turn for one in terms})  # turns that count
    if len(away) == 1:
        return " (the last turn: only this score counts)"
    weights = " + ".join(short(options.gamma**k) for k in away[:5])
    more = " + …" if len(away) > 5 else ""
    return f", where {short(term.denominator)} = {weights}{more} (γ = {short(options.gamma)})"


def influence_reason(told: Told) -> Reason:
    """All other scores that counted, one line each; or why none did."""
    options, message = told.options, told.message
    value = told.pay.parts["influence"]
    terms = [
        term
        for term in score_terms(told.held, message.turn, message.agent, options)
        if (term.turn, term.agent) != (message.turn, message.agent) and term.weight
    ]
    if not terms:
        text = f"influence 0: {_why_none(told)}"
        return Reason("influence", value, (text,), (told.place(message),))
    digits = digits_for([value, *(term.paid for term in terms)])
    equals = "=" if adds_up([term.paid for term in terms], value, digits) else "≈"
    which = "score" if len(terms) == 1 else f"{len(terms)} scores"
    when = {"discounted": "of later turns", "current": "of this turn", "last": "of the last turn"}
    head = f"influence {figure(value, digits)} {equals} the {which} {when[options.horizon]}"
    words, about = [f"{head}, weighed:"], [told.place(message)]
    for term in terms:
        line, place = _term(told, term, digits)
        words.append(line)
        about.append(place)
    return Reason("influence", value, tuple(words), tuple(about))


def _why_none(told: Told) -> str:
    if told.options.horizon != "discounted":
        return f"with horizon {told.options.horizon} no other score counts here"
    if told.message.turn + 1 >= told.held.turns:
        return "no later turn was held"
    return "no later score counts" if told.options.gamma else "γ is 0, so later turns count nothing"


def _term(told: Told, term: ScoreTerm, digits: int) -> tuple[str, Place]:
    text = f"turn {term.turn + 1}, {told.name(term.agent)}: "
    text += _fraction(term, term.paid, digits, first=False)
    message = told.held.at(term.turn, term.agent)
    assert message is not None  # it has a score
    if message.answer is None:
        text += " (no answer: counts as 0)"
    return text, told.place(message)


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
