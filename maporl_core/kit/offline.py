"""Keeps the hub libraries off the network while a run goes on.

In: nothing.  Out: a context inside which transformers, datasets and the hub's client, here and in
processes started from here, use what is on this machine and ask nobody.  Neighbours: ``train``,
``evaluate``, ``own_question`` and those that make a verifier enter it once data and models are
loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


@contextmanager
def offline() -> Iterator[None]:
    """No hub inside; afterwards as before."""
    # Imported here: the command line loads this module and must not wait for theirs.
    import datasets
    from huggingface_hub import constants

    environment = {name: os.environ.get(name) for name in _SWITCHES}
    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(_SWITCHES, "1"))
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
