"""What the learning rate is multiplied by, step after step; pure arithmetic.

Neighbour: ``updater`` sets every optimiser's rate by it.
"""

from __future__ import annotations

import math

from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest

SCHEDULES = ("constant", "linear", "cosine")


def lr_factor(step: int, total: int, warmup: int, kind: str) -> float:
    """What the learning rate is multiplied by in step ``step`` (0-based) of ``total``.

    Rises (step + 1) / warmup over the first ``warmup`` steps, then stays 1 ("constant") or falls
    to 0 at ``total`` ("linear", "cosine"), so the last step still has a rate above 0.
    Raises ConfigError for another kind.
    """
    if kind not in SCHEDULES:
        near = nearest(kind, SCHEDULES, 0.0)
        raise ConfigError(f"update.schedule: none is called {kind!r}; did you mean {near!r}?")
    if step < warmup:
        return (step + 1) / warmup
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    if kind == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if kind == "cosine" else 1.0
