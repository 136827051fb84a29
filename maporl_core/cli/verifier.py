"""``maporl verifier data|fit|show|score``: teach a verifier, and let it score answers.

In: words of the command line.  Out: a data folder, a verifier folder, scores.  Neighbours:
``sampling`` samples, ``fitting`` trains and reads back; both load torch, when they run.
``verifier_card`` shows what came of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
    show_help,
    split_checkpoint,
    stored_config,
)
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, json_text, out_console, print_json, say
from maporl_core.cli.views.verifier_card import SHOW_EXAMPLES, print_results, show_command
from maporl_core.config.load import load_config, override_config, preset_names
from maporl_core.config.schema import BaseModelConfig, RunConfig
from maporl_core.errors import ConfigError
from maporl_core.kit.user_paths import exists, is_folder, user_path
from maporl_core.store.paths import RunDir

DATA_EXAMPLES = examples(
    (
        "maporl verifier data pocket --set task.options.lean=0.9 -n 3000 --out my-data",
        "built-in agents",
    ),
    ("maporl verifier data gsm8k --questions 7000 --samples 40 --out my-data", "real models"),
    ("maporl verifier data runs/my-gsm8k --out my-data", "the trained agents of a run"),
)
FIT_EXAMPLES = examples(
    ("maporl verifier fit my-data --out my-verifier", "on the base that gave the answers"),
    ("maporl verifier fit my-data --out my-verifier --lr 1e-4 --epochs 2", "other settings"),
)
SCORE_EXAMPLES = examples(
    ("maporl verifier score answers.jsonl --verifier my-verifier", "one score per line"),
    ("maporl verifier score answers.jsonl --verifier my-verifier --out scored.jsonl", "to a file"),
)

app = typer.Typer(
    help="Sample, train and measure a verifier, and score answers with it.",
    invoke_without_command=True,
    epilog=examples(
        (
            "maporl verifier data pocket --set task.options.lean=0.9 -n 3000 --out my-data",
            "sample",
        ),
        ("maporl verifier fit my-data --out my-verifier", "train and measure"),
        ("maporl verifier show my-verifier", "its figures again"),
        ("maporl verifier score answers.jsonl --verifier my-verifier", "score"),
    ),
)
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]


@app.callback()
def _root(context: typer.Context) -> None:
    show_help(context)


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: whatever is half written is removed on the way out."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@app.command("data", epilog=DATA_EXAMPLES)
def data_command(
    answering: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE|RUN",
            help="Whose answers: a preset or TOML file (its untrained agents), or a run or one of "
            "its checkpoints (trained). A run named like a preset: give the path of its folder.",
            autocompletion=complete_preset,
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where it is kept.")],
    questions: Annotated[int, typer.Option("--questions", "-n", min=1)] = 1000,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", min=2, help="Answers per question; default: samples of verifier.fit."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Default: the split that co-training uses.")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01, max=100.0)] = 1.0,
    turns: Annotated[
        int, typer.Option("--turns", min=1, help="1: every agent alone. More: whole discussions.")
    ] = 1,
    per_question: Annotated[
        int | None,
        typer.Option(
            "--per-question",
            min=1,
            help="At most so many right, and wrong, ones; default: per_question of verifier.fit.",
        ),
    ] = None,
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
    with _termination_interrupts(), StageBar(err_console()) as bar:
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


@app.command("fit", epilog=FIT_EXAMPLES)
def fit_command(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A folder of: maporl verifier data.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where it is saved.")],
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="MODEL", help="Default: the base that gave the answers."),
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", min=1, max=4096)] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", min=0.001, max=1e6)] = None,
    lr: Annotated[float | None, typer.Option("--lr", min=1e-9, max=1.0)] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1)] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Answers per step.")] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", min=16, help="Tokens read of a row.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0)] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Train an adapter and a score head, calibrate them, measure them on held-out questions.

    Defaults are those of [verifier.fit] in the preset or file that the data was sampled with; where
    it says nothing, the published ones (rank 16, alpha 32, lr 2e-4, 1 epoch, batch 8, 550 tokens).
    """
    with _termination_interrupts(), StageBar(err_console()) as bar:
        bar.stage("loading libraries")
        from dataclasses import replace

        from maporl_core.runs.verifier.fitting import default_settings, fit_verifier, sampled_base

        config = sampled_base(data) if base is None else BaseModelConfig(model=base)
        given = {
            "rank": rank,
            "alpha": alpha,
            "lr": lr,
            "epochs": epochs,
            "batch": batch,
            "max_length": max_length,
            "seed": seed,
        }
        chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        settings = replace(default_settings(data), **chosen)
        card = fit_verifier(data, config, settings, out, bar, device)
    if json:
        print_json({"folder": out, "card": card})
        return
    print_results(out_console(), card["results"])
    say(f"temperature {card['temperature']:.3g}; saved in {out}")


app.command("show", epilog=SHOW_EXAMPLES)(show_command)


@app.command("score", epilog=SCORE_EXAMPLES)
def score_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="JSON lines (or Parquet) with a question and an answer per row."
        ),
    ],
    verifier: Annotated[
        str,
        typer.Option(
            "--verifier", metavar="FOLDER", help="Of: maporl verifier fit; pocket: built in."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write rows with scores there.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="MODEL", help="Where the base is, if it has moved."),
    ] = None,
    question_key: Annotated[str, typer.Option("--question-key")] = "question",
    answer_key: Annotated[str, typer.Option("--answer-key")] = "answer",
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Score answers to questions: the probability, from 0 to 1, that each is right."""
    if out is not None:
        _check_file(out, file)
    with _termination_interrupts(), StageBar(err_console()) as bar:
        bar.stage("loading libraries")
        from maporl_core.judging.verifier.files import check_writable, write_text
        from maporl_core.judging.verifier.placing import named_folder
        from maporl_core.runs.verifier.scoring import score_file

        if out is not None:
            check_writable(out)
        keys, folder = (question_key, answer_key), named_folder(verifier)
        scored = score_file(file, folder, bar, keys, skip_bad_rows, device, base)
    if out is not None:
        write_text(out, "".join(json_text(row) + "\n" for row in scored.rows))
    if json:
        print_json({"rows": scored.rows, "left_out": scored.left_out})
    elif out is None:
        for row in scored.rows:
            say(f"{row['score']:.4f}  {row['where']}")
    else:
        say(f"{len(scored.rows)} rows with scores in {out}")
    for reason, count in {} if json else scored.left_out.items():
        err_console().print(f"{count} rows left out: {reason}")


def _check_file(out: Path, file: str) -> None:
    """Raises ConfigError for a place that scores cannot or should not go to."""
    if is_folder(out):
        raise ConfigError(f"{out} is a folder; name a file")
    if exists(out) and exists(user_path(file)) and out.samefile(user_path(file)):
        raise ConfigError(f"{out} is the file that is read; name another for --out")
