"""Co-training, as one page: discuss, score, pay, update, store; evaluate, checkpoint, obey.

In: a RunConfig and the run's folder.  Out: a trained run: every discussion, reward and metric in
the store, checkpoints, and ``final/`` with one PEFT adapter per policy.
Neighbours: ``assembly`` brings the parts, ``discussion`` → ``rewards`` → ``packing`` → ``update``
are the stages, ``run_state`` what a checkpoint holds, ``session`` the folder, lock and signals.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.schema import RunConfig
from maporl_core.judging.metrics import step_metrics
from maporl_core.judging.verifier.keeper import VerifierKeeper
from maporl_core.judging.verifier.watching import verifier_metrics
from maporl_core.kit.offline import offline
from maporl_core.kit.progress import KeptStage, Progress
from maporl_core.kit.seeds import stable_seed
from maporl_core.kit.signals import StopFlag
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater, UpdateResult
from maporl_core.runs.live_feed import Watch
from maporl_core.runs.session import Abandoned, Session, open_session
from maporl_core.runs.step_metrics import memory_metrics, reward_metrics, speed_metrics
from maporl_core.store.paths import RunDir
from maporl_core.store.records import MessageReward, Paid
from maporl_core.types import Discussion, PairedGain, Pay, Place, StepReport


@dataclass(frozen=True, slots=True)
class TrainResult:
    """How a run ended: steps done, and before against after where both were evaluated."""

    steps: int
    gain: PairedGain | None


def train(
    config: RunConfig,
    run: RunDir,
    progress: Progress,
    *,
    resume: bool = False,
    stop: StopFlag | None = None,
) -> TrainResult:
    """Co-train from the start, or from the newest whole checkpoint when ``resume`` is set.

    ``stop``: the flag of signal handlers that are installed already; without it train installs
    its own.
    Raises Interrupted after saving when asked to stop, TrainingError when losses are not finite,
    and the errors of data, models and store as they come; what was stored before stays whole.
    """
    with open_session(config, run, progress, stop) as session, ExitStack() as after_loading:
        progress = session.progress = KeptStage(progress, session.store.set_meta)
        keeper = VerifierKeeper(config, run, session.store, session.say, progress)
        assembly = assemble(config, progress, keeper.folder())
        after_loading.enter_context(offline())
        updater = Updater(assembly.policies, config, assembly.method)
        session.attach(assembly, updater)
        done = session.restore() if resume else session.begin()
        keeper.begin(assembly, done)
        try:
            if done == 0 and not session.evaluated("before", step=0):
                session.evaluate("before", "base", step=0)
            session.milestone(done)
            for step in range(done, config.train.steps):
                session.obey(step)
                metrics = one_step(session, assembly, updater, step)
                done = step + 1
                keeper.after_step(done, metrics)
                session.milestone(done)
            session.obey(done)
            gain = session.finish(done)
        except Abandoned:  # a rollout or an evaluation was given up; ``done`` steps are whole
            session.leave(done)
    return TrainResult(done, gain)


def one_step(session: Session, assembly: Assembly, updater: Updater, step: int) -> dict[str, float]:
    """One rollout round and its update; stored as one transaction.  ``step`` counts from 0.

    Returns the step's metrics.
    """
    config, clock = assembly.config, _Clock()
    assembly.verifier.take_seconds()  # an evaluation's are not the step's
    plan, progress = assembly.method.plan(step), session.progress
    agents, turns = len(assembly.speakers), assembly.turns
    places = updater.ranks.share(range(step * plan.problems, (step + 1) * plan.problems))

    each = plan.samples * plan.candidates * agents * turns
    progress.stage(f"step {step + 1}: rollout", len(places) * each)
    problems = assembly.task.problems(
        config.task.train_split, places.start, len(places), config.seed
    )
    problems, seats = session.fitting(problems, places, step + 1)
    seed = stable_seed(config.seed, "rollout")
    rules = assembly.rules(seed, config.discussion.temperature, untrained=False, plan=plan)
    watch = Watch(session.store.live, step + 1, problems[0], session.names, turns, session.give_way)
    listeners = replace(watch.listeners(), turn=session.heard)
    discussions = assembly.hold(problems, seats, rules, listeners)
    clock.lap("rollout")

    paid = assembly.scheme.pay(discussions)
    rows = pack(discussions, paid, plan)
    clock.lap("reward")

    session.give_way()
    progress.stage(f"step {step + 1}: update")
    result = updater.update(rows, step)
    clock.lap("update")

    metrics = {
        **step_metrics(discussions, turns, assembly.same),
        **verifier_metrics(discussions),
        **reward_metrics(paid, assembly.scheme.parts),
        **assembly.scheme.counts(discussions),
        **result.metrics,
        **speed_metrics(discussions, rows, config.update.epochs, clock.laps),
        **memory_metrics(),
    }
    scoring = assembly.verifier.take_seconds()
    metrics |= {"speed/verifier_seconds": scoring, "speed/verifier_share": scoring / clock.total}
    keys = session.store.write_step(step + 1, _paid(discussions, paid, result), metrics)
    watch.end(discussions[0], paid, keys[0])
    clock.lap("store")
    session.after_update(step, discussions, keys, result, clock.laps)
    progress.step_done(StepReport(step + 1, config.train.steps, metrics, clock.total))
    return metrics


def _paid(
    held: Sequence[Discussion], paid: Mapping[Place, Pay], result: UpdateResult
) -> list[Paid]:
    """Discussions with what each message was paid and what the update made of it."""
    return [
        Paid(
            discussion,
            {
                place: MessageReward(pay, result.advantage.get(place), result.kl.get(place))
                for place, pay in paid.items()
                if place.discussion == d
            },
        )
        for d, discussion in enumerate(held)
    ]


class _Clock:
    """Seconds of each phase of a step."""

    def __init__(self) -> None:
        self.started = self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now

    @property
    def total(self) -> float:
        return self._last - self.started
