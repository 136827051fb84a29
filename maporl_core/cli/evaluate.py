"""``maporl eval``: measure the agents of a run, on its own task or another.

In: a run, which of its states, and how to ask.  Out: accuracy per turn with intervals, stored in
the run so that others can compare.  Neighbours: ``runs.evaluate`` does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

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
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.tables import gain_table, summary_table
from maporl_core.cli.views.terminal import err_console, out_console, print_json
from maporl_core.config.load import build_config, override_config, plain
from maporl_core.config.schema import RunConfig, TaskConfig
from maporl_core.errors import ConfigError
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import Evaluation, StoreReader
from maporl_core.types import EvalSummary, PairedGain

EXAMPLES = examples(
    ("maporl eval pocket", "the trained agents, as in the run's own evaluation"),
    ("maporl eval pocket --base", "the same questions to the untrained agents"),
    ("maporl eval pocket/step-000050 --questions 1000", "a checkpoint, more questions"),
    ("maporl eval my-anli --task gsm8k --set task.path=data/gsm8k --greedy", "transfer"),
)


WhoseArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN[/CHECKPOINT]",
        help="A run, or one of its checkpoints such as pocket/step-000050.",
        autocompletion=complete_run,
        show_default=False,
    ),
]


def eval_command(
    run: WhoseArgument,
    base: Annotated[bool, typer.Option("--base", help="The untrained agents.")] = False,
    task: Annotated[
        str | None, typer.Option("--task", help="Another task, with its own defaults.")
    ] = None,
    overrides: SetOption = None,
    questions: Annotated[
        int | None, typer.Option("--questions", "-n", min=1, help="Default: as the run.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The same as --temperature 0.")] = False,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0.0, help="Default: as the run.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the sampling; default: the run's.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Default: the task's evaluation split.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Name of this evaluation in the store.")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Evaluate a run's agents on held-out questions; the result is kept in the run.

    The same --questions, --split and --seed ask the same questions with the same random numbers,
    so that two evaluations differ by the agents alone. If the run holds a matching evaluation of
    the untrained agents, the gain is shown too.

    A verifier that the run fits anew scores with its newest fit, untrained and trained agents
    alike; with --set verifier.refit_every=0 it is the one that the run began with.
    """
    found, state = _asked(root, run, base)
    if greedy and temperature:
        raise ConfigError("--greedy and --temperature contradict each other; give one of them")
    config = _config(found, task, overrides or ())
    with StageBar(err_console()) as bar:
        bar.stage("loading libraries")
        from maporl_core.runs.evaluate import evaluate_run

        summary = evaluate_run(
            found,
            config,
            state,
            label=label or _default_label(state, config),
            questions=questions or config.eval.questions or 200,
            temperature=0.0 if greedy else given(temperature, config.eval.temperature),
            seed=given(seed, config.seed),
            split=split,
            progress=bar,
        )
    # Whether the untrained agents were asked under another setting too is not on record.
    same_setting = all(key.strip().startswith("task.") for key in overrides or ())
    gain = _gain(found, summary) if same_setting else None
    _show(found, summary, gain, json)


def _asked(root: Path, run: str, base: bool) -> tuple[RunDir, str]:
    """The run, and the state of its policies that is asked."""
    found, checkpoint = split_checkpoint(root, run)
    if base and checkpoint is not None:
        raise ConfigError(f"--base and checkpoint {checkpoint} contradict each other; give one")
    return found, "base" if base else policy_state(checkpoint)


def _show(run: RunDir, summary: EvalSummary, gain: PairedGain | None, json: bool) -> None:
    if json:
        print_json({"run": run.name, "summary": summary, "gain": gain})
        return
    console = out_console()
    console.print(summary_table(summary))
    if gain is not None:
        console.print(gain_table(gain))


def _config(run: RunDir, task: str | None, overrides: Sequence[str]) -> RunConfig:
    """The run's config with another task, if asked for, and single keys changed."""
    config = stored_config(run)
    if task is not None:
        fresh = TaskConfig(name=task).model_dump(exclude_none=True)
        config = build_config({**plain(config), "task": fresh})
    return override_config(config, overrides)


def _default_label(state: str, config: RunConfig) -> str:
    return f"{state} on {config.task.name}"


def _gain(run: RunDir, after: EvalSummary) -> PairedGain | None:
    """Against the newest evaluation of the untrained agents under the same conditions."""
    if after.policy_state == "base":
        return None
    with StoreReader(run) as reader:
        stored = reader.evaluations()
        mine = next(e for e in reversed(stored) if e.summary.seconds == after.seconds)
        base = next((e for e in reversed(stored) if _comparable(e, after)), None)
        if base is None:
            return None
        from maporl_core.runs.evaluate import paired_gain

        return paired_gain(reader, base, mine)


def _comparable(base: Evaluation, after: EvalSummary) -> bool:
    summary = base.summary
    same = ("task", "split", "questions", "temperature", "seed", "agents")
    return (
        summary.policy_state == "base"
        and len(summary.accuracy_T) == len(after.accuracy_T)
        and all(getattr(summary, key) == getattr(after, key) for key in same)
    )
