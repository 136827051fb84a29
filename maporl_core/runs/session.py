"""One training process on one run folder: lock, store, signals, requests, checkpoints.

In: a run's folder.  Out: everything of a run that is not the algorithm, so that ``train`` reads as
one page.  Neighbours: ``store`` keeps rows and folders, ``signals`` hears signals, ``checkpoints``
writes checkpoints and goes on from them, ``orders`` answers requests, ``evaluate`` measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import NoReturn

from maporl_core.assembly import Assembly
from maporl_core.config.provenance import meta
from maporl_core.config.schema import RunConfig
from maporl_core.errors import Interrupted, MaporlError, StoreError, TrainingError
from maporl_core.kit.progress import Progress
from maporl_core.kit.signals import StopFlag, stop_signals
from maporl_core.learning.update_metrics import mismatches
from maporl_core.learning.updater import Updater, UpdateResult
from maporl_core.runs.checkpoints import restore, save
from maporl_core.runs.evaluate import evaluate, gain_between, held_out
from maporl_core.runs.orders import Orders
from maporl_core.runs.run_state import save_policies, seed_random_states
from maporl_core.runs.same_data import note_data
from maporl_core.runs.step_metrics import not_finite, out_of_context
from maporl_core.store.checkpoint import atomic_folder
from maporl_core.store.lock import RunLock
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import Paid
from maporl_core.store.writer import Level, Line, StoreWriter
from maporl_core.types import Discussion, EvalSummary, PairedGain, Problem


class Abandoned(Exception):
    """The rollout or evaluation under way was given up: the run was asked to stop."""


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
        self._orders = Orders(store, lock, stop, self.say, self.checkpoint)
        self._bad_steps = 0
        self._saved: int | None = None  # the step whose checkpoint is on disk as it would be now
        self.names = tuple(agent.name for agent in config.agents)

    def attach(self, assembly: Assembly, updater: Updater) -> None:
        """Everything is loaded: from here on a signal waits until it can be obeyed."""
        self._stop.end_loading()
        self.assembly, self.updater = assembly, updater
        self.store.set_decode(assembly.decode)
        self.store.declare_parts(assembly.scheme.parts)
        for reason, count in assembly.task.dropped().items():
            if count:
                self.say("warning", "data", f"{count} rows left out: {reason}")

    # Start ------------------------------------------------------------------------------------

    def begin(self) -> int:
        seed_random_states(self.config.seed)  # a resumed run gets their states back instead
        note_data(self.run, self.store, self.assembly.task)
        self.say("info", "run", f"run {self.run.name} starts in {self.run.path}")
        return 0

    def restore(self) -> int:
        """Load the newest whole checkpoint; returns the number of finished steps."""
        step, self._bad_steps, saved = restore(
            self.run, self.store, self.config, self.updater, self.assembly.task, self.say
        )
        note_data(self.run, self.store, self.assembly.task)
        self._saved = step if saved else None
        return step

    # Between steps ------------------------------------------------------------------------------

    def due(self, every: int, step: int) -> bool:
        """Whether a thing done every so many steps is due after ``step`` (the end is apart)."""
        return every > 0 and step % every == 0 and 0 < step < self.config.train.steps

    def milestone(self, step: int) -> None:
        """Evaluate and save where that is due after ``step`` and not done yet.

        A run that was stopped in the evaluation of its last step makes up for it first.
        """
        label = f"step {step}"
        measure = self.due(self.config.eval.every, step) and not self.evaluated(label, step)
        if measure:
            self.evaluate(label, "trained", step=step)
        if self.due(self.config.checkpoint.every, step):
            self.checkpoint(step, again=measure)

    def heard(self, messages: int) -> None:
        """A turn of the rollout was spoken: count it, and give way to a stop signal."""
        self.progress.advance(messages)
        self._lock.beat()
        self.give_way()

    def fitting(
        self, problems: Sequence[Problem], seats: Sequence[int], step: int
    ) -> tuple[list[Problem], list[int]]:
        """Problems whose question fits the context windows; the others are counted in the log."""
        kept = self.assembly.fitting(problems, seats)
        if len(kept[0]) < len(problems):
            self.say(
                "warning",
                "context",
                f"{len(problems) - len(kept[0])} questions left out: too long for the context "
                "window (discussion.max_context)",
                step,
            )
        return kept

    def give_way(self) -> None:
        """Raise Abandoned when the run was asked to stop; nothing was changed yet."""
        if self._stop.raised:
            raise Abandoned

    def obey(self, step: int) -> None:
        """Answer requests before step ``step`` (0-based); waits while paused."""
        self._orders.attend(step)
        if self._stop.raised:
            self.leave(step)

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
        keys: Sequence[int],
        result: UpdateResult,
        seconds: Mapping[str, float],
    ) -> None:
        """Warn about context and sampler, count steps that were not finite, note store time.

        ``keys`` are the ids of the discussions in the store.  Raises TrainingError, after saving,
        when too many steps in a row were not finite.
        """
        self._saved = None
        self.store.write_metrics(step + 1, {"time/store": seconds["store"]})
        where, turns = f"step {step + 1}: ", self.assembly.turns
        if ended := out_of_context(discussions, turns, keys):
            self.say("warning", "context", where + ended, step + 1)
        doubts = mismatches(result.metrics, self.config.update.mismatch_warn)
        for kind, lines in (("memory", result.said), ("mismatch", doubts)):
            for line in lines:
                self.say("warning", kind, where + line, step + 1)
        if not result.bad:
            self._bad_steps = 0
            return
        self._bad_steps += 1
        self.say("error", "not finite", where + not_finite(result.bad, discussions, keys), step + 1)
        if self._bad_steps >= self.config.update.max_bad_steps:
            self.checkpoint(step + 1)  # none of these steps changed anything
            raise TrainingError(
                f"{self._bad_steps} steps in a row were not finite (update.max_bad_steps); saved "
                "as it was before them: see log.txt, then start a new run with a lower "
                f"update.lr, or try on with: maporl resume {self.run.name}"
            )

    # Measuring and saving -----------------------------------------------------------------------

    def evaluated(self, label: str, step: int) -> bool:
        """Whether the run holds this evaluation of its own already (it was resumed)."""
        with StoreReader(self.run) as reader:
            return any(
                (e.origin, e.summary.label, e.step) == ("run", label, step)
                for e in reader.evaluations()
            )

    def _beat(self, step: int) -> float:
        """In an evaluation after ``step`` steps, which may be long: a pause or stop holds in it."""
        waited = self._orders.attend(step)
        self.give_way()
        return waited

    def evaluate(self, label: str, policy_state: str, *, step: int) -> EvalSummary | None:
        """Evaluate on held-out questions and store it; None when ``eval.questions`` is 0."""
        if self.config.eval.questions == 0:
            return None
        asked = held_out(self.assembly, self.config.eval.questions)
        problems, _ = self.fitting(asked, range(len(asked)), step)
        summary, discussions = evaluate(
            self.assembly,
            problems,
            label=label,
            policy_state=policy_state,
            temperature=self.config.eval.temperature,
            seed=self.config.seed,
            progress=self.progress,
            heartbeat=lambda: self._beat(step),
        )
        lines = []
        if ended := out_of_context(discussions, self.assembly.turns):
            lines.append(Line("warning", "context", f"evaluation {label}: {ended}", step))
        means = {f"eval/accuracy/turn_{t}": i.mean for t, i in enumerate(summary.accuracy_T, 1)}
        self.store.write_evaluation(
            step,
            summary,
            [Paid(d) for d in discussions],
            metrics=means if step > 0 else None,
            lines=lines,
        )
        for line in lines:
            self.progress.log(line.level, line.text)
        return summary

    def checkpoint(self, step: int, again: bool = False) -> None:
        """Save everything a resumed run needs after ``step`` finished steps, unless it is saved.

        ``again``: its score has been measured since.
        """
        if self._saved == step and not again:
            return
        word = "saved again with its score:" if self._saved == step else "saved"
        self.progress.stage(f"saving checkpoint {step}")
        save(self.run, self.store, self.config, self.updater, step, self._bad_steps)
        self._saved = step
        self.say("info", "checkpoint", f"{word} step {step}", step)

    def finish(self, step: int) -> PairedGain | None:
        """Evaluate after training, save the last checkpoint and ``final/``, compare."""
        measure = not self.evaluated("after", step)
        if measure:
            self.evaluate("after", "trained", step=step)
        self.checkpoint(step, again=measure)
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

    def say(self, level: str, kind: str, text: str, step: int | None = None) -> None:
        """One line to the store, the log and whoever watches; about a ``step``, if it is."""
        self.store.event(level, kind, text, step)  # type: ignore[arg-type]
        self.progress.log(level, text)


@contextmanager
def open_session(
    config: RunConfig, run: RunDir, progress: Progress, stop: StopFlag | None = None
) -> Iterator[Session]:
    """Lock the run, open its store, hear signals; on failure write down why.

    ``stop``: the flag of handlers that are installed already.  Until ``attach`` a signal raises
    Interrupted at once.  Raises StoreError when another process trains this run.
    """
    hear = stop_signals() if stop is None else nullcontext(stop)
    with run.lock() as lock, StoreWriter(run) as store, hear as stop:
        store.expire_requests("the trainer this was meant for had ended")
        store.set_meta(meta(config))
        store.set_state("running")
        session = Session(config, run, store, lock, stop, progress)
        try:
            stop.begin_loading()
            yield session
        except Interrupted as error:
            if stop.loading:
                _note_end(store, "interrupted", str(error), "info")
            raise
        except KeyboardInterrupt:
            _note_end(store, "interrupted", "interrupted before saving")
            raise
        except Exception as error:
            _note_end(store, "failed", str(error) or type(error).__name__)
            raise


def _note_end(store: StoreWriter, state: str, reason: str, level: Level = "error") -> None:
    """Say in the store why the run ended, unless the store itself is what failed."""
    try:
        store.set_state(state, reason)
        store.event(level, "run", reason)
    except (MaporlError, StoreError):
        return
