"""A fitted verifier on disk: what its card says, and whether weights and base are the right ones.

In: a folder of ``maporl verifier fit`` that anybody may have handed over.  Out: a ``Saved`` record.
Only JSON and safetensors are read; no code that a folder holds or names is ever run.
Neighbours: ``fitting`` writes and loads such folders, ``adapter_files`` reads the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.errors import DataError, ModelError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.learned import POLICY, LearnedVerifier
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file
from maporl_core.models.adapter_files import (
    ADAPTER_FILE,
    VALUE_FILE,
    load_adapter,
    read_config,
    read_tensors,
)
from maporl_core.models.policy import Base

CARD_KIND = "verifier"
LEAST_LENGTH = 8
"""Tokens below which a row cannot hold a short answer and the end token that is read."""
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
    place = folder / files.CARD
    try:
        base = _table(card, "base") | {"trust_remote_code": False}
        policy = _table(card, "policy") | {"adapter": None}
        saved = Saved(
            base=_section("base", BaseModelConfig, base),
            base_hash=_text(card, "base_hash"),
            base_dtype=_text(card, "base_dtype"),
            policy=_section("policy", PolicyConfig, policy),
            temperature=_number(card, "temperature"),
            max_length=int(_number(card, "max_length")),
        )
    except ValueError as error:
        raise DataError(
            f"{one_line(place)}: is damaged ({one_line(error, 120)}); {_HINT}"
        ) from error
    if not 0.0 < saved.temperature < 1e6:
        raise DataError(f"{one_line(place)}: its temperature is impossible; fit the verifier again")
    if not LEAST_LENGTH <= saved.max_length < 1 << 24:
        raise DataError(
            f"{one_line(place)}: its max_length is impossible; fit the verifier again with at "
            f"least {LEAST_LENGTH} tokens"
        )
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


def check_rank(folder: Path, saved: Saved) -> None:
    """Raises ModelError where card and adapter are of different fits."""
    theirs = read_config(folder).get("r")
    if theirs != saved.policy.rank:
        raise ModelError(
            f"{one_line(folder)}: its adapter is of rank {one_line(repr(theirs), 60)}, and its "
            f"card says {saved.policy.rank}; put the files of one fit together, or fit it again"
        )


def check_files(folder: Path, saved: Saved) -> int:
    """Look at everything that needs no model; returns the hidden width [H] of the base.

    Raises ModelError for a file that is missing, broken, not finite, or of another fit.
    """
    check_head(folder)
    check_rank(folder, saved)
    adapter = read_tensors(folder / ADAPTER_FILE)
    halves = [
        {name.removesuffix(end) for name in adapter if name.endswith(end)}
        for end in (".lora_A.weight", ".lora_B.weight")
    ]
    if not adapter or halves[0] ^ halves[1] or len(adapter) != 2 * len(halves[0]):
        raise ModelError(
            f"{one_line(folder / ADAPTER_FILE)}: does not hold lora_A and lora_B of the same "
            "layers and nothing else; fit the verifier again"
        )
    for name, weight in adapter.items():
        if name.endswith(".lora_A.weight") and weight.shape[:1] != (saved.policy.rank,):
            raise ModelError(
                f"{one_line(folder)}: {one_line(name, 80)} has shape {list(weight.shape)}, of "
                f"another rank than {saved.policy.rank}; fit the verifier again"
            )
    head = {name: tuple(weight.shape) for name, weight in read_tensors(folder / VALUE_FILE).items()}
    width = head.get("weight", ())
    if head.keys() != {"weight", "bias"} or len(width) != 1 or head["bias"] != (1,):
        raise ModelError(
            f"{one_line(folder / VALUE_FILE)}: is no score head (weight [H], bias [1]); fit the "
            "verifier again"
        )
    return width[0]


def verifier_on(base: Base, saved: Saved, folder: Path) -> LearnedVerifier:
    """The verifier of ``folder`` on a base that is loaded and has a policy named ``POLICY``.

    This is how a run shares the agents' base: ``Base`` gets one more policy, ``saved.policy`` under
    the name ``POLICY``.  Raises ModelError where weights are missing, unexpected or made for
    another base.
    """
    check_base(base, saved, folder)
    check_head(folder)
    check_rank(folder, saved)
    load_adapter(base.policies[POLICY], folder)
    return LearnedVerifier(base, temperature=saved.temperature, max_length=saved.max_length)


_Section = TypeVar("_Section", BaseModelConfig, PolicyConfig)


def _section(name: str, kind: type[_Section], values: dict[str, Any]) -> _Section:
    """Raises ValueError that names the first key that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ValueError(_first_fault(name, error)) from None


def _first_fault(name: str, error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    key = ".".join(map(str, (name, *fault["loc"][:1])))
    if fault["type"] == "extra_forbidden":
        return f"{key} is no key of it"
    if len(fault["loc"]) > 1:  # inside a value that may be of several kinds
        return f"{key} is none of what it may be"
    return f"{key} {fault['msg'].removeprefix('Input ').removeprefix('Value error, ')}"


def _field(card: Mapping[str, Any], key: str) -> Any:
    if key not in card:
        raise ValueError(f"it has no {key}")
    return card[key]


def _table(card: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = _field(card, key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is no table")
    return value


def _text(card: Mapping[str, Any], key: str) -> str:
    value = _field(card, key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _number(card: Mapping[str, Any], key: str) -> float:
    value = _field(card, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} is no number")
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{key} is no number that can be used")
    return number
