"""The engines that come with maporl, as ``config.doors`` names them.  Imports none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maporl_core.config.kinds import Section
from maporl_core.config.schema import EngineConfig
from maporl_core.rollout.engine.base import Engine, Offer

if TYPE_CHECKING:
    from maporl_core.rollout.engine.model import BaseModel


class InProcess:
    says = "samples in process, with the trainer's own weights"
    Options = Section
    offers: frozenset[Offer] = frozenset({"exact_ids", "logprobs", "seeds", "stream"})

    def __new__(cls, base: BaseModel, options: EngineConfig) -> Engine:  # type: ignore[misc]
        from maporl_core.rollout.engine.in_process import HFEngine

        return HFEngine(base, options.max_batch)


class Auto(InProcess):
    says = "the best there is: in_process"
