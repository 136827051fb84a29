"""``maporl verifier data``: sample the answers that a verifier is taught with.

In: whose answers, and how many.  Out: a data folder.  Neighbours: ``runs.verifier.sampling`` does
the work, ``verifier`` is the command's group.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    SetOption,
    complete_preset,
    examples,
    given,
    policy_state,
    split_checkpoint,
    stored_config,
    termination_interrupts,
)
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, print_json, say
from maporl_core.config.load import load_config, override_config, preset_names
from maporl_core.config.schema import RunConfig
from maporl_core.store.paths import RunDir

DATA_EXAMPLES = examples(
    (
        "maporl verifier data pocket --set task.options.lean=0.9 -n 3000 --out my-data",
        "built-in agents",
    ),
    ("maporl verifier data gsm8k --questions 7000 --samples 40 --out my-data", "real models"),
    ("maporl verifier data runs/my-gsm8k --out my-data", "the trained agents of a run"),
)
WhoseArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRESET|FILE|RUN",
        help="Whose answers: a preset or TOML file (its untrained agents), or a run or one of "
        "its checkpoints (trained). A run named like a preset: give the path of its folder.",
        autocompletion=complete_preset,
        show_default=False,
    ),
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        "--samples", min=2, help="Answers per question; default: samples of verifier.fit."
    ),
]
PerQuestionOption = Annotated[
    int | None,
    typer.Option(
        "--per-question",
        min=1,
        help="At most so many right, and wrong, ones; default: per_question of verifier.fit.",
    ),
]


def data_command(
    answering: WhoseArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where it is kept.")],
    questions: Annotated[int, typer.Option("--questions", "-n", min=1)] = 1000,
    samples: SamplesOption = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Default: the split that co-training uses.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01, max=100.0)] = 1.0,
    turns: Annotated[
        int, typer.Option("--turns", min=1, help="1: every agent alone. More: whole discussions.")
    ] = 1,
    per_question: PerQuestionOption = None,
    balance: Annotated[
        bool,
        typer.Option("--balance/--no-balance", help="As many right as wrong ones per question."),
    ] = True,
    holdout: Annotated[
        float, typer.Option("--holdout", min=0.02, max=0.9, help="Share of questions held out.")
    ] = 0.2,
    overrides: SetOption = None,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
) -> None:
    """Sample answers, label them by the task's rule, balance them per question.

    The same command goes on where it was stopped; with a larger --questions a folder grows.
    """
    config, run, state = _who(answering, root, overrides or ())
    with termination_interrupts(), StageBar(err_console()) as bar:
        bar.stage("loading libraries")
        from maporl_core.judging.verifier.cards import STAGES
        from maporl_core.judging.verifier.data import Selection
        from maporl_core.runs.verifier.sampling import Sampling, make_data

        fit = config.verifier.fit
        sampling = Sampling(
            split or config.task.train_split,
            questions,
            given(samples, fit.samples),
            temperature,
            turns,
            state,
        )
        most = given(per_question, fit.per_question)
        selection = Selection(balance, most, holdout, config.seed)
        card = make_data(config, sampling, selection, out, bar, run)
    if json:
        print_json({"folder": out, "card": card})
        return
    for key, text in STAGES:
        say(f"{card['counts'][key]:>9,}  {text}")
    for side, found in card["splits"].items():
        say(f"{found['answers']:>9,}  answers to {found['questions']:,} questions in {side}")
    say(f"saved in {out}")


def _who(
    answering: str, root: Path, overrides: list[str] | tuple[str, ...]
) -> tuple[RunConfig, RunDir | None, str]:
    """Config, the run if it is one, and whose words: "base", "trained" or a checkpoint."""
    if answering in preset_names() or answering.endswith(".toml"):
        return load_config(answering, overrides), None, "base"
    run, checkpoint = split_checkpoint(root, answering)
    return override_config(stored_config(run), overrides), run, policy_state(checkpoint)
