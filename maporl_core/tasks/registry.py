"""Names to tasks: the one place that knows them all.

In: the ``[task]`` section of the config.  Out: a ``Task``, its data loaded.  Each task's own module
is imported when it is asked for, so that nobody waits for libraries of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest
from maporl_core.tasks.base import Task

_TASKS: Mapping[str, str] = {
    "pocket": "little word problems with one smudged number, for the built-in agents",
    "gsm8k": "grade-school maths word problems (hub or local copy)",
    "tinygsm": "synthetic word problems answered by small programs (hub or local copy)",
    "anli": "adversarial natural-language inference, rounds 1-3 (hub or local copy)",
    "jsonl": "your own questions and answers, from a file",
    "gym:<name>": "endless problems of a reasoning-gym generator (extra: tasks)",
    "verifiers:<id>": "single-turn tasks of a verifiers taskset (extra: verifiers)",
}


def available_tasks() -> dict[str, str]:
    """Task names, as ``task.name`` takes them, with one line about each."""
    return dict(_TASKS)


def make_task(config: TaskConfig) -> Task:
    """The task a config names, with its data loaded.

    Raises ConfigError for an unknown name, suggesting the nearest, and DataError for data that
    cannot be had or read.
    """
    name = config.name
    if config.options and name.split(":")[0] not in ("gym", "verifiers", "pocket"):
        raise ConfigError(
            f"task.options: task {name} takes none; they are for gym:<name>, verifiers:<id> and "
            "pocket"
        )
    if name == "pocket":
        from maporl_core.tasks import pocket

        return pocket.load(config)
    if name == "gsm8k":
        from maporl_core.tasks import gsm8k

        return gsm8k.load(config)
    if name == "tinygsm":
        from maporl_core.tasks import tinygsm

        return tinygsm.load(config)
    if name == "anli":
        from maporl_core.tasks import anli

        return anli.load(config)
    if name == "jsonl":
        from maporl_core.tasks import jsonl

        return jsonl.load(config)
    if name == "gym" or name.startswith("gym:"):
        from maporl_core.tasks import gym

        return gym.load(config)
    if name == "verifiers" or name.startswith("verifiers:"):
        from maporl_core.tasks import verifiers_env

        return verifiers_env.load(config)
    near = nearest(name, _TASKS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(_TASKS)}"
    raise ConfigError(f"task.name: unknown task {name!r}; {hint}")
