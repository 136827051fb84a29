"""Co-training, as one page: discuss, score, pay, update, store; evaluate, checkpoint, obey.

In: a RunConfig and the run's folder.  Out: a trained run: every discussion, reward and metric in
the store, checkpoints, and ``final/`` with one PEFT adapter per policy.
Neighbours: ``assembly`` brings the parts, ``rollout`` → ``rewards`` → ``packing`` → ``updater`` are
the stages, ``step`` keeps what a step did, ``session`` has the folder, lock and signals.  Which
method, topology, reward, verifier, engine and task these are is the config's business, not this
page's.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.schema import RunConfig
from maporl_core.judging.verifier.keeper import VerifierKeeper
from maporl_core.kit.offline import offline
from maporl_core.kit.progress import KeptStage, Progress
from maporl_core.kit.signals import StopFlag
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater
from maporl_core.runs.session import Abandoned, Session, open_session
from maporl_core.runs.step import Step
from maporl_core.store.paths import RunDir
from maporl_core.types import PairedGain


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
        parts = assemble(config, progress, keeper.folder(), True)
        after_loading.enter_context(offline())
        after_loading.callback(parts.close)
        trainer = Updater(parts.policies, config, parts.method)
        session.attach(parts, trainer)
        done = session.restore() if resume else session.begin()
        keeper.begin(parts.verifier.inside, parts.engines, done)
        try:
            if done == 0 and not session.evaluated("before", step=0):
                session.evaluate("before", "base", step=0)
            session.milestone(done)
            for step in range(done, config.train.steps):
                session.obey(step)
                metrics = one_step(session, parts, trainer, step)
                done = step + 1
                keeper.after_step(done, metrics)
                session.milestone(done)
            session.obey(done)
            gain = session.finish(done)
        except Abandoned:  # a rollout or an evaluation was given up; ``done`` steps are whole
            session.leave(done)
    return TrainResult(done, gain)


def one_step(session: Session, parts: Assembly, trainer: Updater, step: int) -> dict[str, float]:
    """One rollout round and its update; stored as one transaction.  ``step`` counts from 0.

    Returns the step's metrics.
    """
    plan = parts.method.plan(step)
    under_way = Step(session, parts, plan, step)
    held = under_way.hold()
    paid = parts.scheme.pay(held)
    rows = pack(held, paid, plan)
    under_way.begin_update()
    result = trainer.update(rows, step)
    parts.sync()
    return under_way.keep(held, paid, rows, result)
