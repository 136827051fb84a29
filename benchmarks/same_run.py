"""Whether two checkouts of the project train the same run, bit by bit.

    python benchmarks/same_run.py --old ../before --new . pocket
    python benchmarks/same_run.py --old ../before --new . own.toml --set train.steps=6
    python benchmarks/same_run.py --runs before/runs/pocket runs/pocket

Each checkout trains the run once, in a process of its own on one thread, with this Python.  Then
everything stored is compared that neither a clock nor the memory of a process decides: messages
with their ids and log-probabilities, every part of every reward, advantages, KL, metrics,
evaluations, and the bytes of the final adapters and value heads.  The stores are read as plain
SQLite, so checkouts with different schemas can be compared.  Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLOCKED = ("time/", "speed/", "memory/")  # metrics of the process and not of the run
OLD_PARTS = (
    *("own", "influence", "critical", "persuaded"),
    *("constructive", "persuasive", "format", "unfinished"),
)
"""Columns of a schema-2 store's rewards; later stores keep a row per part that is not 0."""

Account = dict[str, dict[Any, Any]]


def account(run: Path) -> Account:
    """What one run kept, by kind and then by place."""
    connection = sqlite3.connect(f"{(run / 'run.db').resolve().as_uri()}?mode=ro", uri=True)
    try:
        kept = {
            "metrics": dict(_metrics(connection)),
            "messages": dict(_messages(connection)),
            "tokens": dict(_tokens(connection)),
            "reward parts": dict(_parts(connection)),
            "advantages and KL": dict(_credit(connection)),
            "evaluations": dict(_evaluations(connection)),
        }
    finally:
        connection.close()
    kept["final adapters"] = {
        path.relative_to(run / "final").as_posix(): path.read_bytes()
        for path in sorted((run / "final").rglob("*.safetensors"))
    }
    return kept


def differences(old: Account, new: Account) -> list[str]:
    """A line for every kind that is not the same in both, with the first place that differs."""
    lines = []
    for kind, wanted in old.items():
        found = new[kind]
        odd = [place for place in wanted if place not in found or found[place] != wanted[place]]
        odd += [place for place in found if place not in wanted]
        if odd:
            first = min(odd, key=repr)
            was, now = wanted.get(first, "nothing"), found.get(first, "nothing")
            lines.append(f"{kind}: {len(odd)} differ, first {first}: {was!r:.60} -> {now!r:.60}")
    return lines


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _metrics(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    query = "SELECT n.name, m.step, m.value FROM metrics m JOIN metric_names n ON n.id = m.name"
    for name, step, value in connection.execute(query):
        if not name.startswith(CLOCKED):
            yield (name, step), repr(value)


def _messages(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    said = (
        "correct, score, finish, tokens, prompt_tokens, continues, dropped_context, policy, "
        "answer, text, prompt"
    )
    for row in connection.execute(f"SELECT discussion, turn, agent, {said} FROM messages"):
        yield row[:3], row[3:]


def _tokens(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    query = "SELECT discussion, turn, agent, prompt, ids, logprobs FROM message_tokens"
    for row in connection.execute(query):
        yield row[:3], row[3:]


def _parts(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    if _columns(connection, "reward_terms"):
        query = "SELECT discussion, turn, agent, name, value FROM reward_terms"
        for *place, value in connection.execute(query):
            yield tuple(place), value
        return
    columns = ", ".join(OLD_PARTS)
    for row in connection.execute(f"SELECT discussion, turn, agent, {columns} FROM reward_parts"):
        for name, value in zip(OLD_PARTS, row[3:], strict=True):
            if value != 0:
                yield (*row[:3], name), value


def _credit(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if {"advantage", "kl", "agent"} <= _columns(connection, name)
    ]
    for table in tables:
        query = f"SELECT discussion, turn, agent, total, advantage, kl FROM {table}"
        for row in connection.execute(query):
            yield row[:3], row[3:]


def _evaluations(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    for number, label, summary in connection.execute("SELECT id, label, summary FROM evaluations"):
        yield (number, label), {k: v for k, v in json.loads(summary).items() if k != "seconds"}


def train(checkout: Path, words: list[str], root: Path) -> Path:
    """Train one run by the code of ``checkout``; its folder."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "maporl_core", "run", *words, "--root", str(root)]
    with (root / "output.txt").open("w") as output:
        done = subprocess.run(
            command, cwd=checkout, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode:
        sys.exit(f"{checkout}: exit code {done.returncode}\n{(root / 'output.txt').read_text()}")
    return next(path.parent for path in root.glob("*/run.db"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", type=Path, help="checkout that sets the standard")
    parser.add_argument("--new", type=Path, default=Path(), help="checkout that is compared")
    parser.add_argument("--runs", type=Path, nargs=2, help="two runs that are there already")
    known, words = parser.parse_known_args()
    if known.runs:
        folders = list(known.runs)
    elif known.old:
        words = [str(Path(w).resolve()) if w.endswith(".toml") else w for w in words]
        with tempfile.TemporaryDirectory() as home:
            roots = [Path(home, name) for name in ("old", "new")]
            for root in roots:
                root.mkdir()
            folders = [
                train(checkout, words, root)
                for checkout, root in zip((known.old, known.new), roots, strict=True)
            ]
            sys.exit(report(*folders))
    else:
        parser.error("say --old CHECKOUT, or --runs OLD NEW")
    sys.exit(report(*folders))


def report(old: Path, new: Path) -> int:
    """Print what is the same and what differs; the exit code."""
    wanted, found = account(old), account(new)
    lines = differences(wanted, found)
    for kind, entries in wanted.items():
        print(f"{kind:20} {len(entries):8}")
    print(*(lines or ["the same, bit by bit"]), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    main()
