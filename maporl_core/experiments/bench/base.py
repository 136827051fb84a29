"""What a benchmark is: something a person waits for, measured, beside what it should be.

In: its options.  Out: ``Found``, figures with their limits, which ``maporl bench`` prints and keeps
as JSON.  Neighbours: ``config.doors`` names the kinds, ``cli.bench`` runs one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from maporl_core.kit.progress import Progress


@dataclass(frozen=True, slots=True)
class Found:
    """``figures``: what was measured, by name; ``limits`` holds the most that each should be, where
    there is a limit, ``goals`` the least.  ``details`` is anything more that fits into JSON.
    """

    figures: Mapping[str, float]
    limits: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    goals: Mapping[str, float] = field(default_factory=dict)


class Bench(Protocol):
    """Made by calling a kind with its options.  ``needs``: modules that must be importable."""

    says: str
    needs: Sequence[str]
    Options: type[BaseModel]

    def measure(self, progress: Progress) -> Found:
        """Raises StoreError or ModelError when it cannot be measured here."""
        ...
