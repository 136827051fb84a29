"""Asks ``maporl doctor`` in a process of its own whether a run would fit.

In: a source and its changes.  Out: one line, and whether it will run.  Neighbour: the Launch
screen.  The doctor loads torch, which this process never does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maporl_tui.drawing.text import one_line, size

PATIENCE = 120.0
"""Seconds after which the doctor is not waited for any more."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """``ok`` False: the doctor says that it will not run."""

    line: str
    ok: bool = True


async def ask_doctor(source: str, changes: Sequence[str], root: Path) -> Forecast:
    """The doctor's answer.  Cancelling ends the child too."""
    words = ["doctor", source]
    for change in changes:
        words += ["--set", change]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "maporl_core", *words, "--root", str(root), "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), PATIENCE)
    except TimeoutError:
        return Forecast(f"no forecast: the doctor took more than {PATIENCE:.0f} s")
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return read_answer(out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def read_answer(out: str, err: str) -> Forecast:
    """What the doctor printed, in one line: the memory first, then what it found wrong."""
    try:
        answer: dict[str, Any] = json.loads(out)
        findings = [(str(f["level"]), str(f["text"])) for f in answer["findings"]]
        parts = [_memory(answer)] if answer.get("forecast") and answer.get("device") else []
        ok = bool(answer["ok"])
    except (ValueError, KeyError, TypeError):
        lines = [line for line in err.splitlines() if line.startswith("maporl: ")]
        why = lines[-1].removeprefix("maporl: ") if lines else "the doctor gave no answer"
        return Forecast(f"no forecast: {one_line(why, 300)}", ok=not lines)
    findings.sort(key=lambda found: found[0] != "error")
    parts += [f"{'✗' if level == 'error' else '!'} {one_line(text)}" for level, text in findings]
    return Forecast(" · ".join(parts) or "no forecast", ok)


def _memory(answer: dict[str, Any]) -> str:
    forecast, device = answer["forecast"], answer["device"]
    peak, free = size(forecast["peak"]), size(device["free"])
    checkpoint = size(forecast["checkpoint"])
    kind = one_line(device["kind"])
    return f"about {peak} of {free} free on {kind}, {checkpoint} a checkpoint"
