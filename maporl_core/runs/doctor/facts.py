"""What this machine has: versions, devices, memory, disk, the hub.

In: a folder for runs.  Out: plain records.  Neighbours: ``doctor`` judges them.  torch is imported
only when devices are asked for.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

PACKAGES = (
    "maporl",
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "pydantic",
    "typer",
    "rich",
)
OPTIONAL = ("bitsandbytes", "vllm", "reasoning-gym", "verifiers", "tensorboard", "wandb", "trackio")
HUB_TIMEOUT = 4.0  # seconds

HubState = Literal["reachable", "unreachable", "offline by setting", "not asked"]


@dataclass(frozen=True, slots=True)
class Device:
    """``free`` and ``total`` in bytes; of the machine's memory for the CPU."""

    kind: str  # "cpu" or "cuda"
    name: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that the runs folder lies (or would lie) on; bytes."""

    path: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Hub:
    endpoint: str
    state: HubState
    detail: str = ""


def system() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
        "executable": sys.executable,
    }


def versions() -> dict[str, str | None]:
    """Installed version of every package that matters, None where it is missing."""
    return {name: version(name) for name in (*PACKAGES, *OPTIONAL)}


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu() -> Device:
    memory = psutil.virtual_memory()
    name = platform.processor() or platform.machine()
    return Device("cpu", f"{name}, {cores()} cores", memory.total, memory.available)


def gpus() -> tuple[Device, ...]:
    """CUDA devices as torch sees them; imports torch."""
    import torch

    if not torch.cuda.is_available():
        return ()
    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append(Device("cuda", torch.cuda.get_device_name(index), total, free))
    return tuple(found)


def disk(root: Path) -> Disk:
    """Of the nearest existing folder at or above ``root``."""
    place = root.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = shutil.disk_usage(place)
    return Disk(str(place), usage.total, usage.free)


def writable(root: Path) -> bool:
    """Whether a run could be made below ``root``; makes nothing."""
    place = root.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def hub(environment: Mapping[str, str] = os.environ, *, ask: bool = True) -> Hub:
    """Whether the model hub answers within ``HUB_TIMEOUT`` seconds; no network unless ``ask``."""
    endpoint = environment.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if environment.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return Hub(endpoint, "offline by setting", "HF_HUB_OFFLINE is set")
    if not ask:
        return Hub(endpoint, "not asked", "maporl doctor --hub asks it")
    try:
        request = urllib.request.Request(endpoint, method="HEAD")
        with urllib.request.urlopen(request, timeout=HUB_TIMEOUT):
            return Hub(endpoint, "reachable")
    except urllib.error.HTTPError:
        return Hub(endpoint, "reachable")  # it answered, if only to say no
    except (OSError, ValueError) as error:
        return Hub(endpoint, "unreachable", str(getattr(error, "reason", error)))
