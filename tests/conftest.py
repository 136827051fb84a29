"""What every test runs under: one thread, no network, no terminal settings, caches of its own."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Read once by torch and by the hub's client when they are imported, so set before any test module.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

# Caches and settings of whoever runs the tests are neither read nor written.
_HOME = tempfile.TemporaryDirectory(prefix="maporl-tests-")
for _name in ("HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
    os.environ[_name] = str(Path(_HOME.name) / _name.lower())
for _name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)

# The same examples on every machine, and no time limit for one that was merely unlucky.
settings.register_profile("maporl", derandomize=True, deadline=None, database=None)
settings.load_profile("maporl")

# Test modules share samples across rooms, whichever of them is run alone.
sys.path += [str(room) for room in Path(__file__).parent.iterdir() if room.is_dir()]

_LOOPBACK = ("127.", "::1", "localhost")


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """A test that reaches for the network fails at once, on every machine alike."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = str(address[0]) if isinstance(address, tuple) else ""
        if host and not host.startswith(_LOOPBACK):
            raise OSError(f"tests have no network: {host}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield
