"""From the id of a taskset to its module and what that exports."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import verifiers.v1 as vf


def _exported(taskset_id: str, base: type) -> Any:
    module = import_module(taskset_id.replace("-", "_").lower())
    found = [getattr(module, name) for name in module.__all__]
    return next((each for each in found if issubclass(each, base) and each is not base), None)


def taskset_config_type(taskset_id: str) -> Any:
    return vf.concrete(_exported(taskset_id, vf.Taskset), vf.TasksetConfig)


def load_taskset(config: Any) -> Any:
    return _exported(config.id, vf.Taskset)(config)


def environment_class(taskset_id: str) -> Any:
    return _exported(taskset_id, vf.Env) or vf.SingleAgentEnv


def default_harness_id(taskset_id: str) -> str:
    return taskset_id if _exported(taskset_id, vf.Harness) else "bash"
