"""What a verifier's card says of its worth, checked, for whoever shows it.

In: a card that anybody may have handed over.  Out: its figures, as ``report`` made them, or a
DataError.  Neighbours: ``saved`` reads what is needed to score, ``pages`` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from maporl_core.errors import DataError
from maporl_core.judging.verifier.calibration import Bin
from maporl_core.judging.verifier.pages import FIGURES, RESULTS, RESULTS_BEFORE
from maporl_core.kit.plain_text import one_line

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Whole = Annotated[int, Field(ge=0, lt=1 << 53)]
Known = Annotated[float, Field(allow_inf_nan=False)] | None  # None: no such answers


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Bin(_Table):
    low: Share
    high: Share
    count: Whole
    mean_score: Share
    share_right: Share


class _Group(_Table):
    answers: Whole
    auroc: Known
    auroc_within_questions: Known
    accuracy: Known


class _Ablation(_Table):
    auroc: Known
    auroc_within_questions: Known


class _Side(_Table):
    reliability: Annotated[list[_Bin], Field(max_length=100)]
    by_difficulty: Annotated[dict[str, _Group], Field(max_length=100)]


_SIDE_FIELDS: dict[str, Any] = {key: (Known, ...) for key, _ in FIGURES}
_WholeSide = create_model("_WholeSide", __base__=_Side, **_SIDE_FIELDS)


class _Results(_Table):
    valid: _WholeSide
    test: _WholeSide
    without_question: _Ablation
    question_only: _Ablation


def results_of(card: Mapping[str, Any], place: Path) -> Mapping[str, Any]:
    """The figures of a card, as they stand there.  Raises DataError when they are not whole."""
    found = card.get(RESULTS, card.get(RESULTS_BEFORE))
    try:
        _Results.model_validate(found)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise DataError(
            f"{one_line(place)}: has no whole figures ({one_line(f'{RESULTS}.{key}'.strip('.'))}); "
            "fit the verifier again to measure it"
        ) from None
    assert isinstance(found, Mapping)
    return found


def reliability_bins(side: Mapping[str, Any]) -> list[Bin]:
    """Bins of one split of ``results_of``."""
    return [Bin(**{key: b[key] for key in _Bin.model_fields}) for b in side["reliability"]]
