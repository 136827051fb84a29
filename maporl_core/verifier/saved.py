"""A fitted verifier on disk: what its card says, and whether weights and base are the right ones.

In: a folder of ``maporl verifier fit`` that anybody may have handed over.  Out: a ``Saved`` record.
Only JSON and safetensors are read; no code that a folder holds or names is ever run.
Neighbours: ``verifier_fit`` writes and loads such folders, ``adapter_files`` reads the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maporl_core.adapter_files import VALUE_FILE, load_adapter
from maporl_core.config import BaseModelConfig, PolicyConfig
from maporl_core.errors import DataError, ModelError
from maporl_core.plain_text import one_line
from maporl_core.policy import Base
from maporl_core.user_paths import is_file
from maporl_core.verifier import files
from maporl_core.verifier.learned import POLICY, LearnedVerifier

CARD_KIND = "verifier"
_HINT = "give a folder made with: maporl verifier fit"


@dataclass(frozen=True, slots=True)
class Saved:
    """What is needed to score with a saved verifier; its weights lie beside the card."""

    base: BaseModelConfig
    base_hash: str
    base_dtype: str
    policy: PolicyConfig
    temperature: float
    max_length: int


def read_saved(folder: Path) -> Saved:
    """Raises DataError when the card is missing or says something impossible."""
    return saved_of(read_card(folder), folder)


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a verifier, not looked at further.  Raises DataError when there is none."""
    card = files.read_json(folder / files.CARD, _HINT)
    if card.get("kind") != CARD_KIND:
        raise DataError(f"{one_line(folder)}: is no verifier; {_HINT}")
    if card.get("version") != 1:
        raise DataError(f"{one_line(folder)}: was made by another version of maporl; fit it again")
    return card


def saved_of(card: Mapping[str, Any], folder: Path) -> Saved:
    """What a card says of scoring.  Raises DataError when that is impossible.

    Code of its own that a base wants is not allowed here, whatever the card says.
    """
    try:
        base = _table(card["base"]) | {"trust_remote_code": False}
        policy = _table(card["policy"]) | {"adapter": None}
        saved = Saved(
            base=BaseModelConfig.model_validate(base),
            base_hash=_text(card["base_hash"]),
            base_dtype=_text(card["base_dtype"]),
            policy=PolicyConfig.model_validate(policy),
            temperature=_number(card["temperature"]),
            max_length=int(_number(card["max_length"])),
        )
    except (KeyError, TypeError, ValueError, OverflowError, ValidationError) as error:
        raise DataError(
            f"{one_line(folder / files.CARD)}: is damaged ({one_line(error, 120)}); {_HINT}"
        ) from error
    if not (0.0 < saved.temperature < 1e6 and 1 < saved.max_length < 1 << 24):
        raise DataError(f"{one_line(folder / files.CARD)}: has an impossible temperature or length")
    return saved


def check_base(base: Base, saved: Saved, folder: Path) -> None:
    """Raises ModelError when the base has other weights than the verifier was fitted on.

    Weights of another precision or quantisation cannot be compared and are taken as they are.
    """
    if base.config.quantize != saved.base.quantize:
        return
    if str(next(base.model.parameters()).dtype) != saved.base_dtype:
        return
    if base.frozen_hash() != saved.base_hash:
        raise ModelError(
            f"{one_line(folder)}: was fitted on {one_line(saved.base.model)} with other weights "
            f"than {one_line(base.config.model)} has; use that base, or fit the verifier again"
        )


def check_head(folder: Path) -> None:
    """Raises ModelError without a score head; adapters may do without one, a verifier may not."""
    if not is_file(folder / VALUE_FILE):
        raise ModelError(f"{one_line(folder)}: no {VALUE_FILE}, which holds the score head")


def verifier_on(base: Base, saved: Saved, folder: Path) -> LearnedVerifier:
    """The verifier of ``folder`` on a base that is loaded and has a policy named ``POLICY``.

    This is how a run shares the agents' base: ``Base`` gets one more policy, ``saved.policy`` under
    the name ``POLICY``.  Raises ModelError where weights are missing, unexpected or made for
    another base.
    """
    check_base(base, saved, folder)
    check_head(folder)
    load_adapter(base.policies[POLICY], folder)
    return LearnedVerifier(base, temperature=saved.temperature, max_length=saved.max_length)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no table")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)
