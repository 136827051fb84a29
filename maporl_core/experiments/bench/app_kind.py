"""``maporl bench app``: the terminal app on made-up runs, in processes of its own.

Neighbours: ``store`` builds the runs; ``python -m maporl_tui.bench`` measures, because the core
never imports the app.
"""

from __future__ import annotations

import json as jsonlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from maporl_core.config.kinds import Section
from maporl_core.errors import StoreError
from maporl_core.experiments.bench.base import Found
from maporl_core.experiments.bench.store import build_series, build_store
from maporl_core.kit.progress import Progress
from maporl_core.store.paths import RunDir
from maporl_core.store.records import LiveMessage
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Problem

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


class AppOptions(Section):
    discussions: Annotated[int, Field(ge=64)] = Field(10_000, description="in the run looked at")
    steps: Annotated[int, Field(ge=100)] = Field(
        100_000, description="in the run whose charts are drawn"
    )
    seconds: Annotated[float, Field(ge=1.0)] = Field(
        30.0, description="time of idling and of watching"
    )


class AppBench:
    """Measures the app; it is given a terminal of its own."""

    says = "the terminal app: first paint, keys, idling, charts, memory"
    needs = ("textual",)
    Options = AppOptions

    def __init__(self, options: AppOptions) -> None:
        self.options = options

    def measure(self, progress: Progress) -> Found:
        options = self.options
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            progress.stage(f"building a run of {options.discussions:,} discussions")
            many = build_store(folder, 9 * options.discussions, name="many")
            progress.stage(f"building a run of {options.steps:,} steps")
            long = _long_run(folder, options.steps)
            found: dict[str, Any] = {}
            for what, run in (("first_paint", many), ("keys", many), ("charts", long)):
                progress.stage(f"measuring {what.replace('_', ' ')}")
                found[what] = _measured(what, run, options.seconds, long)
            progress.stage("measuring an idle app")
            found["idle"] = _measured("idle", many, options.seconds)
            progress.stage("watching a run for an hour, in fast motion")
            found["memory"] = _while_written(
                many, lambda: _measured("memory", many, options.seconds)
            )
        megabytes = found["memory"]["megabytes"]
        figures = {
            "first paint": max(found["first_paint"].values()),
            "key to first frame, median": found["keys"]["first"]["median"],
            "key to last frame, median": found["keys"]["last"]["median"],
            "charts of 100,000 steps": max(found["charts"].values()),
            "idle, share of a core": max(idle["core"] for idle in found["idle"].values()),
            "idle, bytes per second": max(
                idle["bytes_per_second"] for idle in found["idle"].values()
            ),
            "memory growth over an hour, MB": megabytes[-1] - megabytes[4],
        }
        return Found(figures, APP_LIMITS, found)


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
