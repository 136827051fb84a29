"""Made-up runs and discussions for the store's tests; no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pay_samples import published

from maporl_core.store.paths import RunDir
from maporl_core.store.records import MessageReward, Paid
from maporl_core.types import (
    Discussion,
    EvalSummary,
    Interval,
    Message,
    Place,
    Problem,
)

NAMES = ("Ada", "Bo", "Cy")


def new_run(root: Path, name: str = "test") -> RunDir:
    return RunDir.create(root, name, "name = 'test'\n", {"task": "pocket", "steps": "10"})


def discussion(
    number: int = 0,
    correct_TA: Sequence[Sequence[bool | None]] = ((False, True), (True, True)),
    text: str = "",
    gold: str | None = "7",
) -> Discussion:
    """Prompts of later turns continue the earlier ones, as the method demands."""
    rows: list[tuple[Message, ...]] = []
    for turn, correct_A in enumerate(correct_TA):
        row = []
        for agent, correct in enumerate(correct_A):
            prompt = (5, 6, 100 * number + agent)
            if turn:
                before = rows[-1][agent]
                prompt = (*before.prompt_ids, *before.ids, 70_000 + turn, 8)
            row.append(
                Message(
                    turn=turn,
                    agent=agent,
                    policy=None if turn == 0 else f"p{agent}",
                    prompt_ids=prompt,
                    ids=(10 + agent, 11 + turn, 2),
                    logprobs=(-0.1, -1.0 / 3.0, -2.5),
                    text=f"turn {turn} agent {agent} says {text or number}",
                    finish="stop",
                    answer="7" if correct else "8",
                    correct=correct,
                    score=0.25 + 0.5 * bool(correct),
                )
            )
        rows.append(tuple(row))
    problem = Problem(f"q{number}", f"What is number {number}?", gold, "pocket", "train", {"n": 1})
    return Discussion(problem, NAMES[: len(correct_TA[0])], tuple(rows))


def rewards(of: Discussion, number: int = 0) -> dict[Place, MessageReward]:
    """Pay for every message, whose place numbers the discussion as ``number``."""
    return {
        Place(number, m.turn, m.agent, m.branch): MessageReward(
            published(own=0.1 * (m.turn + 1), influence=0.3, persuaded=-1.0, format=-0.1),
            advantage=m.agent - 0.5,
            kl=0.001,
        )
        for m in of.everything()
    }


def paid(number: int = 0, **options: object) -> Paid:
    held = discussion(number, **options)  # type: ignore[arg-type]
    return Paid(held, rewards(held))


def summary(label: str = "before", state: str = "base", questions: int = 2) -> EvalSummary:
    half = Interval(0.5, 0.25, 0.75)
    return EvalSummary(
        label=label,
        policy_state=state,
        task="pocket",
        split="test",
        questions=questions,
        agents=NAMES[:2],
        temperature=1.0,
        seed=3,
        accuracy_T=(half, half),
        accuracy_TA=((0.5, 0.5), (0.5, 1.0)),
        majority_T=(half, half),
        oracle_T=(0.75, 1.0),
        agreement_T=(0.5, 0.5),
        transitions={"wrong→right | others right": 3},
        unparsable=0.0,
        unfinished=0.125,
        seconds=1.5,
    )


@contextmanager
def ordinary_user(*folders: Path) -> Iterator[None]:
    """The block runs without root's right to write anywhere; ``folders`` are owned by that user."""
    if os.geteuid() != 0:
        yield
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
