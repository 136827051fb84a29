"""Pay with every part of the published reward, 0 where nothing is said."""

from __future__ import annotations

from maporl_core.judging.rewards.maporl import PARTS
from maporl_core.types import Pay

NAMES = tuple(part.name for part in PARTS)


def published(**parts: float) -> Pay:
    unknown = set(parts) - set(NAMES)
    assert not unknown, unknown
    return Pay({name: parts.get(name, 0.0) for name in NAMES})
