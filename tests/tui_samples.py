"""Runs for the app's tests, made by the store's own writer, and an app looking at one; no torch.

The runs are made up but whole: real reward arithmetic, the trainer's metric names, evaluations
before and after on the same questions.  ``run_app`` drives the app without a terminal;
``screen_text`` is what a person would see.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from maporl_core.config.load import dump_toml, load_config
from maporl_core.config.schema import RewardConfig
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.store.paths import RunDir
from maporl_core.store.records import MessageReward, Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import (
    REWARD_PARTS,
    Discussion,
    EvalSummary,
    Interval,
    Message,
    Place,
    Problem,
)
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options

AGENTS = ("Ada", "Bo", "Cy")
SHAPING = ("reward.persuasive=2.0", "reward.critical=0.5")


def held(
    number: int,
    correct_TA: Sequence[Sequence[bool]],
    agents: Sequence[str] = AGENTS,
    text: str | None = None,
    split: str = "train",
) -> Discussion:
    """One discussion with the given verdicts; ``text`` replaces what every message says."""
    rng = random.Random(number)
    gold = str(10 + number % 80)
    rows = []
    for turn, correct_A in enumerate(correct_TA):
        row = []
        for agent, correct in enumerate(correct_A):
            answer = gold if correct else str(int(gold) + 2)
            row.append(
                Message(
                    turn=turn,
                    agent=agent,
                    policy=None if turn == 0 else agents[agent],
                    prompt_ids=(1, 2, 3),
                    ids=(4, 5, 6),
                    logprobs=(-0.1, -0.2, -0.3),
                    text=f"I get {answer}: 9 + {int(answer) - 9} = {answer}"
                    if text is None
                    else text,
                    finish="stop",
                    answer=answer,
                    correct=correct,
                    score=round(min(1.0, max(0.0, rng.gauss(0.7 if correct else 0.3, 0.15))), 3),
                )
            )
        rows.append(tuple(row))
    problem = Problem(
        f"q{number}", f"Mia has {number} pens and gets 7 or 9. How many?", gold, "pocket", split
    )
    return Discussion(problem, tuple(agents), tuple(rows))


def paid(discussion: Discussion, config: RewardConfig) -> Paid:
    rewards = {
        Place(0, t, a): MessageReward(parts, advantage=0.1 * t, kl=0.01)
        for t, row in enumerate(reward_discussion(discussion, config))
        for a, parts in enumerate(row)
    }
    return Paid(discussion, rewards)


def verdicts(rng: random.Random, turns: int, agents: int, skill: float) -> list[list[bool]]:
    return [
        [rng.random() < 0.5 + skill * turn / max(1, turns - 1) for _ in range(agents)]
        for turn in range(turns)
    ]


def metrics_of(step: int, discussions: Sequence[Paid], agents: Sequence[str]) -> dict[str, float]:
    """The names that the trainer writes, with values that follow from the discussions."""
    rows = [paid.discussion.messages for paid in discussions]
    turns = len(rows[0])
    metrics: dict[str, float] = {}
    for t in range(turns):
        right = [[bool(m.correct) for m in messages[t]] for messages in rows]
        metrics[f"accuracy/turn_{t + 1}"] = sum(map(sum, right)) / (len(right) * len(agents))
        metrics[f"majority/turn_{t + 1}"] = sum(2 * sum(r) > len(r) for r in right) / len(right)
        metrics[f"agreement/turn_{t + 1}"] = sum(len(set(r)) == 1 for r in right) / len(right)
        for a, name in enumerate(agents):
            metrics[f"accuracy/{name}/turn_{t + 1}"] = sum(r[a] for r in right) / len(right)
    parts = [reward.pay for p in discussions for reward in (p.rewards or {}).values()]
    for name in (*REWARD_PARTS, "total"):
        metrics[f"reward/{name}"] = sum(getattr(part, name) for part in parts) / len(parts)
    for scope in ("ppo", *(f"policy/{name}" for name in agents)):
        metrics |= {
            f"{scope}/kl": 0.01 * step,
            f"{scope}/policy_loss": -0.001 * step,
            f"{scope}/value_loss": 0.05 / step,
            f"{scope}/entropy": 1.0 / step,
            f"{scope}/grad_norm": 0.1,
            f"{scope}/clip_fraction": 0.01,
            f"{scope}/explained_variance": 0.5,
        }
    metrics |= {
        "messages/length": 12.0,
        "messages/unfinished": 0.0,
        "messages/unparsable": 0.0,
        "memory/peak_resident": 8e8,
        "lr": 1e-3,
        "kl_coef": 0.01,
        "mismatch/ratio_mean": 1.0,
        "speed/rollout_tokens_per_second": 14_000.0,
        "speed/update_tokens_per_second": 31_000.0,
        "time/rollout": 0.5,
        "time/update": 1.7,
        "time/reward": 0.01,
        "time/store": 0.04,
        "verifier/score": 0.5,
    }
    return metrics


def evaluation_of(label: str, state: str, discussions: Sequence[Discussion]) -> EvalSummary:
    turns, agents = discussions[0].turns, discussions[0].agents
    count = len(discussions)
    table = [
        [
            sum(bool(d.messages[t][a].correct) for d in discussions) / count
            for a in range(len(agents))
        ]
        for t in range(turns)
    ]
    means = [sum(row) / len(row) for row in table]
    intervals = tuple(Interval(m, max(0.0, m - 0.05), min(1.0, m + 0.05)) for m in means)
    return EvalSummary(
        label=label,
        policy_state=state,
        task="pocket",
        split="test",
        questions=count,
        agents=agents,
        temperature=1.0,
        seed=0,
        accuracy_T=intervals,
        accuracy_TA=tuple(tuple(row) for row in table),
        majority_T=intervals,
        oracle_T=tuple(1.0 for _ in means),
        agreement_T=tuple(0.5 for _ in means),
        transitions={"wrong→right | others right": 3},
        unparsable=0.0,
        unfinished=0.0,
        seconds=1.0,
    )


def demo_run(
    root: Path,
    name: str = "demo",
    steps: int = 6,
    problems: int = 4,
    turns: int = 3,
    agents: Sequence[str] = AGENTS,
    state: str = "finished",
    text: str | None = None,
    questions: int = 20,
) -> RunDir:
    """A run of ``steps`` steps in ``state``, evaluated before and after on ``questions``.

    A state of "running" is that of a run whose trainer died unless somebody holds ``run.lock()``.
    """
    rng = random.Random(name)
    config = load_config("pocket", [f"name={name}", f"train.steps={steps}", *SHAPING])
    facts = {"name": name, "task": "pocket", "algorithm": "MAPPO", "steps": str(steps)}
    run = RunDir.create(root, name, dump_toml(config), facts)
    with StoreWriter(run) as writer:
        writer.event("info", "run", f"run {name} starts")
        _evaluate(writer, 0, "before", "base", questions, turns, agents, 0.0)
        for step in range(1, steps + 1):
            skill = 0.4 * step / steps
            written = [
                paid(
                    held(100 * step + i, verdicts(rng, turns, len(agents), skill), agents, text),
                    config.reward,
                )
                for i in range(problems)
            ]
            writer.write_step(step, written, metrics_of(step, written, agents))
        if state == "finished":
            _evaluate(writer, steps, "after", "trained", questions, turns, agents, 0.35)
            writer.event("info", "run", f"finished {steps} steps")
        writer.set_state(state, "out of luck" if state == "failed" else "")
    return run


def _evaluate(
    writer: StoreWriter,
    step: int,
    label: str,
    state: str,
    questions: int,
    turns: int,
    agents: Sequence[str],
    skill: float,
) -> None:
    if not questions:
        return
    rng = random.Random(7)
    found = [
        replace(held(i, verdicts(rng, turns, len(agents), skill), agents, split="test"))
        for i in range(questions)
    ]
    summary = evaluation_of(label, state, found)
    writer.write_evaluation(step, summary, [Paid(d) for d in found])


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config folder of the test's own."""
    folder = tmp_path / "config"
    monkeypatch.setenv("MAPORL_CONFIG_DIR", str(folder))
    return folder


@asynccontextmanager
async def run_app(
    options: Options, size: tuple[int, int] = (120, 40), settled: bool = True
) -> AsyncIterator[tuple[MaporlApp, Pilot[None]]]:
    """The app without a terminal; when ``settled`` it has shown its first screen with data."""
    app = MaporlApp(options)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        if settled and options.run is not None:
            await until(pilot, lambda: app.view is not None and app.view.generation >= 0)
            await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: object, seconds: float = 10.0) -> None:
    """Let the app work until ``condition()`` holds; fails after ``seconds``."""
    assert callable(condition)
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await pilot.pause(0.05)
    raise AssertionError("waited in vain; the screen was:\n" + screen_text(pilot.app))


def screen_text(app: object) -> str:
    """The screen as lines of text, dialogs included."""
    strips = app.screen._compositor.render_strips()  # type: ignore[attr-defined]
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def shown(app: object, pattern: str) -> bool:
    return re.search(pattern, screen_text(app)) is not None
