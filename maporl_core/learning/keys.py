"""What a trained message is called while credit is formed.

Neighbours: ``packing`` makes keys, a method groups by them, estimators see them.  No torch in here.
"""

from __future__ import annotations

from dataclasses import dataclass

from maporl_core.types import Place


@dataclass(frozen=True, slots=True)
class MessageKey:
    """Where a trained message comes from, and whose it is."""

    place: Place
    problem: str
    policy: str
    sample: int = 0
    phase: str = "answer"
