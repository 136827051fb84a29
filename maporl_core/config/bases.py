"""The sections that say what agents stand on: [bases.NAME], its engine, [policies.NAME], [engine].

In: plain values.  Out: frozen sections of a ``RunConfig``.  Neighbours: ``schema`` holds them,
``models`` loads bases and policies, ``rollout.engine`` makes engines.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, field_validator

from maporl_core.config.kinded import chosen
from maporl_core.config.kinds import Alpha, Count, Dropout, Rank, Section, Text


class EngineConfig(Section):
    """Who samples for a base; the other keys are those of its kind."""

    kind: str = Field("auto", description="who samples; in_process: with the trainer's own weights")
    max_batch: Count = Field(512, description="rows generated at once")


_CHOSEN = chosen(EngineConfig, "engine")
ChosenEngine = Annotated[EngineConfig, _CHOSEN, SerializeAsAny()]


class BaseModelConfig(Section):
    """One frozen base model that policies stand on."""

    model: str = Field(
        "pocket",
        min_length=1,
        description="hub id, local folder, .gguf file, or built-in: pocket, pocket-b",
    )
    revision: Text | None = Field(None, description="hub revision")
    quantize: Literal["none", "4bit"] = Field("none", description="4bit: QLoRA, needs CUDA")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: float32 on CPU, bfloat16 on CUDA"
    )
    trust_remote_code: bool = Field(False, description="run code that comes with the model")
    gradient_checkpointing: bool = Field(
        False, description="recompute activations in the backward: less memory, more time"
    )
    chat_template: Literal["auto", "none"] = Field(
        "auto", description="none: plain 'User:'/'Assistant:' text even if the model has a template"
    )
    engine: Annotated[EngineConfig | None, _CHOSEN, SerializeAsAny()] = Field(
        None, description="default: as [engine] says"
    )


class PolicyConfig(Section):
    """One adapter and value head on a base."""

    base: str = Field("main", description="name of a section under [bases]")
    adapter: Text | None = Field(None, description="start from this PEFT adapter folder")
    rank: Rank = Field(8, description="LoRA rank r")
    alpha: Alpha = Field(16.0, description="LoRA alpha; the update is scaled by alpha / r")
    dropout: Dropout = Field(0.0, description="LoRA dropout")
    target_modules: Literal["all-linear"] | tuple[str, ...] = Field(
        "all-linear", description="all-linear, or the last parts of module names"
    )

    @field_validator("target_modules", mode="before")
    @classmethod
    def _tuple_modules(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value
