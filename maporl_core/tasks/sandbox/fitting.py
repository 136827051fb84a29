"""Which tasksets of ``verifiers`` can be a task here: one prompt, one reply, rewards in code.

In: the package, a taskset or one of its tasks.  Out: one line that says what is in the way, or "".
Neighbours: ``verifiers`` asks, inside its bounded process.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

_RUNTIME_HOOKS = ("setup", "finalize", "stage_verifier")
_RUNTIME_DATA = ("image", "workdir", "agent_user", "skills", "artifacts")


def no_fit(vf: Any, loaders: Any, taskset: Any, taskset_id: str) -> str:
    """What a taskset needs that a discussion does not have."""
    task, config = type(taskset).task_type(), taskset.config
    if loaders.environment_class(taskset_id) is not vf.SingleAgentEnv:
        return "it brings an environment of its own (several turns or agents)"
    if loaders.default_harness_id(taskset_id) == taskset_id:
        return "it brings a harness of its own"
    if task.NEEDS_CONTAINER:
        return "its tasks need a container"
    tools = [*type(taskset).toolsets(config), *task.toolsets(config.task)]
    if tools:
        return f"it has tools ({', '.join(sorted({type(tool).__name__ for tool in tools}))})"
    changed = [name for name in _RUNTIME_HOOKS if getattr(task, name) is not getattr(vf.Task, name)]
    if changed:
        return f"its tasks prepare a runtime ({', '.join(changed)})"
    unkept = [name for name, at in task.data_type().model_fields.items() if at.exclude]
    if unkept:
        return f"its task data has fields that are not written out ({', '.join(unkept)})"
    return ""


def no_fit_task(vf: Any, task: Any) -> str:
    """What one task needs that a discussion does not have."""
    asked = [name for name in _RUNTIME_DATA if getattr(task.data, name, None)]
    if asked:
        return f"its tasks need a runtime ({', '.join(asked)})"
    return _no_conversation(task.data) or _no_rewards(vf, task)


def _no_conversation(data: Any) -> str:
    if data.prompt is None:
        return "its user opens the conversation"
    if not any(text.strip() for role, text in turns(data) if role == "user"):
        return "its prompt is empty"
    if isinstance(data.prompt, str):
        return ""
    roles = [message.role for message in data.prompt]
    if not set(roles) <= {"system", "user"} or roles.count("user") != 1 or roles[-1] != "user":
        return f"its prompt is a conversation ({', '.join(roles)[:80]})"
    for message in data.prompt:
        if not isinstance(message.content, str) and any(p.type != "text" for p in message.content):
            return "its prompt holds images"
    return ""


def _no_rewards(vf: Any, task: Any) -> str:
    models = sorted({type(found).__name__ for found in _models(vf, task.config)})
    if models:
        return f"a model judges its replies ({', '.join(models)})"
    if _tagged(type(task), "intercept"):
        return "it changes messages on their way (vf.intercept)"
    rewards = task.hooks("reward")
    if not rewards:
        return "it has no reward"
    for reward in rewards:
        wanted = inspect.signature(reward).parameters.get("runtime")
        if wanted is not None and wanted.default is inspect.Parameter.empty:
            return f"its reward {reward.__name__} needs a runtime"
    return ""


def _models(vf: Any, config: Any) -> Iterator[Any]:
    """Clients of models that a task's config names, judges among them."""
    for _name, value in config:
        for found in value if isinstance(value, list | tuple) else [value]:
            if isinstance(found, vf.BaseClientConfig):
                yield found


def _tagged(kind: type, mark: str) -> bool:
    return any(hasattr(value, mark) for name in dir(kind) if callable(value := getattr(kind, name)))


def turns(data: Any) -> list[tuple[str, str]]:
    """Role and text of what a task says before the reply."""
    system = [("system", data.system_prompt)] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*system, ("user", data.prompt)]
    return [*system, *((message.role, _text(message.content)) for message in data.prompt)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.type == "text")
