"""What the built-in models differ in: vocabulary, chat markers and size.

Two bases that share neither ids nor markers let agents on different models talk (messages cross
as text).  Read by ``tokenizer`` and ``build``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """One recipe.  ``layers`` × ``hidden`` with ``heads`` and a gated MLP ``mlp`` wide.

    ``markers`` are the special tokens: padding, start of text, then who speaks (system, user,
    agent), then the end of a message.  ``words`` is the regex of what the tokenizer never cuts
    across; with ``numbers_first`` numbers get the low ids, which moves every other id.
    """

    name: str
    markers: tuple[str, str, str, str, str, str]
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
        markers=("<|pad|>", "<|begin|>", "<|system|>", "<|user|>", "<|agent|>", "<|end|>"),
        words=_SCORE + r"| ?[^\s\d(]+| ?\d+|\s+",
        hidden=64,
        layers=2,
        heads=4,
        mlp=192,
        steps=1200,
        batch=64,
        lr=4e-3,
    ),
    "pocket-b": Variant(
        name="pocket-b",
        markers=("[none]", "[start]", "[rules]", "[ask]", "[say]", "[done]"),
        words=_SCORE + r"| ?\p{L}+| ?\d+| ?[^\s\p{L}\d]|\s+",
        hidden=80,
        layers=2,
        heads=5,
        mlp=224,
        steps=1200,
        batch=64,
        lr=4e-3,
    ),
}
