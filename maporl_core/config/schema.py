"""The one description of a run: strict, typed, TOML in and TOML out.

In: a preset name or a TOML file, plus ``--set a.b=c`` overrides.  Out: a frozen ``RunConfig``.
Neighbours: every stage takes its own section of it; ``store`` keeps the resolved text; the app
builds its form from ``config.keys``.  No torch in here.
Reading files and overrides lives in ``config.load``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from maporl_core.config.bases import BaseModelConfig as BaseModelConfig
from maporl_core.config.bases import ChosenEngine
from maporl_core.config.bases import EngineConfig as EngineConfig
from maporl_core.config.bases import PolicyConfig as PolicyConfig
from maporl_core.config.kinded import chosen
from maporl_core.config.kinds import (
    Count,
    Fraction,
    Name,
    Penalty,
    Section,
    Temperature,
    Text,
    Tokens,
    Turns,
    Weight,
    Window,
    check_names,
)
from maporl_core.config.renamed import renamed
from maporl_core.config.training import CheckpointConfig as CheckpointConfig
from maporl_core.config.training import EvalConfig as EvalConfig
from maporl_core.config.training import MethodSection, UpdateConfig
from maporl_core.config.training import TrainConfig as TrainConfig
from maporl_core.config.verifier import VerifierConfig as VerifierConfig

MAX_AGENTS = 4096  # far more than fit any memory; doctor forecasts what does


class TaskConfig(Section):
    """Which problems are discussed."""

    name: str = Field(
        "pocket", description="pocket, gsm8k, tinygsm, anli, jsonl, gym:<name> or verifiers:<id>"
    )
    path: Text | None = Field(None, description="local file or folder instead of the hub")
    hub_id: Text | None = Field(None, description="dataset id on the hub, if not the task's own")
    train_split: str = Field("train", description="split that co-training draws problems from")
    eval_split: str = Field("test", description="split that evaluation draws problems from")
    limit: Count | None = Field(None, description="use only the first so many rows of a split")
    skip_bad_rows: bool = Field(False, description="leave out unreadable rows instead of stopping")
    rounds: tuple[Literal[1, 2, 3], ...] = Field((1, 2, 3), description="ANLI rounds")
    grading: Literal["number", "maths", "choice", "text"] = Field(
        "number", description="how a jsonl task's answers are compared"
    )
    question_key: str = Field("question", description="jsonl: key of the question")
    answer_key: str = Field("answer", description="jsonl: key of the gold answer")
    choices_key: str = Field("choices", description="jsonl: key of the choices (grading=choice)")
    choice_integers: Literal["refused", "index0", "index1", "text"] = Field(
        "refused",
        description="jsonl: what an integer answer to choices means: counted from 0, from 1, text",
    )
    holdout: Fraction = Field(
        0.1, description="share that becomes the test split, by hash, where data has only one split"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="gym: parameters of the generator; verifiers: the taskset's; pocket: lean",
    )

    @field_validator("rounds", mode="before")
    @classmethod
    def _tuple_rounds(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class AgentConfig(Section):
    """One member of the discussion.  Agents that name the same policy share its adapter."""

    name: Name
    policy: Name | None = Field(None, description="policy it speaks with; default: one of its own")
    role: str = Field("", max_length=100_000, description="system text for this agent")


class DiscussionConfig(Section):
    """How agents talk."""

    turns: Turns = Field(3, description="T")
    feedback: bool = Field(True, description="show the verifier score of each message")
    consensus_stop: bool = Field(
        False, description="stop a problem's discussion when all agents gave the same answer"
    )
    style: Literal["standard", "short", "compact"] = Field(
        "standard",
        description="wording of the prompts; standard: scores as the published probabilities, "
        "short: as bare numbers, compact: for the built-in agents",
    )
    max_new_tokens: Tokens = Field(300, description="length limit of one message")
    max_context: Window | None = Field(
        None, description="context window in tokens; default: the model's own"
    )
    temperature: Temperature = Field(1.0, description="sampling temperature of training rollouts")


class TopologyConfig(Section):
    """Who speaks when, and who reads what."""

    kind: str = Field("all", description="all: everybody speaks in every turn and reads the last")


class RewardSection(Section):
    """What a message is paid; the other keys of [reward] are those of its kind."""

    kind: str = Field(
        "maporl", description="maporl: verifier scores over the turns, incentives, penalties"
    )


class RewardConfig(Section):
    """Keys of the reward "maporl".  Symbols of the paper in brackets."""

    horizon: Literal["discounted", "current", "last"] = Field(
        "discounted", description="scores that count: this and later turns, this, or the last turn"
    )
    share: Literal["team", "own"] = Field(
        "team", description="later scores: mean over agents or own"
    )
    gamma: Fraction = Field(0.3, description="discount over turns [γ]")
    critical: Weight = Field(0.0, description="self-revision against the majority [α0]")
    persuaded: Weight = Field(0.0, description="self-revision with the majority [α1]")
    constructive: Weight = Field(0.0, description="others change against own message [β0]")
    persuasive: Weight = Field(0.0, description="others change towards own message [β1]")
    tie: Literal["majority", "fraction"] = Field("majority", description="verdict of the others")
    format: Penalty = Field(-0.1, description="no parsable answer")
    unfinished: Penalty = Field(-0.1, description="stopped by the length limit")


_Task = Annotated[TaskConfig, chosen(TaskConfig, "task"), SerializeAsAny()]
_Topology = Annotated[TopologyConfig, chosen(TopologyConfig, "topology"), SerializeAsAny()]
_Verifier = Annotated[VerifierConfig, chosen(VerifierConfig, "verifier"), SerializeAsAny()]
_Reward = Annotated[RewardSection, chosen(RewardSection, "reward"), SerializeAsAny()]
_Method = Annotated[MethodSection, chosen(MethodSection, "method"), SerializeAsAny()]
_OF_ITS_KIND: Any = Field(default_factory=dict)
"""No keys: the section is made by the class of its default kind."""


class RunConfig(Section):
    """Everything that decides a run."""

    name: Name = Field("pocket", description="name of the run and of its folder")
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        0, description="decides data order, sampling, shuffling and adapters"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is")
    task: _Task = _OF_ITS_KIND
    bases: dict[Name, BaseModelConfig] = Field(default_factory=lambda: {"main": BaseModelConfig()})
    policies: dict[Name, PolicyConfig] = Field(
        default_factory=dict, description="default: one per agent, on the first base"
    )
    agents: tuple[AgentConfig, ...] = (
        AgentConfig(name="Ada"),
        AgentConfig(name="Bo"),
        AgentConfig(name="Cy"),
    )
    discussion: DiscussionConfig = DiscussionConfig()
    topology: _Topology = _OF_ITS_KIND
    verifier: _Verifier = _OF_ITS_KIND
    reward: _Reward = _OF_ITS_KIND
    update: UpdateConfig = UpdateConfig()
    method: _Method = _OF_ITS_KIND
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    engine: ChosenEngine = _OF_ITS_KIND

    @model_validator(mode="before")
    @classmethod
    def _new_names(cls, data: Any) -> Any:
        return renamed(data)[0] if isinstance(data, Mapping) else data

    @field_validator("agents", mode="before")
    @classmethod
    def _tuple_of_agents(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        if not self.agents:
            raise ValueError("agents: at least one agent is needed")
        if len(self.agents) > MAX_AGENTS:
            raise ValueError(
                f"agents: {len(self.agents)} of them; at most {MAX_AGENTS} can discuss"
            )
        names = [agent.name for agent in self.agents]
        check_names("agents", names)
        check_names("policies", list(dict.fromkeys((*self.policies, *self.agent_policies()))))
        if not self.bases:
            raise ValueError("bases: at least one base model is needed")
        for agent in self.agents:
            if agent.policy is not None and agent.policy not in self.policies:
                raise ValueError(
                    f"agents: {agent.name} names policy {agent.policy!r}, which [policies] lacks"
                )
        for name, policy in self.policies.items():
            if policy.base not in self.bases:
                raise ValueError(
                    f"policies.{name}.base: {policy.base!r} is not one of "
                    f"{', '.join(sorted(self.bases))}"
                )
        if self.verifier.base is not None and self.verifier.base not in self.bases:
            raise ValueError(
                f"verifier.base: {self.verifier.base!r} is not one of "
                f"{', '.join(sorted(self.bases))}"
            )
        for name in self.train.train_agents or ():
            if name not in names:
                raise ValueError(f"train.train_agents: {name!r} is not one of {', '.join(names)}")
        return self

    def engine_of(self, base: str) -> EngineConfig:
        """Who samples for a base: its own engine, or the run's."""
        own = self.bases[base].engine if base in self.bases else None
        return own or self.engine

    def discussions_at_once(self) -> int:
        """As many as fit every engine's ``max_batch`` with one message of each agent; at least 1.

        Bases without an engine of their own share that of the run.
        """
        policies = self.resolved_policies()
        spoken = [policies[name].base for name in self.agent_policies()]
        own = [base for base in dict.fromkeys(spoken) if self.bases[base].engine is not None]
        fits = [self.engine_of(base).max_batch // spoken.count(base) for base in own]
        shared = sum(base not in own for base in spoken)
        if shared:
            fits.append(self.engine.max_batch // shared)
        return max(1, min(fits))

    def agent_policies(self) -> tuple[str, ...]:
        """Policy name of each agent, in agent order; an agent without one owns its own."""
        return tuple(agent.policy or agent.name for agent in self.agents)

    def resolved_policies(self) -> dict[str, PolicyConfig]:
        """Every policy some agent speaks with, in order of first use."""
        first_base = next(iter(self.bases))
        return {
            name: self.policies.get(name, PolicyConfig(base=first_base))
            for name in dict.fromkeys(self.agent_policies())
        }

    def trained_policies(self) -> frozenset[str]:
        """Policies that some trained agent speaks with."""
        trained = self.train.train_agents
        return frozenset(
            policy
            for agent, policy in zip(self.agents, self.agent_policies(), strict=True)
            if trained is None or agent.name in trained
        )
