"""Held-out evaluation: the same questions and seeds for every policy, with intervals.

In: an ``Assembly`` and whose words to use (the bare base, or the adapters as they are).  Out: an
``EvalSummary`` and the discussions themselves, so that two policies can be compared pair by pair.
Neighbours: ``train`` calls it around and during a run, ``cli`` for ``maporl eval``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.schema import RunConfig
from maporl_core.errors import StoreError
from maporl_core.judging.metrics import (
    agreement_T,
    known_QTA,
    over_agents_QT,
    spoken_mean,
    transitions,
    votes_QT,
)
from maporl_core.judging.pairing import bootstrap_T, pair
from maporl_core.judging.verifier.keeper import kept_verifier
from maporl_core.kit.offline import offline
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.rollout.discussion import Listeners
from maporl_core.runs.run_state import load_newest_verifier, load_policy_state
from maporl_core.runs.step_metrics import out_of_context
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import Evaluation, Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, EvalSummary, Interval, PairedGain, Problem


def evaluate(
    assembly: Assembly,
    problems: Sequence[Problem],
    *,
    label: str,
    policy_state: str,
    temperature: float,
    seed: int,
    progress: Progress,
    heartbeat: Callable[[], float] | None = None,
) -> tuple[EvalSummary, list[Discussion]]:
    """Hold one discussion per problem and sum up.

    ``policy_state`` "base" lets the bare base speak in every turn; anything else uses the adapters
    as they are now.  Seeds depend on ``seed`` and a problem's place only: two calls with the same
    problems differ by the policies alone.  ``heartbeat`` is called after every turn; the seconds
    that it waited are not counted.
    """
    started, waited = time.perf_counter(), 0.0
    turns, agents = assembly.turns, len(assembly.speakers)
    progress.stage(f"evaluating {label}", len(problems) * turns * agents)
    rules = assembly.rules(seed, temperature, untrained=policy_state == "base")

    def turn(messages: int) -> None:
        nonlocal waited
        progress.advance(messages)
        if heartbeat is not None:
            waited += heartbeat()

    discussions = assembly.hold(problems, range(len(problems)), rules, Listeners(turn=turn))
    summary = summarise(
        discussions,
        assembly,
        label=label,
        policy_state=policy_state,
        temperature=temperature,
        seed=seed,
        seconds=time.perf_counter() - started - waited,
    )
    progress.evaluated(summary)
    return summary, discussions


def summarise(
    discussions: Sequence[Discussion],
    assembly: Assembly,
    *,
    label: str,
    policy_state: str,
    temperature: float,
    seed: int,
    seconds: float,
) -> EvalSummary:
    """Numbers of one evaluation; questions without a gold answer count in no accuracy."""
    turns = assembly.turns
    correct = known_QTA(discussions, turns)
    votes = votes_QT(discussions, turns, assembly.same)
    votes = votes[~np.isnan(votes).any(axis=1)]
    messages = [m for d in discussions for row in d.messages for m in row]
    first = discussions[0]
    return EvalSummary(
        label=label,
        policy_state=policy_state,
        task=first.problem.task,
        split=first.problem.split,
        questions=len(discussions),
        agents=first.agents,
        temperature=temperature,
        seed=seed,
        accuracy_T=bootstrap_T(over_agents_QT(correct), seed),
        accuracy_TA=tuple(
            tuple(spoken_mean(correct[:, t, a]) for a in range(len(first.agents)))
            for t in range(turns)
        ),
        majority_T=bootstrap_T(votes, seed),
        oracle_T=tuple(float(x) for x in _mean(np.fmax.reduce(correct, axis=2, initial=0.0))),
        agreement_T=tuple(agreement_T(discussions, turns, assembly.same)),
        transitions=transitions(discussions),
        unparsable=float(np.mean([m.answer is None for m in messages])),
        unfinished=float(np.mean([m.finish == "length" for m in messages])),
        seconds=seconds,
    )


def evaluate_run(
    run: RunDir,
    config: RunConfig,
    policy_state: str,
    *,
    label: str,
    questions: int,
    temperature: float,
    seed: int,
    split: str | None,
    progress: Progress,
) -> EvalSummary:
    """Evaluate a run's agents and store it beside the run's own evaluations.

    ``config`` is the run's own, changed where the caller wants another task or setting.  A
    verifier that the run fits anew scores with its newest fit, whichever agents are asked.
    Raises StoreError at once where the run's folder cannot be written.
    """
    _check_writable(run)
    assembly = assemble(config, progress, kept_verifier(run, config))
    step = load_policy_state(run, assembly.policies, policy_state)
    load_newest_verifier(run, assembly.policies)
    asked = held_out(assembly, questions, split)
    problems, _ = assembly.fitting(asked, range(len(asked)))
    if len(problems) < len(asked):
        progress.log("warning", f"{len(asked) - len(problems)} questions left out: too long")
    with offline():  # all is loaded
        summary, discussions = evaluate(
            assembly,
            problems,
            label=label,
            policy_state=policy_state,
            temperature=temperature,
            seed=seed,
            progress=progress,
        )
    if ended := out_of_context(discussions, assembly.turns):
        progress.log("warning", ended)
    with StoreWriter(run) as store:
        store.set_decode(assembly.decode)
        store.write_evaluation(step, summary, [Paid(d) for d in discussions], origin="command")
    return summary


def _check_writable(run: RunDir) -> None:
    """Raises StoreError, before any work, where the run cannot keep an evaluation."""
    try:
        with TemporaryFile(dir=run.path), run.database.open("r+b"):
            return
    except FileNotFoundError:
        return  # no store: whoever reads it says so
    except OSError as error:
        raise StoreError(
            f"cannot write to {one_line(run.path)} ({error.strerror or error}), and an evaluation "
            "is kept in its run: make the folder writable, or copy it (cp -r) and evaluate the copy"
        ) from error


def held_out(assembly: Assembly, questions: int, split: str | None = None) -> list[Problem]:
    """The first ``questions`` problems of the evaluation split in its seeded order.

    Fewer when the split is smaller: no question is asked twice.
    """
    split = split or assembly.config.task.eval_split
    size = assembly.task.size(split)
    count = questions if size is None else min(questions, size)
    return assembly.task.problems(split, 0, count, assembly.config.seed)


def gain_between(reader: StoreReader, before: str, after: str) -> PairedGain | None:
    """The run's own evaluations of these labels, compared question by question; None if missing."""
    newest = {e.summary.label: e for e in reader.evaluations() if e.origin == "run"}
    if before not in newest or after not in newest:
        return None
    return paired_gain(reader, newest[before], newest[after])


def paired_gain(reader: StoreReader, before: Evaluation, after: Evaluation) -> PairedGain:
    """``after`` minus ``before`` on the questions that both were asked, paired per question."""
    old, new = (
        {outcome.problem_id: outcome.correct_TA for outcome in reader.outcomes(evaluation.id)}
        for evaluation in (before, after)
    )
    found = pair(old, new, before.summary.seed)
    unknown = (Interval(float("nan"), float("nan"), float("nan")),) * len(before.summary.accuracy_T)
    return PairedGain(before.summary, after.summary, found.gain_T or unknown)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over questions; NaN (not a warning) when there are none."""
    return values.mean(axis=0) if len(values) else np.full(values.shape[1:], np.nan)
