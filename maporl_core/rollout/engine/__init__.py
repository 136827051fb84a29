"""Sampling engines: token ids in, token ids and log-probabilities out (see ``base``).

``make_engine`` picks one for a base model; torch is loaded only when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maporl_core.config.schema import EngineConfig
from maporl_core.rollout.engine.base import Engine, Offer

if TYPE_CHECKING:
    from maporl_core.rollout.engine.model import BaseModel


def engine_offers(config: EngineConfig) -> frozenset[Offer]:
    """What the engine that ``config`` names can do; no model is needed to know."""
    from maporl_core.rollout.engine.in_process import HFEngine

    return {"auto": HFEngine, "in_process": HFEngine}.get(config.kind, HFEngine).offers


def make_engine(base: BaseModel, config: EngineConfig) -> Engine:
    """The engine that answers for one base and all adapters on it ("auto" and "hf": in process)."""
    from maporl_core.rollout.engine.in_process import HFEngine

    return HFEngine(base, config.max_batch)
