"""``maporl debate``: put a question to the agents and watch them answer.

In: a question (or the number of a held-out one) and whose agents.  Out: every message as it is
written, with answer, score and reward; with ``--both`` before and after training side by side.
Neighbours: ``runs.own_question`` holds the discussion, ``discussions`` draws it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    SetOption,
    complete_run,
    examples,
    given,
    policy_state,
    split_checkpoint,
    stored_config,
)
from maporl_core.cli.views.discussions import (
    Writing,
    discussion_json,
    print_question,
    print_rewards,
    print_side_by_side,
)
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, out_console, plain, print_json
from maporl_core.config.load import load_config, override_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import list_runs

if TYPE_CHECKING:
    from maporl_core.assembly import Assembly
    from maporl_core.runs.own_question import Debate
    from maporl_core.types import Problem

TITLES = {"base": "untrained agents", "trained": "co-trained agents"}

EXAMPLES = examples(
    ("maporl debate", "the newest run's agents and a held-out question of its task"),
    ("maporl debate --both --number 7", "before and after training, side by side"),
    ('maporl debate "What is 12 + 30?" --gold 42 --run my-gsm8k', "your own question, scored"),
    ("maporl debate --base", "the untrained agents; needs no run"),
)


WhoseOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN[/CHECKPOINT]",
        help="Whose agents; default: the newest run with trained ones.",
        autocompletion=complete_run,
    ),
]
GoldOption = Annotated[
    str | None,
    typer.Option("--gold", help="Answer to your question; else only a learned verifier scores."),
]


def debate_command(
    question: Annotated[
        str | None,
        typer.Argument(help="Your own question; without one, a held-out one.", show_default=False),
    ] = None,
    run: WhoseOption = None,
    base: Annotated[bool, typer.Option("--base", help="Its untrained agents.")] = False,
    both: Annotated[bool, typer.Option("--both", help="Untrained and trained ones.")] = False,
    gold: GoldOption = None,
    number: Annotated[
        int, typer.Option("--number", min=1, help="Which held-out question, if you gave none.")
    ] = 1,
    overrides: SetOption = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0.0, help="0: greedy; default: as the run.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Default: the run's.")] = None,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Watch the agents discuss one question: text as it is written, scores and rewards after.

    A verifier that the run fits anew scores with its newest fit, untrained and trained agents
    alike; with --set verifier.refit_every=0 it is the one that the run began with.
    """
    if base and both:
        raise ConfigError("--base and --both contradict each other; give one of them")
    if gold is not None and question is None:
        raise ConfigError("--gold belongs to a question of your own; give the question too")
    found, checkpoint = _whose(root, run, base)
    config = override_config(stored_config(found) if found else load_config(None), overrides or ())
    states = ("base", "trained") if both else ("base",) if base else ("trained",)
    with StageBar(err_console()) as bar:
        if found is not None and run is None:
            bar.log("info", f"run {found.name}")
        bar.stage("loading libraries")
        from maporl_core.assembly import assemble
        from maporl_core.judging.verifier.keeper import kept_verifier
        from maporl_core.runs.run_state import load_newest_verifier, load_policy_state

        assembly = assemble(config, bar, kept_verifier(found, config))
        if "trained" in states and found is not None:
            load_policy_state(found, assembly.policies, checkpoint)
        step = load_newest_verifier(found, assembly.policies) if found is not None else 0
        bar.pause()
        problem = _problem(assembly, question, gold, number)
        debates = _hold(
            assembly,
            problem,
            states,
            given(temperature, config.eval.temperature),
            given(seed, config.seed),
            quiet=json,
        )
    scorer = _scorer(config, step) if found is not None else None
    if json:
        print_json({**_as_json(found, problem, debates), "verifier": scorer})
    elif scorer is not None:
        out_console().print(plain(f"scored by {scorer}", "dim"))


def _scorer(config: RunConfig, step: int) -> str | None:
    """Which fit of a verifier that is refitted gave the scores; the same for all agents."""
    if not config.verifier.refit_every:
        return None
    return (
        f"the run's verifier as of step {step}" if step else "the verifier that the run began with"
    )


def _whose(root: Path, run: str | None, base: bool) -> tuple[RunDir | None, str]:
    """The run to ask and the name of its policy state; None: the default preset's base."""
    if run is not None:
        found, checkpoint = split_checkpoint(root, run)
        if base and checkpoint is not None:
            raise ConfigError(f"--base and checkpoint {checkpoint} contradict each other")
        return found, policy_state(checkpoint)
    for summary in sorted(list_runs(root), key=lambda s: s.created, reverse=True):
        candidate = RunDir(root / summary.name)
        if base or candidate.final.is_dir() or list_checkpoints(candidate):
            return candidate, "trained"
    if base:
        return None, "base"
    raise ConfigError(
        f"{root} holds no run with trained agents; train some with: maporl run, or ask the "
        "untrained ones with: maporl debate --base"
    )


def _problem(assembly: Assembly, question: str | None, gold: str | None, number: int) -> Problem:
    from maporl_core.runs.own_question import question_of_ones_own

    if question is not None:
        return question_of_ones_own(assembly, question, gold)
    task = assembly.config.task
    size = assembly.task.size(task.eval_split)
    if size is not None and number > size:
        raise ConfigError(f"--number {number}: {task.name}/{task.eval_split} has {size} questions")
    return assembly.task.problems(task.eval_split, number - 1, 1, assembly.config.seed)[0]


def _hold(
    assembly: Assembly,
    problem: Problem,
    states: tuple[str, ...],
    temperature: float,
    seed: int,
    quiet: bool,
) -> list[Debate]:
    """One discussion per state, shown as it goes unless ``quiet``."""
    from maporl_core.runs.own_question import debate

    console = err_console() if quiet else out_console()
    names = [speaker.name for speaker in assembly.speakers]
    if not quiet:
        print_question(console, problem.question, problem.gold)
    debates = []
    for state in states:
        keep = not quiet and len(states) == 1
        with Writing(console, names, TITLES[state], keep) as writing:
            debates.append(
                debate(
                    assembly,
                    problem,
                    state,
                    temperature=temperature,
                    seed=seed,
                    on_text=writing.heard if console.is_terminal else None,
                    on_turn=writing.spoken,
                )
            )
    if quiet:
        return debates
    if len(debates) == 2:
        print_side_by_side(
            console,
            (TITLES[states[0]], TITLES[states[1]]),
            (debates[0].discussion, debates[1].discussion),
            (debates[0].rewards, debates[1].rewards),
        )
    elif debates[0].rewards is not None:
        print_rewards(console, debates[0].discussion, debates[0].rewards)
    if debates[0].rewards is None:
        console.print(plain("not scored: give the answer with --gold to see scores and rewards"))
    return debates


def _as_json(run: RunDir | None, problem: Problem, debates: list[Debate]) -> dict[str, Any]:
    return {
        "run": run.name if run else None,
        "question": problem.question,
        "gold": problem.gold,
        "debates": [
            {
                "policy_state": debate.policy_state,
                "stopped_early": debate.discussion.stopped_early,
                "turns": discussion_json(debate.discussion, debate.rewards),
            }
            for debate in debates
        ],
    }
