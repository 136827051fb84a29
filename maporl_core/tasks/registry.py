"""Names to tasks: own ones and those of plug-ins.

In: the ``[task]`` section of the config.  Out: a ``Task``, its data loaded.  Each task's own module
is imported when it is asked for, so that nobody waits for libraries of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from maporl_core.config.doors import TASKS
from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError
from maporl_core.tasks.base import Task

_NAMED: Mapping[str, str] = {"gym": "gym:<name>", "verifiers": "verifiers:<id>"}
"""Tasks whose name goes on behind a colon."""


def available_tasks() -> dict[str, str]:
    """Task names, as ``task.name`` takes them, with one line about each; broken ones left out."""
    kinds = [kind for kind in TASKS.everything() if not kind.fault]
    return {_NAMED.get(kind.name, kind.name): kind.says for kind in kinds}


def make_task(config: TaskConfig) -> Task:
    """The task a config names, with its data loaded.

    Raises ConfigError for an unknown name, suggesting the nearest, and DataError for data that
    cannot be had or read.
    """
    kind = TASKS.find(config.name)
    own = kind.name in TASKS.own
    if own and config.options and kind.name not in ("gym", "verifiers", "pocket"):
        raise ConfigError(
            f"task.options: task {config.name} takes none; they are for gym:<name>, "
            "verifiers:<id> and pocket"
        )
    made: Task = kind.made(config)
    return made
