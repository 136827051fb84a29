"""Will it run here, and in how much memory?  Facts first, then what is wrong with them.

In: a RunConfig (or None: only the machine) and the runs folder.  Out: a ``Report``.
Neighbours: ``facts`` looks at the machine, ``shapes`` at the models, ``memory`` computes; ``cli``
prints.  Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maporl_core.config.load import config_warnings
from maporl_core.config.schema import RunConfig
from maporl_core.kit.user_paths import exists, user_path
from maporl_core.models.assets import VARIANTS
from maporl_core.models.shapes import KNOWN, ModelShape, ShapeUnknown, read_shape
from maporl_core.runs.doctor import facts
from maporl_core.runs.doctor.facts import Device, Disk, Hub
from maporl_core.runs.doctor.memory import Forecast, Seat, forecast

LOW_DISK = 2 << 30
TIGHT = 0.85
"""A forecast above this share of the free memory is called tight: it is good to about 20%."""
HUB_TASKS = ("gsm8k", "anli", "tinygsm")


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` "error": it will not run; "warning": it may not."""

    level: Literal["error", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """``device`` is the one the config would use; ``forecast`` is None where unknown.

    ``verifier`` says where a learned one stands.
    """

    system: dict[str, str]
    versions: dict[str, str | None]
    devices: tuple[Device, ...]
    disk: Disk
    hub: Hub
    findings: tuple[Finding, ...]
    device: Device | None = None
    forecast: Forecast | None = None
    verifier: str | None = None

    @property
    def ok(self) -> bool:
        return all(finding.level != "error" for finding in self.findings)


def examine(
    config: RunConfig | None,
    root: Path,
    hub: Hub | None = None,
    *,
    ask_hub: bool = False,
    seat: Seat | None = None,
    more: Sequence[Finding] = (),
) -> Report:
    """Look at everything.  Takes seconds: torch is imported.

    ``seat`` is where a learned verifier stands, ``more`` what was found wrong with it.  No network
    is used unless ``ask_hub`` is set and ``hub`` is not given.
    """
    versions = facts.versions()
    findings = [
        Finding("error", f"package {name} is missing; install maporl with: pip install maporl")
        for name in facts.PACKAGES
        if versions[name] is None and name != "maporl"
    ]
    gpus = facts.gpus() if versions["torch"] is not None else ()
    devices = (facts.cpu(), *gpus)
    disk = facts.disk(root)
    hub = hub or facts.hub(ask=ask_hub)
    if disk.free < LOW_DISK:
        findings.append(Finding("warning", f"less than 2 GiB free at {disk.path}"))
    if not facts.writable(root):
        findings.append(Finding("error", f"cannot write in {root}; choose another --root"))
    device = prediction = None
    if config is not None:
        findings += [Finding("warning", text) for text in config_warnings(config)]
        device = chosen_device(config, devices)
        if device is None:
            findings.append(Finding("error", "device: cuda is asked for, but there is none here"))
        findings += [*needs(config, device, versions, hub, seat), *more]
        if device is not None:
            shapes, unknown = base_shapes(config, seat)
            findings += unknown
            if not unknown:
                prediction = forecast(config, shapes, device.kind, device.total, seat)
                findings += room(prediction, device, disk, config)
    return Report(
        *(facts.system(), versions, devices, disk, hub, tuple(findings), device, prediction),
        verifier=seat.words if seat is not None else None,
    )


def chosen_device(config: RunConfig, devices: tuple[Device, ...]) -> Device | None:
    """The device a run of this config would take; None if it is missing."""
    gpu = next((device for device in devices if device.kind == "cuda"), None)
    if config.device == "cuda":
        return gpu
    return gpu if config.device == "auto" and gpu is not None else devices[0]


def base_shapes(
    config: RunConfig, seat: Seat | None = None
) -> tuple[dict[str, ModelShape], list[Finding]]:
    """Shapes of the bases in use, the verifier's too; a warning for each that cannot be told."""
    shapes: dict[str, ModelShape] = {}
    unknown = []
    bases = {p.base: config.bases[p.base] for p in config.resolved_policies().values()}
    if seat is not None:
        bases.setdefault(seat.name, seat.base)
    elif config.verifier.on_model and config.verifier.base is not None:
        bases.setdefault(config.verifier.base, config.bases[config.verifier.base])
    for name, base in bases.items():
        try:
            shapes[name] = read_shape(base)
        except ShapeUnknown as error:
            unknown.append(Finding("warning", f"no memory forecast: {error}"))
    return shapes, unknown


def needs(
    config: RunConfig,
    device: Device | None,
    versions: dict[str, str | None],
    hub: Hub,
    seat: Seat | None = None,
) -> list[Finding]:
    """What models and data of this config need and do not find here."""
    found = []
    bases = [config.bases[policy.base] for policy in config.resolved_policies().values()]
    if seat is not None:
        bases.append(seat.base)
    if any(base.quantize == "4bit" for base in bases):
        if device is not None and device.kind != "cuda":
            found.append(
                Finding("error", "4-bit bases need a CUDA device; set bases.main.quantize=none")
            )
        if versions["bitsandbytes"] is None:
            found.append(Finding("error", "4-bit bases need: pip install 'maporl[quant]'"))
    if config.update.optimiser == "adamw8bit" and versions["bitsandbytes"] is None:
        found.append(Finding("error", "adamw8bit needs: pip install 'maporl[quant]'"))
    if config.task.name.startswith("gym:") and versions["reasoning-gym"] is None:
        found.append(Finding("error", "gym tasks need: pip install 'maporl[tasks]'"))
    if config.task.name.startswith("verifiers:") and versions["verifiers"] is None:
        found.append(Finding("error", "verifiers tasks need: pip install 'maporl[verifiers]'"))
    if hub.state not in ("reachable", "not asked"):
        models = dict.fromkeys(base.model for base in bases if _is_hub_id(base.model))
        found += [
            Finding(
                "warning",
                f"the hub is {hub.state}: {model} must be in its cache already, or set "
                "bases.main.model to a folder or .gguf file",
            )
            for model in models
        ]
        if config.task.name in HUB_TASKS and config.task.path is None:
            found.append(
                Finding(
                    "warning",
                    f"the hub is {hub.state}: {config.task.name} must be in its cache already, or "
                    "set task.path to a local copy",
                )
            )
    return found


def room(prediction: Forecast, device: Device, disk: Disk, config: RunConfig) -> list[Finding]:
    """Whether the forecast fits the device and the disk."""
    found = []
    share = prediction.peak / max(1, device.free)
    advice = "lower update.micro_tokens, engine.max_batch or the number of agents"
    if config.update.micro_tokens == "auto":
        advice = "lower engine.max_batch or the number of agents, or quantize the base"
    if share > 1:
        found.append(Finding("error", f"the forecast exceeds the free memory; {advice}"))
    elif share > TIGHT:
        found.append(
            Finding("warning", f"the forecast takes {share:.0%} of the free memory; {advice}")
        )
    checkpoints = prediction.checkpoint * (config.checkpoint.keep + 2)
    if checkpoints > disk.free:
        found.append(
            Finding("error", "checkpoints will not fit on the disk; lower checkpoint.keep")
        )
    return found


def _is_hub_id(model: str) -> bool:
    path = user_path(model)
    return model in KNOWN or not (model in VARIANTS or path.suffix == ".gguf" or exists(path))
