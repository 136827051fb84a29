"""Mirrors a run's metrics to TensorBoard, Weights & Biases or trackio.

In: one step's metrics.  Out: the same in another tool.  Neighbours: ``train`` writes to a sink
beside the store, which stays the truth.  The tools are optional extras, imported on first use.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest
from maporl_core.store.reader import RunDir, StoreReader


class MetricSink(Protocol):
    """Where metrics also go."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Mirror one step; values that are not finite numbers are left out."""

    def close(self) -> None:
        """Send what is still waiting."""


class TensorBoardSink:
    """Event files below ``folder``, for ``tensorboard --logdir``."""

    def __init__(self, folder: Path) -> None:
        _needed("tensorboard")
        module = _needed("torch.utils.tensorboard", "tensorboard")
        self._writer = module.SummaryWriter(log_dir=str(folder))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in _finite(metrics).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbSink:
    """One W&B run; a resumed run goes on in the same one."""

    def __init__(self, run: RunDir, project: str = "maporl") -> None:
        module = _needed("wandb")
        self._run: Any = module.init(
            project=project, name=run.name, id=_identity(run), resume="allow", dir=str(run.path)
        )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(_finite(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


class TrackioSink:
    """One trackio run; a resumed run goes on in the same one."""

    def __init__(self, run: RunDir, project: str = "maporl") -> None:
        module = _needed("trackio")
        self._run: Any = module.init(project=project, name=_identity(run), resume="allow")

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(_finite(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


SINKS = ("tensorboard", "wandb", "trackio")


def make_sink(name: str, run: RunDir) -> MetricSink:
    """The sink of this name.  Raises ConfigError for an unknown one or a missing package."""
    if name == "tensorboard":
        return TensorBoardSink(run.path / "tensorboard")
    if name == "wandb":
        return WandbSink(run)
    if name == "trackio":
        return TrackioSink(run)
    near = nearest(name, SINKS)
    hint = f"did you mean {near!r}?" if near else f"one of {', '.join(SINKS)}"
    raise ConfigError(f"unknown tracker {name!r}: {hint}")


def _identity(run: RunDir) -> str:
    """The same for a resumed run, another for a new run of the same name."""
    with StoreReader(run) as reader:
        return f"{run.name}-{int(float(reader.meta()['created']))}"


def _needed(module: str, package: str | None = None) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package or module
        raise ConfigError(
            f"tracking with {name} needs the package {name!r}: pip install 'maporl[track]'"
        ) from error


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
