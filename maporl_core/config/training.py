"""The sections that say how agents learn: [update], [method], [train], [eval], [checkpoint].

In: plain values.  Out: frozen sections of a ``RunConfig``.  Neighbours: ``learning`` reads the
first two, the loop and its evaluations the rest.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from maporl_core.config.kinds import (
    Count,
    Fraction,
    Natural,
    Positive,
    Rate,
    Section,
)


class UpdateConfig(Section):
    """How a step's messages become optimiser steps, whatever the method."""

    lr: Rate = Field(1e-4, description="learning rate of the adapters (AdamW)")
    value_lr: Rate | None = Field(None, description="of the value heads; default: lr")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="learning rate after the warm-up"
    )
    warmup_steps: Natural = Field(0, description="steps over which the learning rate rises")
    epochs: Count = Field(4, description="passes over the messages of a step")
    minibatches: Count = Field(1, description="optimiser steps per epoch")
    micro_tokens: Literal["auto"] | Count = Field(
        "auto",
        description="padded tokens of one forward; auto: what fits. Halved when memory runs out; "
        "changes memory, not the gradient",
    )
    optimiser: Literal["adamw", "adamw8bit"] = Field(
        "adamw", description="adamw8bit: moments in 8 bits, by bitsandbytes"
    )
    max_grad_norm: Positive = Field(1.0, description="per policy")
    weight_decay: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        0.0, description="AdamW weight decay"
    )
    max_bad_steps: Count = Field(
        3, description="stop after so many steps in a row whose loss or reward is not finite"
    )
    mismatch_warn: Positive = Field(
        0.02,
        description="warn if a policy's |mean trainer/sampler ratio - 1| or KL per token is above",
    )
    mismatch_correct: Literal["auto", "none", "token", "sequence"] = Field(
        "auto",
        description="weigh each loss by trainer/sampler ratio of its token, or of its message; "
        "auto: token, and none where the trainer itself samples",
    )
    mismatch_cap: Positive = Field(2.0, description="largest such weight")
    mismatch_floor: Fraction = Field(
        1e-4, description="a message with a token of a smaller ratio is not trained"
    )

    @property
    def verifier_tokens(self) -> int:
        """Padded tokens of one forward of a learned verifier."""
        return 16_384 if self.micro_tokens == "auto" else self.micro_tokens


class MethodSection(Section):
    """How agents learn; the other keys of [method] are those of its kind."""

    kind: str = Field("mappo", description="mappo: multi-agent PPO with a critic")


class TrainConfig(Section):
    """Length and scope of co-training."""

    steps: Natural = Field(100, description="rollout rounds")
    problems_per_step: Count = Field(64, description="problems per rollout round")
    train_turns: Literal["discussion", "all"] = Field(
        "discussion", description="discussion: turn 1 is the frozen base, only turns >= 2 train"
    )
    train_agents: tuple[str, ...] | None = Field(None, description="default: all agents")

    @field_validator("train_agents", mode="before")
    @classmethod
    def _tuple_agents(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class EvalConfig(Section):
    """Held-out evaluation during and around a run."""

    every: Natural = Field(0, description="evaluate every so many steps; 0: only before and after")
    questions: Natural = Field(200, description="held-out questions; 0: no evaluation")
    temperature: Annotated[float, Field(ge=0.0, le=100.0)] = Field(1.0, description="0: greedy")

    @field_validator("temperature")
    @classmethod
    def _greedy_or_warm(cls, value: float) -> float:
        if 0.0 < value < 0.01:
            raise ValueError("eval.temperature: must be 0 (greedy) or at least 0.01")
        return value


class CheckpointConfig(Section):
    every: Natural = Field(25, description="steps between checkpoints; 0: only at the end")
    keep: Count = Field(3, description="newest ones kept beside the best")
