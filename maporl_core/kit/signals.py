"""Signals of a training process: finish or abandon the step, save, leave.

In: SIGINT, SIGTERM, SIGHUP.  Out: a flag that the loop asks for.  SIGINT and SIGTERM ask to stop; a
second SIGINT leaves at once.  SIGHUP (a lost terminal) is ignored: the run goes on.  While a run is
still loading there is nothing to save, so the first signal ends it then.
Neighbours: ``cli.run`` installs the handlers before it loads anything, ``session`` asks the flag.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from maporl_core.errors import Interrupted


class StopFlag:
    """Whether somebody asked the run to stop, and with which signal.

    ``descriptor``: where the first signal is answered with a line at once; None: nowhere (a view
    that draws itself shows ``answer``).
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self.loading = False
        self.descriptor: int | None = None

    @property
    def raised(self) -> bool:
        return self.signal is not None

    @property
    def answer(self) -> str | None:
        """What becomes of the run now, in one line; None while nobody asked it to stop."""
        if self.signal is None:
            return None
        return f"{self.signal}: stops after this step and saves; Ctrl-C again stops now, unsaved"

    def begin_loading(self) -> None:
        """From now on a signal raises Interrupted where it arrives; one that came before does now.

        For code that leaves nothing half done behind when it is broken off anywhere.
        """
        self.loading = True
        if self.raised:
            raise self._while_loading()

    def end_loading(self) -> None:
        """From now on a signal only raises the flag."""
        self.loading = False

    def _while_loading(self) -> Interrupted:
        return Interrupted(f"stopped by {self.signal} while loading, before anything was changed")

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.raised and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
        if self.loading:
            raise self._while_loading()
        if self.descriptor is not None:
            # A stream may be in the middle of a write that this signal has broken into.
            with suppress(OSError):
                os.write(self.descriptor, f"{self.answer}\n".encode())


@contextmanager
def stop_signals() -> Iterator[StopFlag]:
    """Install the handlers (main thread only; elsewhere the flag is never raised)."""
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    previous = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, flag.handle),
            (signal.SIGTERM, flag.handle),
            (signal.SIGHUP, signal.SIG_IGN),
        )
    }
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
