"""``maporl bench``: measure this machine, and write what was found beside what it should be.

In: the name of a bench.  Out: a table, and ``benchmarks/results/NAME.json`` with the machine's
facts.  Neighbours: ``experiments.bench`` builds and measures stores; ``python -m maporl_tui.bench``
measures the app in processes of its own, because the core never imports it.
"""

from __future__ import annotations

import json as jsonlib
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from maporl_core import __version__
from maporl_core.cli.shared import JsonOption, examples, show_help
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, print_json, say
from maporl_core.errors import StoreError
from maporl_core.experiments.bench.store import bench_store, build_series, build_store
from maporl_core.store.failures import store_errors
from maporl_core.store.paths import RunDir
from maporl_core.store.records import LiveMessage
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Problem

RESULTS = Path("benchmarks") / "results"

APP_LIMITS = {
    "first paint": 1.0,
    "key to first frame, median": 0.05,
    "key to last frame, median": 0.05,
    "charts of 100,000 steps": 0.2,
    "idle, share of a core": 0.02,
    "idle, bytes per second": 1000.0,
    "memory growth over an hour, MB": 20.0,
}
"""What the app may take: seconds unless the name says otherwise."""

app = typer.Typer(
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
    with tempfile.TemporaryDirectory() as folder, StageBar(err_console()) as bar:
        bar.stage(f"building a store of {messages:,} messages", messages)
        found = bench_store(Path(folder), messages, on_messages=bar.advance)
    figures = found["figures"]
    limits = {name: found["limits"][name.partition(":")[0]] for name in figures}
    _report("store", figures, limits, found, out, json)


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
    with tempfile.TemporaryDirectory() as name, StageBar(err_console()) as bar:
        folder = Path(name)
        bar.stage(f"building a run of {discussions:,} discussions")
        many = build_store(folder, 9 * discussions, name="many")
        bar.stage(f"building a run of {steps:,} steps")
        long = _long_run(folder, steps)
        found: dict[str, Any] = {}
        for what, run in (("first_paint", many), ("keys", many), ("charts", long)):
            bar.stage(f"measuring {what.replace('_', ' ')}")
            found[what] = _measured(what, run, seconds, long)
        bar.stage("measuring an idle app")
        found["idle"] = _measured("idle", many, seconds)
        bar.stage("watching a run for an hour, in fast motion")
        found["memory"] = _while_written(many, lambda: _measured("memory", many, seconds))
    megabytes = found["memory"]["megabytes"]
    figures = {
        "first paint": max(found["first_paint"].values()),
        "key to first frame, median": found["keys"]["first"]["median"],
        "key to last frame, median": found["keys"]["last"]["median"],
        "charts of 100,000 steps": max(found["charts"].values()),
        "idle, share of a core": max(idle["core"] for idle in found["idle"].values()),
        "idle, bytes per second": max(idle["bytes_per_second"] for idle in found["idle"].values()),
        "memory growth over an hour, MB": megabytes[-1] - megabytes[4],
    }
    _report("app", figures, APP_LIMITS, found, out, json)


def _measured(what: str, run: RunDir, seconds: float, long: RunDir | None = None) -> dict[str, Any]:
    """What a process of the app finds, the charts of ``long`` on its Dashboard.

    Raises StoreError with the process's last line if it fails.
    """
    words = [sys.executable, "-m", "maporl_tui.bench", what, str(run.path), str(seconds)]
    words += [str(long.path)] if long is not None else []
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise StoreError(f"measuring {what} failed: {last}")
    found = jsonlib.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def _long_run(folder: Path, steps: int) -> RunDir:
    """A run with many steps and hardly anything else, under the names that the app draws."""
    run = RunDir.create(folder, "long", "# built for measuring\n", {"steps": str(steps)})
    agents = ("Ada", "Bo", "Cy")
    names = [f"accuracy/turn_{t}" for t in (1, 2, 3)]
    names += [f"{kind}/turn_{t}" for kind in ("majority", "oracle", "agreement") for t in (1, 2, 3)]
    parts = ("own", "influence", "critical", "persuaded", "constructive", "persuasive", "total")
    names += [f"reward/{part}" for part in parts]
    for scope in ("ppo", *(f"policy/{name}" for name in agents)):
        names += [f"{scope}/{kind}" for kind in ("kl", "policy_loss", "value_loss", "entropy")]
    names += ["kl_coef", "lr", "messages/length"]
    build_series(run, steps, names)
    with StoreWriter(run) as writer:
        writer.set_state("finished")
    return run


def _while_written(run: RunDir, action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do something while the run goes on as a live one: an hour's 1,800 steps, as they fit in."""
    over = threading.Event()
    written = [0]

    def write() -> None:
        problem = Problem("p", "How many?", "7", "bench", "train")
        with run.lock(), StoreWriter(run) as writer:
            writer.set_state("running")
            first = 10_000
            for step in range(first, first + 1800):
                if over.is_set():
                    break
                writer.live.begin(step, "train", problem, ("agent0", "agent1", "agent2"), 3)
                for turn in range(3):
                    writer.live.update(
                        [LiveMessage(turn, a, "writing", f"step {step} " * 20) for a in range(3)]
                    )
                writer.write_step(step, [], {"accuracy/turn_1": 0.5, "reward/total": 0.5})
                writer.event("info", "bench", f"step {step}")
                written[0] += 1
                time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return {**action(), "steps": written[0]}
    finally:
        over.set()
        thread.join()


def _report(
    name: str,
    figures: Mapping[str, float],
    limits: Mapping[str, float],
    details: Mapping[str, Any],
    out: Path,
    json: bool,
) -> None:
    result = {
        "bench": name,
        "maporl": __version__,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "figures": dict(figures),
        "limits": dict(limits),
        "details": dict(details),
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
        mark = " " if value <= limits[key] else "  over the limit"
        say(f"{key:{width}}  {value:10.4f}  of {limits[key]:g}{mark}".rstrip())
    say(f"written to {path}")
