"""Puts questions to agents through a worker process; the app itself never loads a model.

In: sides ("RUN_FOLDER::STATE") and questions.  Out: the worker's events, in order, to a callback in
the app's own thread.  Neighbours: ``maporl ask-worker`` is the process (``runs.answer_worker`` has
its lines), the Compare screen asks.

The worker is kept for the next question and ends with its input: however the app ends, its end of
the pipe is closed and the worker leaves by itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

Event = Mapping[str, Any]

_LINE_LIMIT = 64 * 1024 * 1024  # a message may be megabytes long
_KEPT_ERRORS = 20


def worker_command(sides: Sequence[str]) -> list[str]:
    """The command line of a worker for these sides."""
    return [sys.executable, "-m", "maporl_core", "ask-worker", *sides]


class Asker:
    """One worker process.

    ``on_event`` hears every event, and one more, ``{"event": "gone", "text": …}``, when the worker
    ends without having been asked to.
    """

    def __init__(
        self,
        sides: Sequence[str],
        on_event: Callable[[Event], None],
        command: Sequence[str] | None = None,
    ) -> None:
        self.sides = tuple(sides)
        self._on_event = on_event
        self._command = list(command or worker_command(sides))
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._count = 0
        self._closing = False
        self._problem = ""

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the worker; its "ready" event says that it can answer.  Raises OSError."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LINE_LIMIT,
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def ask(
        self,
        question: str | None = None,
        gold: str | None = None,
        number: int = 1,
        temperature: float | None = None,
        seed: int | None = None,
    ) -> int:
        """Put a question; its number is in the events of its answer.

        It may be put before the worker is ready.  Raises ConnectionError when the worker is gone.
        """
        self._count += 1
        line = {
            "ask": self._count,
            "question": question,
            "gold": gold,
            "number": number,
            "temperature": temperature,
            "seed": seed,
        }
        await self._send(line)
        return self._count

    async def cancel(self, ask: int) -> None:
        """Withdraw a question; "cancelled" says that it was."""
        with suppress(ConnectionError):
            await self._send({"cancel": ask})

    async def close(self, patience: float = 2.0) -> None:
        """End the worker, gently at first."""
        self._closing = True
        process = self._process
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            for end in (process.terminate, process.kill):
                try:
                    await asyncio.wait_for(process.wait(), patience)
                    break
                except TimeoutError:
                    with suppress(ProcessLookupError):
                        end()
            await process.wait()
        if self._listening is not None:
            await self._listening

    async def _send(self, line: Mapping[str, Any]) -> None:
        process = self._process
        try:
            if process is None or process.stdin is None or process.returncode is not None:
                raise ConnectionError("the worker is not running")
            process.stdin.write((json.dumps(line) + "\n").encode("ascii"))
            await process.stdin.drain()
        except ConnectionError:
            if self._listening is not None:
                await asyncio.wait({self._listening}, timeout=2.0)  # its last words say why
            if self._problem:
                raise ConnectionError(self._problem) from None
            raise

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        errors: deque[str] = deque(maxlen=_KEPT_ERRORS)
        draining = asyncio.create_task(_keep_lines(process.stderr, errors))
        problem_told = False
        while line := await _line(process.stdout):
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            problem_told = event.get("event") == "problem" and event.get("ask") is None
            if problem_told:
                self._problem = str(event.get("text"))
            self._on_event(event)
        await process.wait()
        await draining
        if not self._closing and not problem_told:
            last = errors[-1] if errors else f"exit code {process.returncode}"
            self._on_event({"event": "gone", "text": f"the worker ended: {last}"})


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end, or when a line is beyond all measure."""
    try:
        return await stream.readline()
    except ValueError:
        return b""


async def _keep_lines(stream: asyncio.StreamReader, kept: deque[str]) -> None:
    """Read stderr to its end, so that the worker never waits for it; keep the last lines."""
    while line := await _line(stream):
        text = line.decode("utf-8", "replace").strip()
        if text:
            kept.append(text)
