"""Builds a store of any size and measures what a person waits for: open, filter, page, charts.

In: a number of messages.  Out: seconds per action.  Neighbours: ``maporl bench store`` prints it.
The store is built by ``StoreWriter`` itself, so its writing speed is measured too.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from maporl_core.store.database import open_for_writing, transaction
from maporl_core.store.metric_rows import insert_metrics
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.records import MessageReward, Paid
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, Message, Pay, Place, Problem

OnMessages = Callable[[int], None]

LIMITS = {"open": 1.0, "filter": 0.2, "page": 0.05, "charts": 0.2}
"""Seconds that each kind of action may take at a million messages (charts: 100,000 steps)."""

FILTERS: Mapping[str, DiscussionFilter] = {
    "none": DiscussionFilter(),
    "corrected": DiscussionFilter(corrected=True),
    "persuaded": DiscussionFilter(persuaded=True),
    "broke": DiscussionFilter(broke=True),
    "all wrong": DiscussionFilter(all_wrong=True),
    "all right": DiscussionFilter(all_right=True),
    "majority wrong": DiscussionFilter(majority_right=False),
    "one step": DiscussionFilter(first_step=3, last_step=3),
    "early steps, broke": DiscussionFilter(last_step=20, broke=True),
    "eval": DiscussionFilter(split="eval"),
    "impossible": DiscussionFilter(all_wrong=True, all_right=True),
    "broke yet all right": DiscussionFilter(broke=True, all_right=True, corrected=False),
    "one problem": DiscussionFilter(problem_id="p17"),
    "frequent word": DiscussionFilter(text="therefore"),
    "frequent beginning": DiscussionFilter(text="the"),
    "phrase": DiscussionFilter(text="so the total"),
    "number": DiscussionFilter(text="4711"),
    "rare word": DiscussionFilter(text="xylophone"),
    "no such word": DiscussionFilter(text="quetzalcoatl"),
    "frequent word, broke": DiscussionFilter(text="therefore", broke=True, all_right=True),
}

_SENTENCE = (
    "we add the apples first and then take away what was eaten so the total is therefore left over "
    "each day she sells half of them for two dollars which gives him more than before because it "
    "costs less per week if they share equally among all friends who came by train last night"
)
_WORDS = _SENTENCE.split()
_RARE = "xylophone"
_PARTS = (
    *("own", "influence", "critical", "persuaded"),
    *("constructive", "persuasive", "format", "unfinished"),
)


def bench_store(
    root: Path,
    messages: int = 1_000_000,
    steps: int = 100_000,
    repeats: int = 5,
    on_messages: OnMessages | None = None,
) -> dict[str, Any]:
    """Build both stores below ``root`` and measure them; everything in the answer fits into JSON.

    ``figures`` and ``limits`` are seconds; ``too_slow`` names the actions over their limit.
    """
    start = time.perf_counter()
    run = build_store(root, messages, on_messages=on_messages)
    built = time.perf_counter() - start
    charts = RunDir.create(root, "bench-charts", "# built for measuring\n")
    build_series(charts, steps)
    figures = {**measure_store(run, repeats), **measure_charts(charts, repeats)}
    return {
        "messages": messages,
        "steps": steps,
        "bytes": run.database.stat().st_size,
        "build_seconds": built,
        "messages_per_second": messages / built,
        "figures": figures,
        "limits": LIMITS,
        "too_slow": too_slow(figures),
    }


def build_store(
    root: Path,
    messages: int,
    *,
    agents: int = 3,
    turns: int = 3,
    words: int = 50,
    name: str = "bench",
    seed: int = 0,
    on_messages: OnMessages | None = None,
) -> RunDir:
    """A run with at least ``messages`` messages of about ``words`` words, 64 discussions a step.

    Discussions differ in flags, words and numbers as those of a real run do.  Deterministic.
    """
    run = RunDir.create(root, name, "# built for measuring\n", {"task": "bench", "steps": "0"})
    dice = random.Random(seed)
    per_step = 64 * agents * turns
    with StoreWriter(run) as writer:
        for step in range(1, -(-messages // per_step) + 1):
            paid = [_paid(dice, agents, turns, words) for _ in range(64)]
            writer.write_step(step, paid, _metrics(dice, step))
            if on_messages is not None:
                on_messages(per_step)
        writer.set_state("finished")
    return run


_CHARTS = tuple(f"chart/{i}" for i in range(24))


def build_series(run: RunDir, steps: int, names: Sequence[str] = _CHARTS) -> None:
    """Add ``steps`` steps of the metrics ``names`` to a run, in large transactions."""
    dice = random.Random(1)
    connection = open_for_writing(run.database)
    try:
        for start in range(1, steps + 1, 1000):
            with transaction(connection):
                for step in range(start, min(start + 1000, steps + 1)):
                    values = {name: dice.gauss(i, 1.0) for i, name in enumerate(names)}
                    insert_metrics(connection, step, values, float(step))
    finally:
        connection.close()


def measure_store(run: RunDir, repeats: int = 5) -> dict[str, float]:
    """Median seconds of each action, by name; kinds before the colon are keys of ``LIMITS``."""
    figures = {"open: first page and status": _median(lambda: _open(run), repeats)}
    with StoreReader(run) as reader:
        for name, wanted in FILTERS.items():
            figures[f"filter: {name}"] = _median(partial(reader.page, wanted), repeats)
            figures[f"filter: count {name}"] = _median(partial(reader.count, wanted), repeats)
        newest = reader.page(limit=1)[0].id
        for place, before in (("newest", None), ("middle", newest // 2), ("oldest", 51)):
            figures[f"page: {place}"] = _median(partial(reader.page, before=before), repeats)
        figures["page: one discussion"] = _median(lambda: reader.discussion(newest // 2), repeats)
        figures["page: 10,000 reward values"] = _median(reader.reward_values, repeats)
    return figures


def measure_cold(run: RunDir) -> dict[str, float]:
    """Seconds of opening and of every filter, each once with nothing of the file in memory.

    Only where the system lets a process drop a file from its cache (Linux); else it is as warm.
    """
    actions: dict[str, Callable[[StoreReader], object]] = {
        "open": lambda reader: (reader.status(), reader.page(), reader.last_events()),
        **{f"filter: {name}": partial(_page, wanted=wanted) for name, wanted in FILTERS.items()},
    }
    figures = {}
    for name, action in actions.items():
        _forget(run.database)
        start = time.perf_counter()
        with StoreReader(run) as reader:
            action(reader)
        figures[f"{name}, cold"] = time.perf_counter() - start
    return figures


def _page(reader: StoreReader, wanted: DiscussionFilter) -> object:
    return reader.page(wanted)


def _forget(path: Path) -> None:
    """Ask the system to keep nothing of the file in memory."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_charts(run: RunDir, repeats: int = 5, points: int = 400) -> dict[str, float]:
    """Median seconds to read all ``chart/…`` series of a run for drawing."""
    with StoreReader(run) as reader:
        names = [name for name in reader.metric_names() if name.startswith("chart/")]
        return {
            f"charts: {len(names)} series": _median(
                lambda: [reader.series(name, points) for name in names], repeats
            )
        }


def too_slow(figures: Mapping[str, float]) -> list[str]:
    """Names of the actions that took longer than their kind may."""
    return [name for name, took in figures.items() if took > LIMITS[name.partition(":")[0]]]


def _open(run: RunDir) -> None:
    with StoreReader(run) as reader:
        reader.status()
        reader.metric_names()
        reader.page()
        reader.last_events()


def _median(action: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def _metrics(dice: random.Random, step: int) -> dict[str, float]:
    return {f"metric/{i}": dice.gauss(step / 1000, 1.0) for i in range(60)}


def _paid(dice: random.Random, agents: int, turns: int, words: int) -> Paid:
    gold = str(dice.randrange(10_000))
    number = dice.randrange(20_000)
    problem = Problem(f"p{number}", f"Problem {number}: {_text(dice, 30)}?", gold, "bench", "train")
    rows = tuple(
        tuple(_message(dice, turn, agent, words, gold) for agent in range(agents))
        for turn in range(turns)
    )
    rewards = {
        Place(0, turn, agent): MessageReward(
            Pay(
                {
                    **dict.fromkeys(_PARTS, 0.0),
                    "own": dice.random(),
                    "influence": dice.random(),
                    "persuaded": dice.choice((0.0, 1.0)),
                }
            ),
            advantage=dice.gauss(0, 1),
            kl=dice.random() / 100,
        )
        for turn in range(turns)
        for agent in range(agents)
    }
    names = tuple(f"agent{i}" for i in range(agents))
    return Paid(Discussion(problem, names, rows), rewards)


def _message(dice: random.Random, turn: int, agent: int, words: int, gold: str) -> Message:
    right = dice.random() < 0.5 + 0.1 * turn
    answer = gold if right else str(dice.randrange(10_000))
    text = f"{_text(dice, words)}. The answer is {answer}."
    ids = tuple(dice.choices(range(32_000), k=words))
    return Message(
        turn=turn,
        agent=agent,
        policy=f"agent{agent}",
        prompt_ids=ids[: words // 2],
        ids=ids,
        logprobs=tuple(-dice.random() for _ in range(4)) * (words // 4),
        text=text,
        finish="stop",
        answer=answer,
        correct=right,
        score=dice.random(),
    )


def _text(dice: random.Random, words: int) -> str:
    chosen = dice.choices(_WORDS, k=words)
    if dice.random() < 1e-4:
        chosen[0] = _RARE
    return " ".join(chosen)
