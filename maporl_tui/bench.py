"""Measures the app itself on a given run: first paint, keys, idling, charts, memory.

In: the folder of a run.  Out: one JSON object on stdout.  Neighbour: ``maporl bench app`` builds
the runs and calls this in processes of their own: ``python -m maporl_tui.bench WHAT RUN``, then
seconds and a run with many steps where they matter.

Painting is counted where the app hands a frame to the terminal driver.  A reaction ends with the
last frame before a tenth of a second without any, so data that is loaded after the first frame
counts too.  Imports are not counted, and garbage is collected as in the app itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from maporl_core.store.reader import RunDir
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options

SIZE = (120, 40)
KEYS: Mapping[str, Sequence[str]] = {
    "debate": ("comma", "full_stop", "l", "h", "j", "k", "r", "r"),
    "rewards": ("c", "comma", "full_stop", "down"),
    "dashboard": ("right", "down", "s", "l", "x"),
    "runs": ("down", "up"),
}
"""Keys pressed on each screen, in this order."""

_QUIET = 0.1
_PATIENCE = 5.0


class _Timed(MaporlApp):
    """Notes when each frame was handed over."""

    last_paint = 0.0
    first_paint: float | None = None
    """The first frame since this was set to None."""

    def _display(self, screen: Any, renderable: Any) -> None:
        super()._display(screen, renderable)
        self.last_paint = time.perf_counter()
        if self.first_paint is None:
            self.first_paint = self.last_paint


async def _reaction(app: _Timed, begun: float, quiet: float = _QUIET) -> float | None:
    """Seconds from ``begun`` to the end of the frames that follow; None when there was none."""
    while True:
        await asyncio.sleep(0.005)
        now = time.perf_counter()
        if app.last_paint > begun:
            if now - app.last_paint > quiet:
                return app.last_paint - begun
        elif now - begun > 1.0:
            return None
        if now - begun > _PATIENCE:
            return now - begun


def _options(run: Path, screen: str) -> Options:
    return Options(run.parent, RunDir(run), screen)


async def first_paint(run: Path, screen: str = "debate") -> float:
    """Seconds from making the app to its first screen, data included."""
    begun = time.perf_counter()
    app = _Timed(_options(run, screen))
    async with app.run_test(size=SIZE):
        while app.view is None or app.view.generation < 0:
            await asyncio.sleep(0.001)
        return await _reaction(app, begun) or 0.0


async def keys(run: Path, screen: str) -> dict[str, tuple[float, float]]:
    """Seconds from each key to the first and the last frame of its reaction; none: left out."""
    app = _Timed(_options(run, screen))
    found: dict[str, tuple[float, float]] = {}
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(1.5)
        for number, key in enumerate(KEYS[screen]):
            app.first_paint, begun = None, time.perf_counter()
            app.simulate_key(key)
            took = await _reaction(app, begun)
            if took is not None and app.first_paint is not None:
                found[f"{number + 1} {key}"] = (app.first_paint - begun, took)
            await asyncio.sleep(0.2)
    return found


async def charts(run: Path) -> dict[str, float]:
    """Seconds from a key to the last chart of a long run: all charts on the screen, each time.

    "dashboard": the screen is chosen again; "newest steps", "all steps": every chart is read over
    other steps and drawn anew.
    """
    app = _Timed(_options(run, "launch"))
    found: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(1.5)
        app.show_screen("dashboard")  # made once, so that only the charts are timed
        await pilot.pause(1.5)
        app.show_screen("launch")
        await pilot.pause(1.0)
        for name, key in (("dashboard", "2"), ("newest steps", "f"), ("all steps", "f")):
            begun = time.perf_counter()
            app.simulate_key(key)
            found[name] = await _reaction(app, begun, 5 * _QUIET) or 0.0
            await pilot.pause(1.2)  # charts are read once a second at most
    return found


async def memory(run: Path, seconds: float, screen: str = "debate") -> list[float]:
    """Resident megabytes, every twentieth of ``seconds``, while the run is followed."""
    app = _Timed(Options(run.parent, RunDir(run), screen, refresh=0.05))
    process = psutil.Process()
    found = []
    async with app.run_test(size=SIZE):
        for _ in range(20):
            await asyncio.sleep(seconds / 20)
            gc.collect()
            found.append(process.memory_info().rss / 1e6)
    return found


def idle(run: Path, screen: str, seconds: float, settle: float = 6.0) -> dict[str, float]:
    """A real app on a terminal of its own, left alone: share of a core, bytes per second."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    words = [sys.executable, "-m", "maporl_tui", str(run), "--screen", screen]
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    child = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    try:
        process = psutil.Process(child.pid)
        _drain(master, settle)
        before = process.cpu_times()
        written = _drain(master, seconds)
        after = process.cpu_times()
        used = (after.user - before.user) + (after.system - before.system)
        return {"core": used / seconds, "bytes_per_second": written / seconds}
    finally:
        child.terminate()
        _drain(master, 1.0)
        child.kill()
        child.wait()
        os.close(master)


def _drain(master: int, seconds: float) -> int:
    """Read what the app writes for so long; the number of bytes."""
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([master], [], [], left)
        if ready:
            try:
                count += len(os.read(master, 65536))
            except OSError:  # the app has gone
                return count
    return count


def measure(
    what: str, run: Path, seconds: float = 20.0, long: Path | None = None
) -> dict[str, Any]:
    """One of first_paint, keys, charts, idle, memory.  Raises ValueError for another word.

    ``long``: the run whose charts the Dashboard shows while keys are pressed, if another one.
    """
    if what == "first_paint":
        return {screen: asyncio.run(first_paint(run, screen)) for screen in ("debate", "dashboard")}
    if what == "keys":
        runs = {"dashboard": long or run}
        times = {screen: asyncio.run(keys(runs.get(screen, run), screen)) for screen in KEYS}
        every = [took for found in times.values() for took in found.values()]
        spread = {
            name: {"median": statistics.median(found), "slowest": max(found)}
            for name, found in zip(("first", "last"), zip(*every, strict=True), strict=True)
        }
        return {**spread, "screens": times}
    if what == "charts":
        return asyncio.run(charts(run))
    if what == "idle":
        return {screen: idle(run, screen, seconds) for screen in ("dashboard", "debate")}
    if what == "memory":
        return {"megabytes": asyncio.run(memory(run, seconds))}
    raise ValueError(f"nothing called {what!r} to measure")


def main() -> None:
    what, folder, *rest = sys.argv[1:]
    gc.freeze()  # as the app does
    seconds = float(rest[0]) if rest else 20.0
    long = Path(rest[1]) if len(rest) > 1 else None
    sys.stdout.write(json.dumps(measure(what, Path(folder), seconds, long)) + "\n")


if __name__ == "__main__":
    main()
