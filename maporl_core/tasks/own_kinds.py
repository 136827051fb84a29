"""The tasks that come with maporl, as ``config.doors`` names them.  Imports none of them.

All share the keys of [task]; ``looks_at`` names those that one task alone looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from maporl_core.config.kinds import Section
from maporl_core.config.schema import TaskConfig
from maporl_core.tasks.base import Task


@dataclass(frozen=True, slots=True)
class OwnTask:
    """The task in the module of that name, whose ``load`` takes the [task] section."""

    module: str
    says: str
    looks_at: tuple[str, ...] = ()
    Options: type[Section] = Section

    def __call__(self, config: TaskConfig) -> Task:
        loaded: Task = import_module(f"maporl_core.tasks.{self.module}").load(config)
        return loaded


Pocket = OwnTask(
    "pocket", "little word problems with one smudged number, for the built-in agents", ("options",)
)
Gsm8k = OwnTask("gsm8k", "grade-school maths word problems (hub or local copy)")
TinyGsm = OwnTask(
    "tinygsm", "synthetic word problems answered by small programs (hub or local copy)"
)
Anli = OwnTask(
    "anli",
    "adversarial natural-language inference, rounds 1-3 (hub or local copy)",
    ("rounds",),
)
Jsonl = OwnTask(
    "jsonl",
    "your own questions and answers, from a file",
    ("grading", "question_key", "answer_key", "choices_key"),
)
Gym = OwnTask("gym", "endless problems of a reasoning-gym generator (extra: tasks)", ("options",))
Verifiers = OwnTask(
    "verifiers_env", "single-turn tasks of a verifiers taskset (extra: verifiers)", ("options",)
)
