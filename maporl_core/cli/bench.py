"""``maporl bench``: measure this machine, and write what was found beside what it should be.

In: the name of a bench.  Out: a table, and ``benchmarks/results/NAME.json`` with the machine's
facts.  Neighbours: ``experiments.bench`` measures; ``config.doors`` names the benches, and those of
plug-ins are commands here like the own ones.
"""

from __future__ import annotations

import json as jsonlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from maporl_core.cli.shared import JsonOption, SetOption, examples, show_help
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, print_json, say
from maporl_core.config.doors import BENCHES
from maporl_core.errors import ConfigError, ModelError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.version import __version__
from maporl_core.store.failures import store_errors

if TYPE_CHECKING:
    from maporl_core.experiments.bench.base import Bench, Found

RESULTS = Path("benchmarks") / "results"


class _Benches(TyperGroup):
    """The own benches, and after them those of plug-ins, loaded when one is named."""

    def list_commands(self, ctx: Any) -> list[str]:
        others = [name for name in BENCHES.names() if name not in self.commands]
        return [*super().list_commands(ctx), *others]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in BENCHES.names():
            return _others_command(cmd_name)
        return found


app = typer.Typer(
    cls=_Benches,
    help="Measure this machine; results go to benchmarks/results/NAME.json.",
    invoke_without_command=True,
    epilog=examples(
        ("maporl bench store", "a million messages: open, filter, page"),
        ("maporl bench app", "the terminal app: first paint, keys, idling, charts, memory"),
    ),
)

OutOption = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where the result is written.")
]


@app.callback()
def _root(context: typer.Context) -> None:
    show_help(context)


@app.command("store")
def store_command(
    messages: Annotated[int, typer.Option(min=1, help="Messages in the store.")] = 1_000_000,
    out: OutOption = RESULTS,
    json: JsonOption = False,
) -> None:
    """Build a large store, and time opening it, every filter, pages and charts."""
    _measure("store", {"messages": messages}, out, json)


@app.command("app")
def app_command(
    discussions: Annotated[int, typer.Option(min=64, help="In the run looked at.")] = 10_000,
    steps: Annotated[int, typer.Option(min=100, help="In the run whose charts are drawn.")] = (
        100_000
    ),
    seconds: Annotated[float, typer.Option(min=1.0, help="Time of idling and of watching.")] = 30.0,
    out: OutOption = RESULTS,
    json: JsonOption = False,
) -> None:
    """Measure the terminal app on made-up runs; it is given a terminal of its own."""
    changes = {"discussions": discussions, "steps": steps, "seconds": seconds}
    _measure("app", changes, out, json)


def _others_command(name: str) -> Any:
    """The command of a plug-in's bench; its options are set as KEY=VALUE."""
    single = typer.Typer()

    @single.command(name, help=BENCHES.find(name).says)
    def command(
        overrides: SetOption = None, out: OutOption = RESULTS, json: JsonOption = False
    ) -> None:
        changes = {}
        for change in overrides or ():
            key, sign, value = change.partition("=")
            if not sign:
                raise ConfigError(f"--set {one_line(change, 60)}: write it as KEY=VALUE")
            changes[key.strip()] = _value(value.strip())
        _measure(name, changes, out, json)

    return typer.main.get_command(single)


def _value(text: str) -> Any:
    """A number, true or false as such; anything else is text."""
    try:
        return jsonlib.loads(text)
    except ValueError:
        return text


def _measure(name: str, changes: Mapping[str, Any], out: Path, json: bool) -> None:
    """Run one bench with these options, print its figures and keep them."""
    kind = BENCHES.find(name)
    missing = [module for module in kind.made.needs if find_spec(module) is None]
    if missing:
        raise ModelError(f"bench {name} needs {' and '.join(missing)}; install what it names")
    try:
        options = kind.options.model_validate(dict(changes))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"bench {name}: {where}: {first['msg']}") from None
    bench: Bench = kind.made(options)
    with StageBar(err_console()) as bar:
        found = bench.measure(bar)
    _report(name, found, out, json)


def _report(name: str, found: Found, out: Path, json: bool) -> None:
    figures = found.figures
    result = {
        "bench": name,
        "maporl": __version__,
        "versions": _versions(),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "figures": dict(figures),
        "limits": dict(found.limits),
        "goals": dict(found.goals),
        "details": dict(found.details),
    }
    path = out / f"{name}.json"
    with store_errors("write", path):
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(jsonlib.dumps(result, indent=2) + "\n", encoding="utf-8")
    if json:
        print_json(result)
        return
    width = max(map(len, figures))
    for key, value in figures.items():
        say(f"{key:{width}}  {value:10.4f}{_verdict(key, value, found)}")
    say(f"written to {path}")


def _verdict(key: str, value: float, found: Found) -> str:
    """The bound that a figure has, and whether it misses it."""
    limit, goal = found.limits.get(key), found.goals.get(key)
    if limit is not None:
        return f"  of {limit:g}{'' if value <= limit else '  over the limit'}"
    if goal is not None:
        return f"  of at least {goal:g}{'' if value >= goal else '  short of the goal'}"
    return ""


def _versions() -> dict[str, str]:
    """Of what figures depend on, where it is installed."""
    versions = {}
    for name in ("torch", "transformers", "peft", "trl", "vllm"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
