"""The optimiser of one policy: AdamW, its moments in fp32 or in 8 bits.

In: a policy and the run's ``[update]``.  Out: an optimiser over its adapter and value head.
Neighbours: ``updater`` makes one per trained policy; ``assembly`` asks first whether it can.

Moments in 8 bits are quantised in blocks of 256 (Dettmers et al., 2110.02861); weights of fewer
than 4,096 numbers keep theirs in fp32.  Weights and gradients are fp32 either way.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from maporl_core.config.training import UpdateConfig
from maporl_core.errors import ModelError
from maporl_core.models.policy import Policy

EPSILON = 1e-5
_KERNEL = "bitsandbytes::optimizer_update_8bit_blockwise"


def check_optimiser(update: UpdateConfig, device: torch.device) -> None:
    """Raises ModelError where ``update.optimiser`` cannot be made on this device."""
    if update.optimiser == "adamw":
        return
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(
            'update.optimiser = "adamw8bit" needs bitsandbytes: pip install "maporl[quant]"'
        )
    import bitsandbytes

    key = "CUDA" if device.type == "cuda" else "CPU"
    if not _has_kernel(key):
        raise ModelError(
            f'update.optimiser = "adamw8bit": bitsandbytes {bitsandbytes.__version__} has no 8-bit '
            f'optimiser for this device ({key}); install a newer one, or set "adamw"'
        )


def _has_kernel(key: str) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(_KERNEL, key))


def make_optimiser(policy: Policy, update: UpdateConfig) -> torch.optim.Optimizer:
    """AdamW over a policy's weights; its groups keep the rate they begin with in "initial_lr"."""
    groups: list[dict[str, Any]] = [{"params": list(policy.adapter.values()), "lr": update.lr}]
    if policy.value:
        groups.append({"params": list(policy.value.values()), "lr": update.value_lr or update.lr})
    for group in groups:
        group["initial_lr"] = group["lr"]
    if update.optimiser == "adamw":
        return torch.optim.AdamW(groups, weight_decay=update.weight_decay, eps=EPSILON)
    from bitsandbytes.optim import AdamW8bit

    made: torch.optim.Optimizer = AdamW8bit(groups, weight_decay=update.weight_decay, eps=EPSILON)
    return made
