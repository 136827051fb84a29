"""Where commands print: consoles without markup, JSON, and small formats shared by all views.

In: values and text of any origin.  Out: the terminal, files and pipes.  Neighbours: every command.
Text is never read as markup (``[/red]`` stays as written) and loses its control codes first.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from maporl_core.kit.plain_text import printable

NO_NUMBER = "-"
"""Shown where a number is unknown (no gold answers, nothing measured yet)."""


def out_console() -> Console:
    """stdout for people; 80 columns when it is not a terminal that knows its width."""
    return _console(sys.stdout)


def err_console() -> Console:
    """stderr: progress of commands whose result goes to stdout, and errors."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    # force_terminal keeps FORCE_COLOR from turning a pipe into a live view.
    return Console(
        file=file, markup=False, emoji=False, highlight=False, force_terminal=is_live(file)
    )


def replace_unencodable() -> None:
    """Let stdout and stderr write "?" for what their encoding lacks, instead of giving up."""
    for file in (sys.stdout, sys.stderr):
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="replace")


def is_live(file: TextIO) -> bool:
    """Whether ``file`` is a terminal that can redraw."""
    try:
        return file.isatty()
    except ValueError:  # closed
        return False


def plain(text: object, style: str = "") -> Text:
    """Text for Rich without markup and without control codes."""
    return Text(printable(str(text)), style=style)


def say(*lines: str) -> None:
    """Lines on stdout, without control codes."""
    for line in lines:
        sys.stdout.write(printable(line) + "\n")


def say_error(line: str) -> None:
    """One line on stderr (or a few, where a message has a few)."""
    sys.stderr.write(printable(line) + "\n")


def to_json(value: Any) -> Any:
    """Dataclasses, tuples, paths and mappings as JSON has them; NaN and infinity become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else _scalar(value)


def _scalar(value: Any) -> Any:
    item = getattr(value, "item", None)  # NumPy scalars
    return to_json(item()) if callable(item) else str(value)


def json_text(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON in plain ASCII, so that model text cannot reach a terminal raw."""
    return json.dumps(to_json(value), indent=indent, allow_nan=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def percent(value: float | None) -> str:
    """.5123 → "51.2%"."""
    return NO_NUMBER if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def number(value: float | None) -> str:
    """Three significant digits, thousands grouped: 0.0123, 4.56, 12,345."""
    if value is None or not math.isfinite(value):
        return NO_NUMBER
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Seconds as "1.4 s", "12 s", "3:05" or "2:03:05"."""
    if seconds is None or not math.isfinite(seconds):
        return NO_NUMBER
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bytes_text(count: float | None) -> str:
    """Bytes in powers of 1024: "512 B", "3.2 MiB", "14.1 GiB"."""
    if count is None:
        return NO_NUMBER
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
