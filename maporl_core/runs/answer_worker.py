"""A process that keeps agents loaded and answers questions over its pipes, one JSON line at a time.

In: two (or one) sides, each a run and a policy state; then lines such as ``{"ask": 1, "question":
"…", "gold": "7"}``, ``{"cancel": 1}``; the end of the input ends it. Out: lines with an ``event``:
stage, ready, question, text, turn, done, finished, cancelled, problem.  Neighbours:
``own_question`` holds the discussions; the terminal app starts it, because the app itself never
loads a model.

Sides of one run share everything but the adapters, which are loaded before a side speaks.  The
sides speak one after the other.  ``text`` comes at most five times a second per message.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.load import load_stored
from maporl_core.errors import ConfigError, MaporlError
from maporl_core.judging.verifier.keeper import kept_verifier
from maporl_core.kit.progress import Progress, Silent
from maporl_core.runs.own_question import debate, question_of_ones_own
from maporl_core.runs.run_state import load_newest_verifier, load_policy_state
from maporl_core.store.paths import RunDir
from maporl_core.types import Message, Pay, Problem

Emit = Callable[[Mapping[str, Any]], None]

TEXT_INTERVAL = 0.2
"""Seconds between two reports of a message that is being written."""


@dataclass(frozen=True, slots=True)
class Side:
    """Who answers: a run's agents, untrained ("base"), "trained", or as a checkpoint has them."""

    run: RunDir
    policy_state: str

    @classmethod
    def parse(cls, text: str) -> Side:
        """ "PATH::STATE" → a side.  Raises ConfigError when there is no such run."""
        path, separator, state = text.rpartition("::")
        if not separator or not state:
            raise ConfigError(f"side {text!r}: write RUN_FOLDER::base, ::trained or ::step-000010")
        return cls(RunDir.find(Path(path).parent, Path(path).name), state)


class Cancelled(Exception):
    """The question was withdrawn while it was being answered."""


@dataclass(frozen=True, slots=True)
class Question:
    """One line of input; without ``question`` held-out question ``number`` (1-based) is asked."""

    ask: int
    question: str | None
    gold: str | None
    number: int
    temperature: float | None
    seed: int | None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Question:
        """Raises ConfigError when a field is missing or of the wrong type."""
        kinds = {"ask": int, "question": str, "gold": str, "number": int, "seed": int}
        for key, kind in kinds.items():
            value = data.get(key)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise ConfigError(f"{key} must be {kind.__name__}, not {value!r}")
        temperature = data.get("temperature")
        if temperature is not None and not (
            isinstance(temperature, int | float) and temperature >= 0
        ):
            raise ConfigError(f"temperature must be a number >= 0, not {temperature!r}")
        if data.get("ask") is None:
            raise ConfigError('a question needs a number of its own: {"ask": 1, …}')
        return cls(
            ask=data["ask"],
            question=data.get("question") or None,
            gold=data.get("gold") or None,
            number=max(1, data.get("number") or 1),
            temperature=temperature,
            seed=data.get("seed"),
        )


class Worker:
    """Answers questions until its input ends."""

    def __init__(self, sides: Sequence[Side], emit: Emit, progress: Progress) -> None:
        self._sides, self._emit, self._progress = tuple(sides), emit, progress
        self._assemblies: dict[Path, Assembly] = {}
        self._loaded: dict[Path, str] = {}
        self._cancelled: set[int] = set()
        self._waiting: queue.Queue[str | None] = queue.Queue()

    def listen(self, lines: Iterable[str], at_end: Callable[[], None]) -> None:
        """Read lines in a thread of their own, so that a question can be withdrawn at any time.

        ``at_end`` is called in that thread when there are no more.
        """

        def read() -> None:
            self._listen(lines)
            self._waiting.put(None)
            at_end()

        threading.Thread(target=read, daemon=True).start()

    def load(self) -> None:
        """Load what all sides need.  Raises MaporlError with what to do."""
        for side in self._sides:
            if side.run.path not in self._assemblies:
                config = load_stored(side.run.config)
                self._assemblies[side.run.path] = assemble(
                    config, self._progress, kept_verifier(side.run, config)
                )
                load_newest_verifier(side.run, self._assemblies[side.run.path].policies)
        for side in self._sides:
            self._ready(side)  # a missing checkpoint is said before the first question
        self._emit(
            {
                "event": "ready",
                "sides": [
                    {
                        "run": side.run.name,
                        "policy_state": side.policy_state,
                        "agents": [s.name for s in self._assemblies[side.run.path].speakers],
                        "turns": self._assemblies[side.run.path].config.discussion.turns,
                    }
                    for side in self._sides
                ],
            }
        )

    def serve(self) -> None:
        """Answer what ``listen`` hears until its lines end."""
        for line in iter(self._waiting.get, None):
            self._answer_line(line)

    def _listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            if not line.strip():
                continue
            data = _parsed(line)
            if isinstance(data, dict) and isinstance(data.get("cancel"), int):
                self._cancelled.add(data["cancel"])
            else:
                self._waiting.put(line)

    def _answer_line(self, line: str) -> None:
        ask: int | None = None
        try:
            data = _parsed(line)
            if not isinstance(data, dict):
                raise ConfigError("a line must be a JSON object")
            question = Question.read(data)
            ask = question.ask
            self._answer(question)
            self._emit({"event": "finished", "ask": ask})
        except Cancelled:
            self._emit({"event": "cancelled", "ask": ask})
        except MaporlError as error:
            self._emit({"event": "problem", "ask": ask, "text": str(error)})

    def _answer(self, question: Question) -> None:
        problem = self._problem(question)
        self._emit(
            {
                "event": "question",
                "ask": question.ask,
                "question": problem.question,
                "gold": problem.gold,
            }
        )
        for number, side in enumerate(self._sides):
            self._speak(number, side, question, problem)

    def _problem(self, question: Question) -> Problem:
        assembly = self._assemblies[self._sides[0].run.path]
        if question.question is not None:
            return question_of_ones_own(assembly, question.question, question.gold)
        task = assembly.config.task
        size = assembly.task.size(task.eval_split)
        if size is not None and question.number > size:
            raise ConfigError(f"{task.name}/{task.eval_split} has only {size} questions")
        split, place, seed = task.eval_split, question.number - 1, assembly.config.seed
        return assembly.task.problems(split, place, 1, seed)[0]

    def _ready(self, side: Side) -> Assembly:
        """The side's agents with its adapters in place."""
        assembly = self._assemblies[side.run.path]
        if side.policy_state != "base" and self._loaded.get(side.run.path) != side.policy_state:
            load_policy_state(side.run, assembly.policies, side.policy_state)
            load_newest_verifier(side.run, assembly.policies)
            self._loaded[side.run.path] = side.policy_state
        return assembly

    def _speak(self, number: int, side: Side, question: Question, problem: Problem) -> None:
        assembly = self._ready(side)
        config = assembly.config
        where = {"ask": question.ask, "side": number}
        heard: dict[tuple[int, int], float] = {}

        def on_text(turn: int, agent: int, text: str) -> None:
            self._check(question.ask)
            now = time.monotonic()
            if now >= heard.get((turn, agent), 0.0):
                heard[turn, agent] = now + TEXT_INTERVAL
                self._emit({"event": "text", **where, "turn": turn, "agent": agent, "text": text})

        def on_turn(row: Sequence[Message]) -> None:
            messages = [_message(message) for message in row]
            self._emit({"event": "turn", **where, "turn": row[0].turn, "messages": messages})
            self._check(question.ask)

        temperature = question.temperature
        found = debate(
            assembly,
            problem,
            side.policy_state,
            temperature=config.eval.temperature if temperature is None else temperature,
            seed=config.seed if question.seed is None else question.seed,
            on_text=on_text,
            on_turn=on_turn,
        )
        self._emit(
            {
                "event": "done",
                **where,
                "stopped_early": found.discussion.stopped_early,
                "rewards": _rewards(found.rewards),
            }
        )

    def _check(self, ask: int) -> None:
        if ask in self._cancelled:
            raise Cancelled


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _message(message: Message) -> dict[str, Any]:
    return {
        "agent": message.agent,
        "policy": message.policy,
        "text": message.text,
        "answer": message.answer,
        "correct": message.correct,
        "score": message.score,
        "finish": message.finish,
        "dropped_context": message.dropped_context,
    }


def _rewards(
    rewards: tuple[tuple[Pay, ...], ...] | None,
) -> list[list[dict[str, float]]] | None:
    if rewards is None:
        return None
    return [[{**pay.parts, "total": pay.total} for pay in row] for row in rewards]


class Stages(Silent):
    """Reports loading as events; everything else is silent."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def stage(self, name: str, total: int | None = None) -> None:
        self._emit({"event": "stage", "text": name, "total": total})

    def log(self, level: str, text: str) -> None:
        if level != "info":
            self._emit({"event": "stage", "text": text, "total": None})


def lines_of(stream: Any) -> Iterator[str]:
    """Lines as they come; the end when the stream is closed from the other side."""
    while True:
        line = stream.readline()
        if not line:
            return
        yield line
