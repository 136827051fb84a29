"""Multi-agent post-co-training of language models: discussion, rewards, update, evaluation.

``train``, ``evaluate``, ``debate``, ``load_run``, ``load_config``, ``registries`` and ``Run`` are
the Python API (see ``api``).  They are found when they are asked for: importing this package loads
nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from maporl_core.kit.version import __version__ as __version__

if TYPE_CHECKING:
    from maporl_core.api import (
        Run,
        RunConfig,
        debate,
        evaluate,
        load_config,
        load_run,
        registries,
        train,
    )


__all__ = [
    "Run",
    "RunConfig",
    "debate",
    "evaluate",
    "load_config",
    "load_run",
    "registries",
    "train",
]


class _Face(ModuleType):
    """This package, whose ``train`` stays the function whatever imports the module of that name."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module("maporl_core.api"), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):  # the import system's own
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Face
