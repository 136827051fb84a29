"""One training process on one run folder: lock, store, signals, requests, checkpoints.

In: a run's folder.  Out: everything of a run that is not the algorithm, so that ``train`` reads as
one page.  Neighbours: ``store`` keeps rows and folders, ``control`` hears signals, ``run_state``
fills a checkpoint, ``evaluate`` measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import torch

from maporl_core.assembly import Assembly
from maporl_core.config import RunConfig
from maporl_core.control import StopFlag, stop_signals
from maporl_core.errors import Interrupted, MaporlError, StoreError, TrainingError
from maporl_core.evaluate import evaluate, gain_between, held_out
from maporl_core.progress import Progress
from maporl_core.run_state import load_run_state, save_policies, save_run_state
from maporl_core.seeds import stable_seed
from maporl_core.store.checkpoint import (
    atomic_folder,
    clean_leftovers,
    find_resumable,
    set_aside,
    write_checkpoint,
)
from maporl_core.store.lock import RunLock
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import Paid, Request
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, EvalSummary, PairedGain, Problem
from maporl_core.update import Updater, UpdateResult, mismatches

PAUSE_POLL = 0.2
"""Seconds between two looks at the requests while paused."""


class Abandoned(Exception):
    """The rollout under way was given up because the run was asked to stop."""


class Session:
    """What ``train`` needs of its run folder.  Made by ``open_session``."""

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        store: StoreWriter,
        lock: RunLock,
        stop: StopFlag,
        progress: Progress,
    ) -> None:
        self.config, self.run, self.store, self.progress = config, run, store, progress
        self._lock, self._stop = lock, stop
        self._bad_steps = 0
        self.names = tuple(agent.name for agent in config.agents)
        trained = config.train.train_agents
        self.trained_agents = tuple(
            a for a, name in enumerate(self.names) if trained is None or name in trained
        )

    def attach(self, assembly: Assembly, updater: Updater) -> None:
        self.assembly, self.updater = assembly, updater
        self.store.set_decode(assembly.decode)
        for reason, count in assembly.task.dropped().items():
            if count:
                self.say("warning", "data", f"{count} rows left out: {reason}")

    # Start ------------------------------------------------------------------------------------

    def begin(self) -> int:
        # Dropout draws from the global generator; a resumed run gets its state back instead.
        torch.manual_seed(stable_seed(self.config.seed, "torch"))
        self.say("info", "run", f"run {self.run.name} starts in {self.run.path}")
        return 0

    def restore(self) -> int:
        """Load the newest whole checkpoint; returns the number of finished steps."""
        clean_leftovers(self.run)
        found = find_resumable(self.run)
        for line in found.lines():
            self.say("warning" if line.startswith("passed over") else "info", "resume", line)
        set_aside(path for path, _ in found.passed_over)
        step = 0
        torch.manual_seed(stable_seed(self.config.seed, "torch"))
        if found.checkpoint is not None:
            step, self._bad_steps = load_run_state(
                found.checkpoint.path, self.assembly.policies, self.updater
            )
        self.store.truncate_after(step)
        return step

    # Between steps ------------------------------------------------------------------------------

    def due(self, every: int, step: int) -> bool:
        """Whether a thing done every so many steps is due after ``step`` (the end is apart)."""
        return every > 0 and step % every == 0 and step < self.config.train.steps

    def heard(self, messages: int) -> None:
        """A turn of the rollout was spoken: count it, and give way to a stop signal."""
        self.progress.advance(messages)
        self._lock.beat()
        self.give_way()

    def fitting(
        self, problems: Sequence[Problem], seats: Sequence[int]
    ) -> tuple[list[Problem], list[int]]:
        """Problems whose question fits the context windows; the others are counted in the log."""
        kept = self.assembly.fitting(problems, seats)
        if len(kept[0]) < len(problems):
            self.say(
                "warning",
                "context",
                f"{len(problems) - len(kept[0])} questions left out: too long for the context "
                "window (discussion.max_context)",
            )
        return kept

    def give_way(self) -> None:
        """Raise Abandoned when the run was asked to stop; nothing was changed yet."""
        if self._stop.raised:
            raise Abandoned

    def obey(self, step: int) -> None:
        """Answer requests before step ``step`` (0-based); waits while paused."""
        self._lock.beat()
        paused = False
        while True:
            for request in self.store.poll_requests():
                paused = self._answer(request, step, paused)
            if self._stop.raised:
                self.leave(step)
            if not paused:
                return
            self._lock.beat()
            time.sleep(PAUSE_POLL)

    def _answer(self, request: Request, step: int, paused: bool) -> bool:
        if request.command == "pause":
            if not paused:
                self.store.set_state("paused")
                self.say("info", "request", f"paused after step {step}")
            self.store.acknowledge(request.id, f"paused after step {step}")
            return True
        if request.command == "resume":
            if paused:
                self.store.set_state("running")
                self.say("info", "request", "going on")
            self.store.acknowledge(request.id, "going on" if paused else "was not paused")
            return False
        if request.command == "checkpoint":
            self.checkpoint(step)
            self.store.acknowledge(request.id, f"saved after step {step}")
            return paused
        if request.command == "stop":
            self._stop.signal = "a stop request"
            self.store.acknowledge(request.id, f"stopping after step {step}")
            return False
        self.store.acknowledge(request.id, f"unknown command {request.command!r}")
        return paused

    def leave(self, step: int) -> NoReturn:
        """Save and stop because somebody asked; raises Interrupted."""
        self.checkpoint(step)
        reason = f"stopped by {self._stop.signal} after step {step}"
        self.store.set_state("interrupted", reason)
        self.say("info", "run", reason)
        raise Interrupted(f"{reason}; go on with: maporl resume {self.run.name}")

    def after_update(
        self,
        step: int,
        discussions: Sequence[Discussion],
        result: UpdateResult,
        seconds: Mapping[str, float],
    ) -> None:
        """Warn about sampler mismatch, count steps that were not finite, note store time."""
        self.store.write_metrics(step + 1, {"time/store": seconds["store"]})
        for line in mismatches(result.metrics, self.config.ppo.mismatch_warn):
            self.say("warning", "mismatch", f"step {step + 1}: {line}")
        if not result.bad:
            self._bad_steps = 0
            return
        self._bad_steps += 1
        named = ", ".join(
            f"problem {discussions[d].problem.id} turn {t + 1} {self.names[a]}"
            for d, t, a in result.bad[:5]
        )
        more = f" and {len(result.bad) - 5} more" if len(result.bad) > 5 else ""
        self.say(
            "error",
            "not finite",
            f"step {step + 1}: loss or reward not finite, update not applied: {named}{more}",
        )
        if self._bad_steps >= self.config.ppo.max_bad_steps:
            raise TrainingError(
                f"{self._bad_steps} steps in a row were not finite; lower ppo.lr and go on from "
                f"the last checkpoint with: maporl resume {self.run.name}"
            )

    # Measuring and saving -----------------------------------------------------------------------

    def evaluated(self, label: str) -> bool:
        """Whether the run holds this evaluation of its own already (it was resumed)."""
        with StoreReader(self.run) as reader:
            return any(e.origin == "run" and e.summary.label == label for e in reader.evaluations())

    def _beat(self) -> None:
        self._lock.beat()
        self.give_way()

    def evaluate(self, label: str, policy_state: str, *, step: int) -> EvalSummary | None:
        """Evaluate on held-out questions and store it; None when ``eval.questions`` is 0."""
        if self.config.eval.questions == 0:
            return None
        asked = held_out(self.assembly, self.config.eval.questions)
        problems, _ = self.fitting(asked, range(len(asked)))
        summary, discussions = evaluate(
            self.assembly,
            problems,
            label=label,
            policy_state=policy_state,
            temperature=self.config.eval.temperature,
            seed=self.config.seed,
            progress=self.progress,
            heartbeat=self._beat,
        )
        self.store.write_evaluation(step, summary, [Paid(d) for d in discussions])
        if step > 0:
            self.store.write_metrics(
                step,
                {
                    f"eval/accuracy/turn_{t + 1}": interval.mean
                    for t, interval in enumerate(summary.accuracy_T)
                },
            )
        return summary

    def checkpoint(self, step: int) -> None:
        """Save everything a resumed run needs after ``step`` finished steps."""
        self.progress.stage(f"saving checkpoint {step}")
        with write_checkpoint(
            self.run, step, keep=self.config.checkpoint.keep, score=self._score(step)
        ) as folder:
            save_run_state(folder, self.assembly.policies, self.updater, step, self._bad_steps)
        self.say("info", "checkpoint", f"saved step {step}")

    def _score(self, step: int) -> float | None:
        """What "best" means: last-turn accuracy of the evaluation at this very step, if any."""
        with StoreReader(self.run) as reader:
            scores = [
                evaluation.summary.accuracy_T[-1].mean
                for evaluation in reader.evaluations()
                if evaluation.origin == "run"
                and evaluation.step == step
                and evaluation.summary.policy_state != "base"
            ]
        return scores[-1] if scores and math.isfinite(scores[-1]) else None

    def finish(self, step: int) -> PairedGain | None:
        """Evaluate after training, save the last checkpoint and ``final/``, compare."""
        self.evaluate("after", "trained", step=step)
        self.checkpoint(step)
        with atomic_folder(self.run.final, {"step": step}) as folder:
            save_policies(folder, self.assembly.policies)
        gain = None
        if self.config.eval.questions:
            with StoreReader(self.run) as reader:
                gain = gain_between(reader, "before", "after")
            if gain is not None:
                self.progress.gained(gain)
        self.store.set_state("finished")
        self.say("info", "run", f"finished {step} steps; adapters are in {self.run.final}")
        return gain

    def say(self, level: str, kind: str, text: str) -> None:
        """One line to the store, the log and whoever watches."""
        self.store.event(level, kind, text)  # type: ignore[arg-type]
        self.progress.log(level, text)


@contextmanager
def open_session(config: RunConfig, run: RunDir, progress: Progress) -> Iterator[Session]:
    """Lock the run, open its store, hear signals; on failure write down why.

    Raises StoreError when another process trains this run.
    """
    with run.lock() as lock, StoreWriter(run) as store, stop_signals() as stop:
        store.expire_requests("the trainer this was meant for had ended")
        store.set_meta(
            {"steps": str(config.train.steps), "task": config.task.name, "algorithm": "MAPPO"}
        )
        store.set_state("running")
        session = Session(config, run, store, lock, stop, progress)
        try:
            yield session
        except Interrupted:
            raise
        except KeyboardInterrupt:
            _note_failure(store, "interrupted", "interrupted before saving")
            raise
        except Exception as error:
            _note_failure(store, "failed", str(error) or type(error).__name__)
            raise


def _note_failure(store: StoreWriter, state: str, reason: str) -> None:
    """Say in the store why the run ended, unless the store itself is what failed."""
    try:
        store.set_state(state, reason)
        store.event("error", "run", reason)
    except (MaporlError, StoreError):
        return
