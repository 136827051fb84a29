"""``maporl verifier data|fit|show|score``: teach a verifier, and let it score answers.

In: words of the command line.  Out: a data folder, a verifier folder, scores.  Neighbours:
``verifier_data`` samples, ``runs.verifier.fitting`` trains and reads back; both load torch when
they run.  ``verifier_card`` shows what came of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maporl_core.cli.shared import JsonOption, examples, show_help, termination_interrupts
from maporl_core.cli.verifier_data import DATA_EXAMPLES, data_command
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, json_text, out_console, print_json, say
from maporl_core.cli.views.verifier_card import SHOW_EXAMPLES, print_results, show_command
from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ConfigError
from maporl_core.kit.user_paths import exists, is_folder, user_path

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


app.command("data", epilog=DATA_EXAMPLES)(data_command)


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
    with termination_interrupts(), StageBar(err_console()) as bar:
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
    with termination_interrupts(), StageBar(err_console()) as bar:
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
