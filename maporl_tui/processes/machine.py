"""What the machine is doing: processor, memory, GPUs, and how much of it the trainer takes.

In: the trainer's process id and host.  Out: ``Load``, or lines for people.  Neighbours:
``widgets.meters`` shows it.  Reading takes a moment (a child process where there is a GPU), so the
app does it in a thread.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field

import psutil

from maporl_tui.drawing.text import size

_GPU_SECONDS = 3.0
"""How long nvidia-smi may take before it is killed."""
_GPU_PAUSE = 60.0
"""Seconds without another try after it failed."""
_QUERY = (
    "--query-gpu=name,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; ``busy`` in percent (None: not said), memory in bytes."""

    name: str
    busy: float | None
    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Trainer:
    """The trainer's process with its children; ``busy`` in percent of one core, bytes resident."""

    pid: int
    busy: float
    resident: int


@dataclass(frozen=True, slots=True)
class Load:
    """One look.  ``busy`` in percent of all cores; memory in bytes.

    ``elsewhere`` names the host of a trainer that runs on another machine.
    """

    busy: float
    cores: int
    used: int
    total: int
    trainer: Trainer | None = None
    elsewhere: str | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str | None = None


@dataclass(slots=True)
class Machine:
    """Keeps what a percentage is measured against: the look before.  Safe to call from threads."""

    command: str = "nvidia-smi"
    _processes: dict[int, psutil.Process] = field(default_factory=dict)
    _no_gpu_until: float = 0.0
    _gpu_problem: str | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def look(self, pid: int | None = None, host: str | None = None) -> Load:
        """The load now; the first look has nothing to compare with and says 0 %."""
        with self._mutex:
            memory = psutil.virtual_memory()
            here = host in (None, socket.gethostname())
            gpus = self._gpus()
            return Load(
                busy=psutil.cpu_percent(),
                cores=psutil.cpu_count() or 1,
                used=int(memory.total - memory.available),
                total=int(memory.total),
                trainer=self._trainer(pid) if pid is not None and here else None,
                elsewhere=None if here else host,
                gpus=gpus,
                gpu_problem=self._gpu_problem,
            )

    def _trainer(self, pid: int) -> Trainer | None:
        try:
            process = self._known(pid)
            family = [process, *(self._known(p.pid) for p in process.children(recursive=True))]
        except (psutil.Error, OSError):
            self._processes.clear()
            return None
        busy, resident, alive = 0.0, 0, {}
        for one in family:
            try:
                busy += one.cpu_percent()
                resident += one.memory_info().rss
            except (psutil.Error, OSError):
                continue  # a child that ended meanwhile
            alive[one.pid] = one
        self._processes = alive
        return Trainer(pid, busy, resident) if pid in alive else None

    def _known(self, pid: int) -> psutil.Process:
        """The process of the last look: its percentage is over the time since then."""
        known = self._processes.get(pid)
        return known if known is not None and known.is_running() else psutil.Process(pid)

    def _gpus(self) -> tuple[Gpu, ...]:
        now = time.monotonic()
        if now < self._no_gpu_until:
            return ()
        program = shutil.which(self.command)
        if program is None:
            self._no_gpu_until = now + _GPU_PAUSE
            return ()
        try:
            done = subprocess.run(
                [program, *_QUERY],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GPU_SECONDS,
                check=True,
            )
            found = read_gpus(done.stdout.decode("utf-8", "replace"))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self._no_gpu_until = now + _GPU_PAUSE
            self._gpu_problem = f"nvidia-smi gave nothing: {_why(error)}"
            return ()
        self._gpu_problem = None
        return found


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer in {_GPU_SECONDS:g} s"
    if isinstance(error, subprocess.CalledProcessError):
        words = (error.stdout or error.stderr or b"").decode("utf-8", "replace").split("\n")
        return words[0].strip() or f"exit code {error.returncode}"
    return str(error)


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """GPUs from nvidia-smi's lines "name, busy %, used MiB, total MiB".

    A number that is not said ("[N/A]") is None, or 0 for memory.  Raises ValueError.
    """
    found = []
    for line in text.strip().splitlines():
        cells = [cell.strip() for cell in line.rsplit(",", 3)]
        if len(cells) != 4:
            raise ValueError(f"not understood: {line[:60]!r}")
        busy, used, total = (_number(cell) for cell in cells[1:])
        found.append(Gpu(cells[0], busy, int((used or 0) * _MIB), int((total or 0) * _MIB)))
    return tuple(found)


def _number(cell: str) -> float | None:
    return None if cell.startswith("[") or cell.casefold() in ("n/a", "") else float(cell)


def load_lines(load: Load, peaks: tuple[float | None, float | None] = (None, None)) -> list[str]:
    """The load for people, whole numbers only, so that a quiet machine gives the same lines again.

    ``peaks``: the trainer's largest memory so far on the processor's side and on the GPU, in bytes.
    """
    lines = [
        f"CPU {_bar(load.busy)} {load.busy:3.0f}% of {load.cores} cores",
        f"mem {_bar(100 * load.used / max(1, load.total))} {size(load.used)} of {size(load.total)}",
    ]
    for gpu in load.gpus:
        busy = "  –%" if gpu.busy is None else f"{gpu.busy:3.0f}%"
        lines.append(f"GPU {_bar(gpu.busy or 0.0)} {busy} {gpu.name}")
        lines.append(
            f"    {_bar(100 * gpu.used / max(1, gpu.total))} {size(gpu.used)} of {size(gpu.total)}"
        )
    if load.gpu_problem:
        lines.append(load.gpu_problem)
    if load.trainer is not None:
        cores = load.trainer.busy / 100
        lines.append(f"trainer {cores:.1f} cores, {size(load.trainer.resident)}")
    elif load.elsewhere:
        lines.append(f"trainer on {load.elsewhere}: this is another machine")
    for peak, where in zip(peaks, ("", "GPU "), strict=True):
        if peak:
            lines.append(f"trainer's {where}peak {size(peak)}")
    return lines


def _bar(share: float, cells: int = 8) -> str:
    full = min(cells, max(0, round(share / 100 * cells)))
    return "█" * full + "░" * (cells - full)
