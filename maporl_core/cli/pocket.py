"""``maporl pocket build``: make a built-in model from nothing.

In: a variant, a seed, a folder.  Out: a model folder in Hugging Face format and what it can do.
Neighbour: ``runs.pocket.build`` is the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from maporl_core.cli.shared import JsonOption, examples, show_help
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, number, print_json, say, to_json
from maporl_core.errors import ConfigError
from maporl_core.kit.plain_text import one_line
from maporl_core.models.assets import VARIANTS, check_variant

app = typer.Typer(
    help="Make the built-in models.",
    invoke_without_command=True,
    epilog=examples(("maporl pocket build my-pocket", "minutes on a CPU")),
)


@app.callback()
def _root(context: typer.Context) -> None:
    show_help(context)


@app.command(
    "build",
    epilog=examples(
        ("maporl pocket build my-pocket", "the recipe that made the built-in one"),
        ("maporl pocket build my-b --variant pocket-b --seed 3", "the other base, another seed"),
        ("maporl run --set bases.main.model=my-pocket", "use it"),
    ),
)
def build_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where it is saved.")],
    variant: Annotated[
        str,
        typer.Option("--variant", help="pocket or pocket-b.", autocompletion=lambda: VARIANTS),
    ] = "pocket",
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="At most so many; default: the variant's own number."),
    ] = None,
    ungated: Annotated[
        bool, typer.Option("--ungated", help="Save it even if it fails a test of its skill.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Teach a small model from nothing, test it, and save it if it passes."""
    check_variant(variant)
    if folder.exists() and not _replaceable(folder):
        raise ConfigError(f"{one_line(folder)} exists and is no model folder; name another one")
    with StageBar(err_console()) as bar:
        bar.stage("loading libraries")
        from maporl_core.runs.pocket.build import build

        report = build(folder, seed, variant, bar, steps=steps, gated=not ungated)
    if json:
        print_json({"folder": folder, "report": report})
        return
    for name, value in _flat(to_json(report)):
        say(f"{name:<26} {value}")
    say(f"saved in {folder}")


def _replaceable(folder: Path) -> bool:
    """An empty folder, or one that holds a model."""
    if not folder.is_dir():
        return False
    return (folder / "config.json").is_file() or not any(folder.iterdir())


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, value in words) of a report, nested parts under "part.name"."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield prefix + name, ", ".join(map(_shown, value)) or "none"
        else:
            yield prefix + name, _shown(value)


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
