"""Kinds of values in a run description, each with the bounds that make sense of it.

Neighbour: ``config`` builds its sections of them.  Upper bounds are far above what anybody means:
a slip of the keyboard ends as one line and not in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0, le=1e9)]
Rate = Annotated[float, Field(gt=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=1000.0)]
Temperature = Annotated[float, Field(ge=0.01, le=100.0)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Natural = Annotated[int, Field(ge=0, le=1_000_000_000)]
Rank = Annotated[int, Field(ge=1, le=4096)]
Turns = Annotated[int, Field(ge=1, le=100)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
Window = Annotated[int, Field(ge=16, le=1 << 24)]
Alpha = Annotated[float, Field(gt=0.0, le=1e6)]
Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]
ClipLow = Annotated[float, Field(gt=0.0, lt=1.0)]
ClipHigh = Annotated[float, Field(gt=0.0, le=10.0)]
Penalty = Annotated[float, Field(ge=-1.0, le=0.0)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True
    )


def check_names(where: str, names: Sequence[str]) -> None:
    """Raises ValueError for names that are the same, or would be the same folder on some disks."""
    folded = [name.casefold() for name in names]
    repeated = list(
        dict.fromkeys(n for n, f in zip(names, folded, strict=True) if folded.count(f) > 1)
    )
    if repeated:
        how = "used twice" if len(set(repeated)) == 1 else "differ only in capitals"
        raise ValueError(f"{where}: name {how}: {', '.join(repeated)}")
