"""The Python API: what ``import maporl_core`` gives.

    import maporl_core as maporl

    run = maporl.train(maporl.load_config("pocket", ["train.steps=20"]))
    maporl.evaluate(run, questions=500).accuracy_T
    maporl.debate("Mia has 12 pens, gets 7 and loses 4. How many?", run, gold="15")

In: configs, runs, questions.  Out: the same records that the commands print from.  Neighbours:
``train`` and ``runs`` do the work.  Importing this loads no torch; training or asking does.
Everything a call keeps lies in a run's folder, as after the command of the same name, and the
commands and the app read it.  Errors are those of ``errors``, each with one line that says what to
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from maporl_core.config.doors import REGISTRIES
from maporl_core.config.load import dump_toml, load_config, load_stored, override_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.kit.progress import Progress, Silent
from maporl_core.kit.registry import Registry
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import (
    DiscussionFilter,
    Evaluation,
    RunStatus,
    StoredDiscussion,
    StoreReader,
)
from maporl_core.types import EvalSummary, Message

if TYPE_CHECKING:
    from maporl_core.runs.own_question import Debate

__all__ = [
    "Run",
    "RunConfig",
    "debate",
    "evaluate",
    "load_config",
    "load_run",
    "registries",
    "train",
]

ROOT = Path("runs")

registries: Mapping[str, Registry] = REGISTRIES
"""Section ("task", "reward" …) → all its kinds; ``registries["reward"].add(name, kind)`` gives this
process one of its own.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run on disk: live, finished or stopped.  Every method reads what is there now."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> RunConfig:
        """The resolved description it was started with."""
        return load_stored(RunDir(self.path).config)

    def status(self) -> RunStatus:
        """What it is doing, and how many steps are whole."""
        with self.reader() as reader:
            return reader.status()

    def metrics(self) -> list[tuple[int, str, float]]:
        """(step, name, value) of everything measured, in order of time; steps count from 1."""
        with self.reader() as reader:
            return list(reader.metrics_since(0).rows)

    def evaluations(self) -> Sequence[Evaluation]:
        """All stored evaluations, oldest first."""
        with self.reader() as reader:
            return reader.evaluations()

    def messages(
        self, split: Literal["train", "eval"] | None = "train"
    ) -> Iterator[dict[str, Any]]:
        """One flat dict per message, as ``pandas.DataFrame`` takes them.

        ``split``: what was trained on, what was evaluated on, or None for both.  Keys:
        discussion, step, split, problem, question, gold, turn and agent (from 1), name, phase,
        branch, answer, correct, score, finish, tokens, text; and for what was paid: one
        "reward/<part>" per part, "reward", "advantage" and "kl".
        """
        with self.reader() as reader:
            for stored in reader.discussions(DiscussionFilter(split=split)):
                shared = {
                    "discussion": stored.row.id,
                    "step": stored.row.step,
                    "split": stored.row.split,
                    "problem": stored.discussion.problem.id,
                    "question": stored.discussion.problem.question,
                    "gold": stored.discussion.problem.gold,
                }
                for message in stored.discussion.everything():
                    name = stored.discussion.agents[message.agent]
                    yield shared | {"name": name} | _said(message) | _paid(stored, message)

    @contextmanager
    def reader(self) -> Iterator[StoreReader]:
        """The store itself, for whatever the methods above do not give."""
        with StoreReader(RunDir(self.path)) as reader:
            yield reader


def load_run(run: str | Path, root: str | Path = ROOT) -> Run:
    """A run by its folder, or by its name below ``root``.

    Raises StoreError, naming the nearest, if there is none.
    """
    return Run(RunDir.find(Path(root), str(run)).path)


def train(
    config: RunConfig | None = None,
    *,
    root: str | Path = ROOT,
    resume: Run | None = None,
    progress: Progress | None = None,
) -> Run:
    """Co-train a new run below ``root``; or, with ``resume``, go on from its newest checkpoint.

    A resumed run goes on exactly where it was; ``config`` may then change when it stops, evaluates
    and saves.  Returns when the last step is done.  ``progress`` hears stages, steps and
    evaluations; by default nothing is printed.
    Raises ConfigError for a name that is taken, and whatever ``train.train`` raises.
    """
    from maporl_core.config.resumable import check_resumable
    from maporl_core.runs.same_data import check_moved
    from maporl_core.train import train as run_loop

    if resume is not None:
        wanted = config if config is not None else resume.config
        check_resumable(resume.config, wanted)
        run = RunDir(resume.path)
        check_moved(run, resume.config, wanted)
    else:
        wanted = config if config is not None else load_config()
        run = RunDir.create(Path(root), wanted.name, dump_toml(wanted))
    run_loop(wanted, run, progress or Silent(), resume=resume is not None)
    return Run(run.path)


def evaluate(
    run: Run | str,
    *,
    state: str = "trained",
    questions: int | None = None,
    overrides: Sequence[str] = (),
    temperature: float | None = None,
    seed: int | None = None,
    split: str | None = None,
    label: str | None = None,
    progress: Progress | None = None,
) -> EvalSummary:
    """Hold out-of-sample discussions and sum up; kept in the run beside its own evaluations.

    ``state``: "base" (adapters off), "trained", or a checkpoint such as "step-000050".  Two calls
    with the same ``questions``, ``split`` and ``seed`` differ by the agents alone.  ``overrides``
    ("a.b=c") put another task or setting in place of the run's.
    """
    from maporl_core.runs.evaluate import evaluate_run

    found = _run(run)
    config = override_config(found.config, overrides)
    return evaluate_run(
        RunDir(found.path),
        config,
        state,
        label=label or f"{state} on {config.task.name}",
        questions=questions or config.eval.questions or 200,
        temperature=config.eval.temperature if temperature is None else temperature,
        seed=config.seed if seed is None else seed,
        split=split,
        progress=progress or Silent(),
    )


def debate(
    question: str,
    run: Run | str | None = None,
    *,
    gold: str | None = None,
    state: str = "trained",
    temperature: float | None = None,
    seed: int | None = None,
    on_turn: Callable[[Sequence[Message]], None] | None = None,
    progress: Progress | None = None,
) -> Debate:
    """Put one question to a run's agents; without a run, to the default preset's untrained ones.

    Without ``gold``, in the task's own spelling of answers, only a learned verifier scores and
    nothing is paid by rule.  ``on_turn`` hears each finished turn.
    """
    from maporl_core.runs import own_question

    found = None if run is None else _run(run)
    config = found.config if found else load_config()
    return own_question.ask(
        RunDir(found.path) if found else None,
        config,
        question,
        gold,
        state,
        temperature=config.eval.temperature if temperature is None else temperature,
        seed=config.seed if seed is None else seed,
        on_turn=on_turn,
        progress=progress or Silent(),
    )


def _run(run: Run | str) -> Run:
    if isinstance(run, Run):
        return run
    if not run:
        raise ConfigError("an empty name is no run; give the name or folder of one")
    return load_run(run)


def _said(message: Message) -> dict[str, Any]:
    return {
        "turn": message.turn + 1,
        "agent": message.agent + 1,
        "branch": message.branch,
        "phase": message.phase,
        "answer": message.answer,
        "correct": message.correct,
        "score": message.score,
        "finish": message.finish,
        "tokens": len(message.ids),
        "text": message.text,
    }


def _paid(stored: StoredDiscussion, message: Message) -> dict[str, float | None]:
    """What the message was paid, part by part; nothing for an evaluation."""
    reward = stored.reward(message)
    if reward is None:
        return {}
    parts = {f"reward/{name}": value for name, value in reward.pay.parts.items()}
    paid = {"reward": reward.pay.total, "advantage": reward.advantage, "kl": reward.kl}
    return {**parts, **paid}
