"""Tasksets of the ``verifiers`` package and their rewards; runs inside a bounded worker.

In: {"op": "open" | "rows" | "ready" | "score"} with "id" and "options"; "rows" has "start" and
"most", "score" has "row" and "answers".  Out: {"reason", "endless"}; {"rows", "more", "reason"};
True; a {"reward", "full"} for each answer.  A reason says what does not fit, and is "" otherwise.
Neighbours: ``child`` limits and kills it, ``fitting`` says what fits, ``verifiers_env`` asks.

A row holds a task's data as JSON, as the package keeps it in its traces; scoring builds the task
from it, so that the process that sees what a model wrote never loads a data set.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import Any

from pydantic import ValidationError

from maporl_core.tasks.sandbox.fitting import no_fit, no_fit_task, turns

PAGE = 2**20  # characters of JSON in one reply
_PROBE = "I do not know."


class Tasksets:
    """Loads the library once; a call answers one request."""

    def __init__(self) -> None:
        self.vf = import_module("verifiers.v1")
        self.loaders = import_module("verifiers.v1.utils.loaders")
        self.state_of = import_module("verifiers.v1.state").state_cls
        self.tasksets: dict[str, Any] = {}
        self.pages: dict[str, Pages] = {}

    def __call__(self, request: Mapping[str, Any]) -> Any:
        key = json.dumps([request["id"], request["options"]], sort_keys=True)
        if key not in self.tasksets:
            kind = self.loaders.taskset_config_type(request["id"])
            try:
                config = kind.model_validate({**request["options"], "id": request["id"]})
            except ValidationError as error:
                return {"reason": _options_refused(error), "endless": False}
            self.tasksets[key] = self.loaders.load_taskset(config)
        taskset = self.tasksets[key]
        if request["op"] == "open":
            reason = self.reason(taskset, request["id"])
            return {"reason": reason, "endless": not taskset.bounded}
        if request["op"] == "rows":
            if key not in self.pages or self.pages[key].at > request["start"]:
                self.pages[key] = Pages(taskset, self.vf, request["most"])
            return self.pages[key].read(request["start"])
        if request["op"] == "score":
            return self.score(taskset, request["row"], request["answers"])
        return True

    def reason(self, taskset: Any, taskset_id: str) -> str:
        found = no_fit(self.vf, self.loaders, taskset, taskset_id)
        if found:
            return found
        first = next(iter(taskset), None)
        if first is None:
            return "it has no tasks"
        kind = type(taskset).task_type()
        if type(first) is not kind:
            return f"its tasks are {type(first).__name__}, not {kind.__name__} as it declares"
        found = no_fit_task(self.vf, first)
        if found:
            return found
        try:
            row = first.data.model_dump(mode="json")
            (mark,) = self.score(taskset, row, [_PROBE])
        except Exception as error:  # noqa: BLE001 - whatever a reward of others raises
            cause = error.__cause__ or error
            return f"its rewards fail on the reply {_PROBE!r} ({type(cause).__name__}: {cause})"
        return "" if mark["full"] > 0 else "none of its rewards has a positive weight"

    def score(self, taskset: Any, row: Mapping[str, Any], answers: list[str]) -> list[Any]:
        kind = type(taskset).task_type()
        task = kind(kind.data_type().model_validate(row), taskset.config.task)
        return [asyncio.run(self.mark(task, answer)) for answer in answers]

    async def mark(self, task: Any, answer: str) -> dict[str, float]:
        """What the task's rewards give a conversation that ends in this reply.

        The full mark is the sum of the positive weights: what every reward gives at 1.
        """
        vf = self.vf
        trace = vf.Trace(
            task=vf.TraceTask(
                type=type(task).__name__, data=task.data, key=task.key, hash=task.hash
            ),
            agent=vf.AgentInfo(config=vf.AgentConfig(), trainable=False),
            state=self.state_of(type(task))(),
        )
        kinds = {"system": vf.SystemMessage, "user": vf.UserMessage}
        messages = [kinds[role](content=text) for role, text in turns(task.data)]
        messages.append(vf.AssistantMessage(content=answer))
        for place, message in enumerate(messages):
            parent = place - 1 if place else None
            sampled = place == len(messages) - 1
            trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))
        trace.stop("agent_completed")
        trace.ok = True
        await task.score(trace)
        rewards = list(trace.rewards.values())
        if not rewards or any(reward is None for reward in rewards):
            raise ValueError("not every reward gave a score")
        full = sum(max(0.0, reward.weight) for reward in rewards)
        return {"reward": float(trace.reward), "full": float(full)}


class Pages:
    """Reads a taskset once, from the first task to the last, a page at a time."""

    def __init__(self, taskset: Any, vf: Any, most: int) -> None:
        self.vf = vf
        self.tasks: Iterator[Any] = islice(iter(taskset), most)
        self.at = 0

    def read(self, start: int) -> dict[str, Any]:
        """Rows from ``start`` on; stops with a reason at a task that does not fit."""
        for _ in islice(self.tasks, start - self.at):
            self.at += 1
        rows: list[Any] = []
        size = 0
        for task in self.tasks:
            reason = no_fit_task(self.vf, task)
            if reason:
                return {"rows": [], "more": False, "reason": f"task {self.at}: {reason}"}
            question = "\n\n".join(text for _, text in turns(task.data) if text)
            rows.append({"question": question, "data": task.data.model_dump(mode="json")})
            self.at += 1
            size += len(json.dumps(rows[-1]))
            if size >= PAGE:
                return {"rows": rows, "more": True, "reason": ""}
        return {"rows": rows, "more": False, "reason": ""}


def _options_refused(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"it refuses task.options ({where}: {first['msg']})"
