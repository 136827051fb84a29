"""One training step under way: its problems, who watches it, how long it took, what is kept of it.

In: the run's parts and a method's plan.  Out: held discussions; then rows in the store and metrics.
Neighbours: ``train`` makes one per step and trains between ``hold`` and ``keep``, ``live_feed``
shows it while it is held, ``step_metrics`` counts, ``session`` warns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from maporl_core.assembly import Assembly
from maporl_core.judging.metrics import step_metrics
from maporl_core.judging.verifier.watching import verifier_metrics
from maporl_core.kit.seeds import stable_seed
from maporl_core.learning.methods.base import RolloutPlan
from maporl_core.learning.packing import Row
from maporl_core.learning.updater import UpdateResult
from maporl_core.rollout.discussion import Rules
from maporl_core.runs.live_feed import Watch
from maporl_core.runs.session import Session
from maporl_core.runs.step_metrics import memory_metrics, reward_metrics, speed_metrics
from maporl_core.store.records import MessageReward, Paid
from maporl_core.types import Discussion, Pay, Place, Problem, StepReport


class Step:
    def __init__(self, session: Session, parts: Assembly, plan: RolloutPlan, step: int) -> None:
        """``step`` counts from 0."""
        self.session, self.parts, self.plan, self.step = session, parts, plan, step
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def hold(self) -> list[Discussion]:
        """Discuss the next problems of the run; the first discussion is shown as it is held."""
        session, parts, plan = self.session, self.parts, self.plan
        parts.verifier.take_seconds()  # an evaluation's are not the step's
        first = self.step * plan.problems
        numbers = session.updater.ranks.share(range(first, first + plan.problems))
        each = plan.samples * plan.candidates * len(parts.speakers) * parts.turns
        session.progress.stage(f"step {self.step + 1}: rollout", len(numbers) * each)
        problems, seats = self._problems(numbers)
        self._watch = Watch(
            session.store.live,
            self.step + 1,
            problems[0],
            session.names,
            parts.turns,
            session.give_way,
        )
        listeners = replace(self._watch.listeners(), turn=session.heard)
        held = parts.hold(problems, seats, self._rules(), listeners)
        self.lap("rollout")
        return held

    def _problems(self, numbers: range) -> tuple[list[Problem], list[int]]:
        """The problems of these numbers in the data, those that fit."""
        config = self.parts.config
        asked = self.parts.task.problems(
            config.task.train_split, numbers.start, len(numbers), config.seed
        )
        return self.session.fitting(asked, numbers, self.step + 1)

    def _rules(self) -> Rules:
        config = self.parts.config
        seed = stable_seed(config.seed, "rollout")
        return self.parts.rules(
            seed, config.discussion.temperature, untrained=False, plan=self.plan
        )

    def lap(self, name: str) -> None:
        """What was done since the last lap was ``name``."""
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now

    def begin_update(self) -> None:
        """Messages are paid; what follows is the update.  Raises Abandoned when asked to stop."""
        self.lap("reward")
        self.session.give_way()
        self.session.progress.stage(f"step {self.step + 1}: update")

    def keep(
        self,
        held: Sequence[Discussion],
        paid: Mapping[Place, Pay],
        rows: Sequence[Row],
        result: UpdateResult,
    ) -> dict[str, float]:
        """Store the step as one transaction and tell whoever watches; returns its metrics."""
        self.lap("update")
        session, step = self.session, self.step + 1
        metrics = self._metrics(held, paid, rows, result)
        keys = session.store.write_step(step, _with_pay(held, paid, result), metrics)
        self._watch.end(held[0], paid, keys[0])
        self.lap("store")
        session.after_update(self.step, held, keys, result, self._laps)
        session.progress.step_done(
            StepReport(step, session.config.train.steps, metrics, self._last - self._started)
        )
        return metrics

    def _metrics(
        self,
        held: Sequence[Discussion],
        paid: Mapping[Place, Pay],
        rows: Sequence[Row],
        result: UpdateResult,
    ) -> dict[str, float]:
        parts, seconds = self.parts, self._last - self._started
        scoring = parts.verifier.take_seconds()
        return {
            **step_metrics(held, parts.turns, parts.same),
            **verifier_metrics(held),
            **reward_metrics(paid, parts.scheme.parts),
            **parts.scheme.counts(held),
            **result.metrics,
            **speed_metrics(held, rows, parts.config.update.epochs, self._laps),
            **memory_metrics(),
            "speed/verifier_seconds": scoring,
            "speed/verifier_share": scoring / seconds,
        }


def _with_pay(
    held: Sequence[Discussion], paid: Mapping[Place, Pay], result: UpdateResult
) -> list[Paid]:
    """Discussions with what each message was paid and what the update made of it."""
    rewards: list[dict[Place, MessageReward]] = [{} for _ in held]
    for place, pay in paid.items():
        rewards[place.discussion][place] = MessageReward(
            pay, result.advantage.get(place), result.kl.get(place)
        )
    return [Paid(discussion, each) for discussion, each in zip(held, rewards, strict=True)]
