"""Debates made of what the store holds: discussions of the past, and the one being written.

In: a ``StoredDiscussion`` or a ``LiveDiscussion``.  Out: a ``Debate``, the same for both, so that a
debate that is being written is drawn like one of the past.  Pure.  Neighbours: ``debate_records``
says what a debate is; the Debate and Compare screens ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from maporl_core.store.reader import (
    Evaluation,
    LiveDiscussion,
    LiveMessage,
    MessageReward,
    StoredDiscussion,
)
from maporl_core.types import Discussion, Message
from maporl_tui.reading.debate_records import Column, Debate, Said, change_of

_PHASE = next(one.default for one in fields(Message) if one.name == "phase")
"""What a message is asked for where the topology does not say."""


def columns_of(agents: int, spoken: Iterable[Column]) -> tuple[Column, ...]:
    """A column for every agent, and for each further candidate of one."""
    return tuple(sorted({*((agent, 0) for agent in range(agents)), *spoken}))


def stored_debate(
    stored: StoredDiscussion, evaluations: Sequence[Evaluation] = (), samples: int = 1
) -> Debate:
    """A stored discussion; ``evaluations`` of the run give the label of a held-out one.

    ``samples``: how many discussions of one problem the run holds in a step.
    """
    row, held = stored.row, stored.discussion
    every = held.everything()
    columns = columns_of(len(held.agents), ((m.agent, m.branch) for m in every))
    phases = phases_of([message.phase for message in every])
    said = {
        (m.turn, m.agent, m.branch): replace(
            said_of(held.agents[m.agent], m, stored.reward(m), _before(held, m)),
            number=_number(held, m),
            phase=m.phase if phases else "",
        )
        for m in every
    }
    return Debate(
        key=row.id,
        step=row.step,
        split=row.split,
        problem_id=row.problem_id,
        question=held.problem.question,
        gold=held.problem.gold,
        agents=held.agents,
        columns=columns,
        rows_TC=tuple(
            tuple(said.get((turn, *column)) for column in columns) for turn in range(held.turns)
        ),
        label=evaluation_label(row.evaluation, evaluations),
        stopped_early=row.stopped_early,
        sample=held.sample + 1 if held.sample or (samples > 1 and row.split == "train") else None,
    )


def phases_of(phases: Sequence[str]) -> bool:
    """Whether phases are worth a word: they differ, or are not what every message is asked for."""
    return bool({*phases} - {_PHASE})


def _number(held: Discussion, message: Message) -> str:
    several = sum(one.agent == message.agent for one in held.messages[message.turn]) > 1
    return f"/{message.branch + 1}{' ★' if message.chosen else ''}" if several else ""


def said_of(
    name: str, message: Message, reward: MessageReward | None, before: Message | None
) -> Said:
    """A finished message of agent ``name``; ``before`` is what it had said before."""
    return Said(
        name=name,
        turn=message.turn,
        agent=message.agent,
        text=message.text,
        answer=message.answer,
        correct=message.correct,
        score=message.score,
        change=None if before is None else change_of(before, message),
        reward=None if reward is None else reward.pay.total,
        finish=message.finish,
        dropped=message.dropped_context,
        branch=message.branch,
        chosen=message.chosen,
    )


def live_debate(live: LiveDiscussion) -> Debate:
    """The watched discussion as far as it is written; what may still be said is waiting."""
    known = {(m.turn, m.agent, m.branch): m for m in live.messages}
    last = max((message.turn for message in live.messages), default=0)
    turns = max(live.turns, last + 1)
    columns = columns_of(len(live.agents), ((m.agent, m.branch) for m in live.messages))
    phases = phases_of([message.phase for message in live.messages])
    rows = tuple(
        tuple(_live_said(live, (turn, *column), known, turn < last, phases) for column in columns)
        for turn in range(turns)
    )
    return Debate(
        key=live.discussion,
        step=live.step,
        split=live.split,
        problem_id=live.problem_id,
        question=live.question,
        gold=live.gold,
        agents=live.agents,
        columns=columns,
        rows_TC=rows,
        version=live.version,
    )


def _live_said(
    live: LiveDiscussion,
    spot: tuple[int, int, int],
    known: Mapping[tuple[int, int, int], LiveMessage],
    is_past: bool,
    phases: bool,
) -> Said | None:
    turn, agent, branch = spot
    name, message = live.agents[agent], known.get(spot)
    earlier = (known.get((t, agent, 0)) for t in range(turn - 1, -1, -1))
    before = next((one for one in earlier if one is not None), None)
    if message is None:  # in turns that are over, and of candidates, nothing more is to come
        return None if is_past or branch else Said(name, turn, agent, status="waiting")
    judged = message.status in ("done", "scored")
    several = any((turn, agent, other) in known for other in (1, branch) if other)
    return Said(
        name=name,
        turn=turn,
        agent=agent,
        text=message.text,
        answer=message.answer,
        correct=message.correct,
        score=message.score,
        change=change_of(before, message) if judged and before is not None else None,
        reward=message.reward,
        status=message.status,
        branch=branch,
        number=f"/{branch + 1}" if several else "",
        phase=message.phase if phases else "",
    )


def evaluation_label(key: int | None, evaluations: Sequence[Evaluation]) -> str | None:
    """ "after (trained)"; None for a training discussion, its number where it is not known."""
    if key is None:
        return None
    for evaluation in evaluations:
        if evaluation.id == key:
            return f"{evaluation.summary.label} ({evaluation.summary.policy_state})"
    return f"evaluation {key}"


def _before(held: Discussion, message: Message) -> Message | None:
    """What the same agent had said last in an earlier turn."""
    said = held.by(message.agent)
    return next((one for one in reversed(said) if one.turn < message.turn), None)
