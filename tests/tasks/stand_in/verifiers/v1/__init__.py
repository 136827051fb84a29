"""Tasksets, tasks, rewards and traces, by the names that version 0.4 gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from verifiers.v1.state import State

A, B, C = TypeVar("A"), TypeVar("B"), TypeVar("C")


def concrete(kind: type, base: type) -> Any:
    """The subclass of ``base`` that a class names in its brackets."""
    for parent in kind.__mro__:
        for written in getattr(parent, "__orig_bases__", ()):
            for found in get_args(written):
                if isinstance(found, type) and issubclass(found, base):
                    return found
    return base


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BaseClientConfig(Config):
    pass


class JudgeConfig(BaseClientConfig):
    pass


class TaskConfig(Config):
    judges: list[JudgeConfig] = []


class TasksetConfig(Config):
    id: str = ""
    task: TaskConfig = TaskConfig()


class ToolsetConfig(Config):
    pass


class AgentConfig(Config):
    pass


class Toolset(Generic[A]):
    def __init__(self, config: A) -> None:
        self.config = config


class Env:
    pass


class SingleAgentEnv(Env):
    pass


class Harness:
    pass


class TextContentPart(BaseModel):
    type: Literal["text"] = "text"
    text: str


class SystemMessage(BaseModel):
    role: Literal["system"] = "system"
    content: str | list[TextContentPart]


class UserMessage(BaseModel):
    role: Literal["user"] = "user"
    content: str | list[TextContentPart]


class AssistantMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None = None


Message = SystemMessage | UserMessage | AssistantMessage


class MessageNode(BaseModel):
    parent: int | None = None
    message: Message
    sampled: bool = False


class TaskData(BaseModel):
    model_config = ConfigDict(frozen=True)

    idx: int | None = None
    prompt: str | list[Message] | None = None
    system_prompt: str | None = None
    image: str | None = None


class Reward(BaseModel):
    score: float
    weight: float = 1.0


class TraceTask(BaseModel):
    type: str
    data: Any
    key: str
    hash: str


class AgentInfo(BaseModel):
    config: AgentConfig
    trainable: bool = True


class Trace(BaseModel):
    task: TraceTask
    agent: AgentInfo
    state: State
    nodes: list[MessageNode] = []
    rewards: dict[str, Reward | None] = {}
    ok: bool = False

    @property
    def reward(self) -> float:
        return sum(each.score * each.weight for each in self.rewards.values() if each)

    @property
    def last_reply(self) -> str:
        return (self.nodes[-1].message.content or "").strip()  # type: ignore[union-attr]

    def stop(self, _condition: str) -> None:
        pass


def reward(function: Any = None, weight: float = 1.0) -> Any:
    def marked(found: Callable[..., Any]) -> Callable[..., Any]:
        vars(found).update(reward=True, weight=weight)
        return found

    return marked if function is None else marked(function)


class Task(Generic[A, B, C]):
    NEEDS_CONTAINER = False
    key = hash = ""

    def __init__(self, data: Any, config: Any = None) -> None:
        self.data, self.config = data, config

    async def setup(self, trace: Trace, runtime: Any) -> None: ...

    async def finalize(self, trace: Trace, runtime: Any) -> None: ...

    async def stage_verifier(self, trace: Trace, runtime: Any) -> None: ...

    def hooks(self, mark: str) -> list[Any]:
        names = [name for name in dir(type(self)) if hasattr(getattr(type(self), name), mark)]
        return [getattr(self, name) for name in names]

    async def score(self, trace: Trace) -> None:
        known = {"task": self.data, "trace": trace}
        for each in self.hooks("reward"):
            wanted = inspect.signature(each).parameters
            score = await each(**{name: known[name] for name in wanted if name in known})
            marks = score if isinstance(score, Mapping) else {each.__name__: score}
            for name, value in marks.items():
                trace.rewards[name] = Reward(score=float(value), weight=each.weight)

    @classmethod
    def data_type(cls) -> Any:
        return concrete(cls, TaskData)

    @classmethod
    def toolsets(cls, config: Any) -> list[Any]:
        return []


class Taskset(Generic[A, B]):
    INFINITE = False

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def bounded(self) -> bool:
        return not self.INFINITE

    def load(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        for idx, task in enumerate(self.load()):
            task.data = task.data.model_copy(update={"idx": idx})
            yield task

    @classmethod
    def task_type(cls) -> Any:
        return concrete(cls, Task)

    @classmethod
    def toolsets(cls, config: Any) -> list[Any]:
        return []
