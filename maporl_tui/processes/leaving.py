"""Leaving when the system asks for it, also when the terminal is already gone.

In: SIGTERM and SIGHUP.  Out: the app leaves and gives the terminal back; where nobody takes what it
still wants to write, it ends all the same.  Neighbour: ``app``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from textual.app import App

GRACE = 3.0
"""Seconds to give the terminal back.  A lost one takes nothing: writing to it never ends."""


def leave_on_signals(app: App[Any]) -> None:
    """Let SIGTERM and SIGHUP end the app; call it from the app's own event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
            loop.add_signal_handler(number, _leave, app, number)


def _leave(app: App[Any], number: int) -> None:
    ending = threading.Timer(GRACE, os._exit, (128 + number,))
    ending.daemon = True
    ending.start()
    app.exit()
