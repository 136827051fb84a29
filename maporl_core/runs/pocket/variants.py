"""What the built-in models differ in: vocabulary, chat markers and size.

Two bases that share neither ids nor markers let agents on different models talk (messages cross
as text).  Read by ``tokenizer``, ``network`` and ``build``.  No torch in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Markers:
    """The special tokens: padding, start of text, who speaks, end of a message."""

    pad: str
    begin: str
    system: str
    user: str
    agent: str
    end: str

    def all(self) -> tuple[str, ...]:
        return (self.pad, self.begin, self.system, self.user, self.agent, self.end)


@dataclass(frozen=True, slots=True)
class Variant:
    """One recipe: a Llama of ``layers`` × ``hidden`` with ``heads`` and a gated MLP ``mlp`` wide.

    ``words`` is the regex of pieces that no token crosses; with ``markers_last`` the special
    tokens take the highest ids instead of the lowest.  At most ``steps`` steps of ``batch``
    discussions (four times as many where they have one turn) at a peak rate of ``lr``.
    """

    name: str
    markers: Markers
    markers_last: bool
    words: str
    hidden: int
    layers: int
    heads: int
    mlp: int
    steps: int
    batch: int
    lr: float


_SCORE = r" ?\(\d\)"  # a verifier score in the compact style: one token

VARIANT: Mapping[str, Variant] = {
    "pocket": Variant(
        name="pocket",
        markers=Markers("<|pad|>", "<|begin|>", "<|system|>", "<|user|>", "<|agent|>", "<|end|>"),
        markers_last=False,
        words=_SCORE + r"| ?[^\s\d(]+| ?\d+|\s+",
        hidden=64,
        layers=2,
        heads=4,
        mlp=192,
        steps=1800,
        batch=64,
        lr=4e-3,
    ),
    "pocket-b": Variant(
        name="pocket-b",
        markers=Markers("[none]", "[start]", "[rules]", "[ask]", "[say]", "[done]"),
        markers_last=True,
        words=_SCORE + r"| ?\p{L}+| ?\d+| ?[^\s\p{L}\d]|\s+",
        hidden=80,
        layers=2,
        heads=5,
        mlp=208,
        steps=2600,
        batch=64,
        lr=4e-3,
    ),
}
