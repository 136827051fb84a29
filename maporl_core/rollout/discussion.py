"""Problems in, Discussions out: every problem is discussed G times over engines.

In: problems, the speakers (one per agent: engine, codec, policy, role), the rules, and what judges
say of messages: ``grade`` (text → answer, correctness) and ``score`` (one turn's messages → v).
Out: Discussions with every message graded and scored.
Neighbours: ``table`` holds those of one batch, ``seats`` has the records, ``topology`` says who
speaks; ``train``, ``evaluate`` and ``own_question`` call ``hold``.

All agents of a turn speak at once and read only what was said before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from maporl_core.rollout.seats import (
    Judges,
    Listeners,
    Rules,
    Seat,
    Speaker,
)
from maporl_core.rollout.table import Table, opening_threads
from maporl_core.types import Discussion, Problem

__all__ = ["Judges", "Listeners", "Rules", "Seat", "Speaker", "hold", "opening_threads"]


def hold(
    problems: Sequence[Problem],
    numbers: Sequence[int],
    speakers: Sequence[Speaker],
    judges: Judges,
    rules: Rules,
    listeners: Listeners | None = None,
) -> list[Discussion]:
    """Let the speakers discuss each problem; its samples one after the other, in order.

    ``numbers`` are those of the problems in the data, for their seeds.
    Raises ModelError when a context window is shorter than an opening prompt.
    """
    seats = [
        Seat(problem, number, sample)
        for problem, number in zip(problems, numbers, strict=True)
        for sample in range(rules.samples)
    ]
    per_table = max(1, rules.max_batch // (len(speakers) * rules.candidates))
    discussions: list[Discussion] = []
    for start in range(0, len(seats), per_table):
        chunk = range(start, min(start + per_table, len(seats)))
        table = Table(seats, chunk, speakers, judges, rules, listeners or Listeners())
        try:
            while table.turn():
                pass
        finally:  # also when a listener gave the discussions up
            for engine in {id(s.engine): s.engine for s in speakers}.values():
                engine.forget()
        discussions += table.discussions()
    return discussions
