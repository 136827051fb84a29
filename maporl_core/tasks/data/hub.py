"""Rows of datasets on the Hugging Face hub, downloaded once and kept in its cache.

In: a dataset id.  Out: splits of rows, as ``rows.Row``.  Downloads show the hub library's own
progress.  Everything that can go wrong on the way becomes one DataError that says how to use a
local copy; without a network that takes seconds, not minutes, and a cached copy is used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from maporl_core.errors import DataError, MaporlError
from maporl_core.kit.plain_text import one_line
from maporl_core.tasks.data.rows import Row

_CONNECT_SECONDS = 6.0


def hub_splits(hub_id: str, config: str | None, local_hint: str) -> Mapping[str, Iterable[Row]]:
    """Every split of a dataset, downloaded whole.  ``local_hint`` says what a local copy holds.

    Raises DataError.
    """
    with _errors(hub_id, local_hint), _offline_if_unreachable():
        import datasets

        found = datasets.load_dataset(hub_id, config)
    return {str(split): _rows(hub_id, str(split), found[split]) for split in found}


def hub_stream(hub_id: str, split: str, local_hint: str) -> Iterator[Row]:
    """Rows of one split as they arrive, for datasets too big to download for a few rows."""
    with _errors(hub_id, local_hint), _offline_if_unreachable():
        import datasets

        found = datasets.load_dataset(hub_id, split=split, streaming=True)
        yield from _rows(hub_id, split, found)


def _rows(hub_id: str, split: str, found: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for number, values in enumerate(found):
        yield Row(number, f"{hub_id}, split {split}, row {number + 1}", values)


@contextlib.contextmanager
def _errors(hub_id: str, local_hint: str) -> Iterator[None]:
    try:
        yield
    except MaporlError:
        raise
    except Exception as error:  # the libraries' errors share no base
        raise DataError(
            f"dataset {hub_id!r} cannot be had from the hub ({one_line(error)}); use a local copy "
            f"with --set task.path=PATH, where PATH is {local_hint}"
        ) from error


@contextlib.contextmanager
def _offline_if_unreachable() -> Iterator[None]:
    """Switches the hub libraries to their cache when the hub does not answer at all.

    Left to themselves they try for half a minute before they look there.
    """
    import datasets
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or datasets.config.HF_HUB_OFFLINE or reachable(constants.ENDPOINT):
        yield
        return
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = False


def reachable(url: str, seconds: float = _CONNECT_SECONDS) -> bool:
    """Whether something listens there, or at the proxy on the way, within ``seconds``."""
    parts = urlsplit(getproxies().get(urlsplit(url).scheme, url))
    port = parts.port or (80 if parts.scheme == "http" else 443)
    answers: list[bool] = []

    def connect() -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((parts.hostname, port), seconds),
        ):
            answers.append(True)

    # In a thread of its own: looking a name up has no time limit.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(answers)
