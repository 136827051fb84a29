"""The [verifier] section of a run description: who scores messages, and how one is made.

In: plain values.  Out: a frozen ``VerifierConfig``.  Neighbours: ``config`` holds it,
``assembly`` builds the verifier, ``rewards`` asks ``by_score``, ``maporl verifier`` takes its
defaults from ``fit``.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from maporl_core.config.kinds import (
    Alpha,
    Count,
    Dropout,
    Name,
    Natural,
    Positive,
    Rank,
    Rate,
    Section,
    Text,
    Window,
)


class VerifierFitConfig(Section):
    """How a verifier for this task is made; the defaults are the published ones."""

    samples: Count = Field(20, description="answers sampled per question")
    per_question: Count = Field(10, description="right (and as many wrong) ones kept of a question")
    rank: Rank = Field(16, description="LoRA rank r")
    alpha: Alpha = Field(32.0, description="LoRA alpha; the update is scaled by alpha / r")
    dropout: Dropout = Field(0.0, description="LoRA dropout")
    lr: Rate = Field(2e-4, description="peak learning rate (AdamW)")
    epochs: Count = Field(1, description="passes over the training answers")
    batch: Count = Field(8, description="answers per optimiser step")
    max_length: Window = Field(550, description="tokens of question and answer; the end is kept")


class VerifierConfig(Section):
    """Who scores messages: v(t, a) in [0, 1]."""

    kind: str = Field(
        "rule",
        description="rule: v = c.  noisy: drawn around c with a stated AUROC.  learned: a fitted "
        "verifier decides scores and incentives.  mixed: it decides scores, the rule incentives",
    )
    auroc: Annotated[float, Field(ge=0.5, lt=1.0)] = Field(
        0.95, description="noisy: chance that a right answer outscores a wrong one"
    )
    path: Text | None = Field(
        None,
        description="learned, mixed: folder of maporl verifier fit; pocket: the built-in one",
    )
    base: Name | None = Field(
        None,
        description="learned, mixed: section under [bases] that it stands on; default: the one "
        "with the model it was fitted on, else that model apart",
    )
    gap_warn: Positive = Field(
        0.1,
        description="warn each time mean score minus correctness has grown by so much (reward "
        "hacking)",
    )
    refit_every: Natural = Field(
        0, description="learned, mixed: fit on the run's own messages every so many steps; 0: never"
    )
    fit: VerifierFitConfig = VerifierFitConfig()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.on_model and self.path is None:
            raise ValueError(
                f"verifier.path: kind = {self.kind!r} needs a folder made with maporl verifier fit"
            )
        if self.refit_every and not self.on_model:
            raise ValueError(
                f"verifier.refit_every: kind = {self.kind!r} has nothing to fit; set it to 0"
            )
        return self

    @property
    def on_model(self) -> bool:
        """Whether a language model scores."""
        return self.kind in ("learned", "mixed")

    @property
    def by_score(self) -> bool:
        """Whether scores decide what counts as right in the incentives, gold answer or not."""
        return self.kind == "learned"
