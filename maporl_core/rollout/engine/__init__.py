"""Sampling engines: token ids in, token ids and log-probabilities out (see ``base``).

``make_engine`` picks one for a base model; torch is loaded only when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maporl_core.config.doors import ENGINES
from maporl_core.config.schema import EngineConfig
from maporl_core.rollout.engine.base import Engine, Offer

if TYPE_CHECKING:
    from maporl_core.rollout.engine.model import BaseModel


def engine_offers(config: EngineConfig) -> frozenset[Offer]:
    """What the engine that ``config`` names can do; no model is needed to know."""
    offers: frozenset[Offer] = ENGINES.find(config.kind).made.offers
    return offers


def make_engine(base: BaseModel, config: EngineConfig) -> Engine:
    """The engine of ``config.kind`` that answers for one base and all adapters on it."""
    made: Engine = ENGINES.find(config.kind).made(base, config)
    return made
