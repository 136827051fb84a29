"""A run outlives whoever looks at it: a closed terminal or pipe does not end the training.

In: the calls of ``Progress`` for one of the views.  Out: the same calls, until the output is gone;
then none.  Neighbours: ``run`` wraps its view in one; ``live`` and ``lines`` are the views.  The
store and log.txt go on telling what happens.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

from maporl_core.cli.views.lines import JsonLines, PlainLines
from maporl_core.cli.views.live import LiveView
from maporl_core.types import EvalSummary, PairedGain, StepReport

View: TypeAlias = LiveView | PlainLines | JsonLines


class LastingView:
    """A view whose output may break at any moment."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.lost = False

    def show(self, call: Callable[..., Any], *args: Any) -> None:
        """Make a call that writes to the output, or do nothing once that is lost."""
        if self.lost:
            return
        try:
            call(*args)
            sys.stdout.flush()
        except (OSError, SystemExit):  # Rich leaves by SystemExit when a pipe is closed
            self.lost = True
            _write_nowhere()

    def emit(self, event: str, **facts: Any) -> None:
        """One object for machines; the views for people have nothing to say then."""
        view = self._view
        if isinstance(view, JsonLines):
            self.show(lambda: view.emit(event, **facts))

    def __enter__(self) -> Self:
        self.show(self._view.__enter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.show(self._view.__exit__, kind, error, trace)

    def stage(self, name: str, total: int | None = None) -> None:
        self.show(self._view.stage, name, total)

    def advance(self, count: int = 1) -> None:
        self.show(self._view.advance, count)

    def step_done(self, report: StepReport) -> None:
        self.show(self._view.step_done, report)

    def evaluated(self, summary: EvalSummary) -> None:
        self.show(self._view.evaluated, summary)

    def gained(self, gain: PairedGain) -> None:
        self.show(self._view.gained, gain)

    def log(self, level: str, text: str) -> None:
        self.show(self._view.log, level, text)


def _write_nowhere() -> None:
    """What is still in buffers, and whatever comes, goes nowhere instead of failing again."""
    with suppress(OSError, ValueError):
        lost = os.fstat(sys.__stdout__.fileno()) if sys.__stdout__ else None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.__stderr__, sys.__stdout__):
            # stderr stays where it is unless it is the same terminal, file or pipe
            if stream and lost and os.path.samestat(os.fstat(stream.fileno()), lost):
                os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
