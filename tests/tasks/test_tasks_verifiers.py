"""Tasksets of ``verifiers`` as tasks: what fits, what does not and why, and who is right.

They run with the package where it is installed, and otherwise with a stand-in of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.tasks import verifiers_env
from maporl_core.tasks.base import Task
from maporl_core.tasks.registry import available_tasks, make_task
from maporl_core.tasks.verifiers_env import extract_answer
from maporl_core.types import Problem

STAND_IN = Path(__file__).parent / "stand_in"

SUMS = """
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["Sums"]


class Data(vf.TaskData):
    answer: int


class Config(vf.TasksetConfig):
    plus: int = 10


class Sum(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward(weight=1.0)
    async def boxed(self, trace) -> float:
        return float(trace.last_reply == f"\\\\boxed{{{self.data.answer}}}")

    @vf.reward(weight=0.5)
    async def parts(self, trace) -> dict[str, float]:
        if "write" in trace.last_reply:
            Path(__file__).with_name("written").write_text("x")
        if "raise" in trace.last_reply:
            raise KeyError("gold")
        return {"short": float(len(trace.last_reply) < 30), "spoken": 1.0}

    @vf.reward(weight=-1.0)
    async def rude(self, trace) -> float:
        return float("idiot" in trace.last_reply)


class Sums(vf.Taskset[Sum, Config]):
    def load(self):
        for n in range(40):
            asked = [vf.SystemMessage(content="Add."), vf.UserMessage(content=f"{n} + {n}?")]
            data = Data(prompt=asked, answer=n + n + self.config.plus - 10)
            yield Sum(data, self.config.task)
"""

MISFIT = """
import verifiers.v1 as vf

__all__ = ["Set"]
{above}

class One(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    {task}

class Set(vf.Taskset[One, vf.TasksetConfig]):
    {taskset}
    def load(self):
        for n in range({count}):
            yield One(vf.TaskData({data}), self.config.task)
"""
REWARD = "@vf.reward\n    async def exact(self, trace) -> float:\n        return 1.0\n    "
TOOLS = (
    "@classmethod\n    def toolsets(cls, config):\n        return [Search(vf.ToolsetConfig())]\n"
)
SEARCH = "class Search(vf.Toolset[vf.ToolsetConfig]):\n    pass\n"
JUDGE = "config.model_copy(update={'judges': [vf.JudgeConfig()]})"

MISFITS: dict[str, tuple[dict[str, str], str]] = {
    "container": ({"task": REWARD + "NEEDS_CONTAINER = True"}, "its tasks need a container"),
    "image": ({"data": "prompt='?', image='x'"}, r"its tasks need a runtime \(image\)"),
    "tools": ({"task": REWARD + TOOLS, "above": SEARCH}, r"it has tools \(Search\)"),
    "shared tools": ({"taskset": TOOLS, "above": SEARCH}, r"it has tools \(Search\)"),
    "user opens": ({"data": ""}, "its user opens the conversation"),
    "empty": ({"data": "prompt=' '"}, "its prompt is empty"),
    "conversation": (
        {"data": "prompt=[vf.UserMessage(content='a'), vf.AssistantMessage(content='b')]"},
        r"its prompt is a conversation \(user, assistant\)",
    ),
    "judge": (
        {
            "task": REWARD
            + f"def __init__(self, data, config):\n        super().__init__(data, {JUDGE})"
        },
        r"a model judges its replies \(JudgeConfig\)",
    ),
    "no reward": ({"task": "pass"}, "it has no reward"),
    "needs runtime": (
        {"task": REWARD.replace("trace", "trace, runtime")},
        "its reward exact needs a runtime",
    ),
    "setup": (
        {"task": REWARD + "async def setup(self, trace, runtime): ..."},
        r"its tasks prepare a runtime \(setup\)",
    ),
    "turns": (
        {"above": "class Rounds(vf.SingleAgentEnv):\n    pass\n\n\n__all__ += ['Rounds']"},
        "it brings an environment of its own",
    ),
    "failing": (
        {"task": REWARD.replace("1.0", "{}['gold']")},
        r"its rewards fail on the reply .*\(KeyError: 'gold'\)",
    ),
    "penalty": ({"task": REWARD.replace("reward", "reward(weight=-1.0)", 1)}, "positive weight"),
    "no tasks": ({"count": "0"}, "it has no tasks"),
}


def misfit(**parts: str) -> str:
    filled = {"above": "", "task": REWARD, "taskset": "", "data": "prompt=f'{n}?'", "count": "3"}
    return MISFIT.format(**{**filled, **parts})


@pytest.fixture(scope="module", autouse=True)
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder for tasksets of these tests; on the path of the processes that load them."""
    folder = tmp_path_factory.mktemp("tasksets")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(folder)]
        if find_spec("verifiers") is None:
            paths.append(str(STAND_IN))
            patch.syspath_prepend(STAND_IN)
        patch.setenv("PYTHONPATH", os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
        (folder / "sums_of_tests.py").write_text(SUMS)
        yield folder
        verifiers_env._SCORER.close()


def sums(**settings: Any) -> Task:
    values = {"name": "verifiers:sums-of-tests", **settings}
    return make_task(TaskConfig.model_validate(values))


@pytest.fixture(scope="module")
def task(packages: Path) -> Task:
    return sums()


def right(task: Task, message: str, problem: Problem) -> bool | None:
    return task.is_correct(task.extract(message), problem)


def test_tasks_become_problems_with_a_split_by_hash_and_an_order_by_seed(task: Task) -> None:
    train, test = task.size("train"), task.size("test")
    assert train is not None
    assert test is not None
    assert train + test == 40
    assert 1 <= test <= 12  # about a tenth
    rows = task.problems("train", 0, train, seed=3)
    assert rows == sums().problems("train", 0, train, seed=3)
    assert rows[5:7] == task.problems("train", 5, 2, seed=3)
    assert rows != task.problems("train", 0, train, seed=4)
    questions = {p.question for s in ("train", "test") for p in task.problems(s, 0, 40, 0)}
    assert questions == {f"Add.\n\n{n} + {n}?" for n in range(40)}
    assert len({problem.id for problem in rows}) == train


def test_an_answer_is_right_at_the_full_mark_however_its_place_is_written(task: Task) -> None:
    problem = next(p for p in task.problems("train", 0, 40, 0) if p.gold == "14")
    for message in ("<answer>14</answer>", "so \\boxed{14}", "The answer is 14.", "14"):
        assert right(task, message, problem) is True, message
    for message in ("<answer>15</answer>", "\\boxed{}", "", "<think>14", "14 you idiot"):
        assert right(task, message, problem) is False, message
    assert task.is_correct("14", Problem("x", "?", "14", "verifiers", "train", {})) is None


def test_a_share_of_the_full_mark_may_be_enough(packages: Path) -> None:
    half = sums(options={"right_from": 0.5})  # 1.0 of 2.0: short and spoken, without the box
    (problem,) = half.problems("train", 0, 1, 0)
    assert right(half, "<answer>wrong</answer>", problem) is True
    assert right(half, "<answer>" + "long " * 9 + "</answer>", problem) is False
    for share in (0, 1.5, True, "all"):
        with pytest.raises(ConfigError, match="right_from must be above 0 and at most 1"):
            sums(options={"right_from": share})


def test_rewards_that_fail_or_write_files_make_an_answer_wrong(task: Task, packages: Path) -> None:
    (problem,) = task.problems("train", 0, 1, 0)
    assert task.is_correct("raise", problem) is False
    assert task.is_correct("write", problem) is False
    assert task.is_correct("\0\ud800", problem) is False
    written = packages / "written"
    assert not written.exists() or not written.read_text()
    assert task.is_correct(problem.gold, problem) is True


def test_options_are_the_config_of_the_taskset() -> None:
    task = sums(options={"plus": 11})
    problem = next(p for p in task.problems("train", 0, 40, 0) if "4 + 4?" in p.question[-6:])
    assert problem.gold == str(2 * int(problem.question.split()[1]) + 1)
    with pytest.raises(ConfigError, match=r"refuses task.options \(minus: Extra inputs"):
        sums(options={"minus": 1})
    with pytest.raises(ConfigError, match="id is set by the task itself"):
        sums(options={"id": "other"})


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_says_why(name: str, packages: Path) -> None:
    parts, reason = MISFITS[name]
    module = "misfit_" + name.replace(" ", "_")
    (packages / f"{module}.py").write_text(misfit(**parts))
    with pytest.raises(ConfigError, match=f"verifiers:{module} does not fit: .*{reason}") as caught:
        make_task(TaskConfig(name=f"verifiers:{module}"))
    assert "\n" not in str(caught.value)


def test_a_task_that_does_not_fit_is_found_wherever_it_stands(packages: Path) -> None:
    (packages / "third.py").write_text(misfit(data="prompt=None if n == 2 else '?'"))
    with pytest.raises(ConfigError, match="task 2: its user opens the conversation"):
        make_task(TaskConfig(name="verifiers:third"))


def test_an_endless_taskset_needs_a_limit(packages: Path) -> None:
    endless = misfit(taskset="INFINITE = True").replace("range(3)", "iter(int, 1)")
    (packages / "endless.py").write_text(endless.replace("{n}?", "{self.turn()}?") + COUNTING)
    with pytest.raises(ConfigError, match=r"it is endless; set task\.limit"):
        make_task(TaskConfig(name="verifiers:endless"))
    task = make_task(TaskConfig(name="verifiers:endless", limit=20))
    assert (task.size("train") or 0) + (task.size("test") or 0) == 20


COUNTING = """
    count = 0

    def turn(self):
        self.count += 1
        return self.count
"""


def test_the_limit_shortens_every_split() -> None:
    task = sums(limit=2, holdout=0.5)
    assert (task.size("train"), task.size("test")) == (2, 2)


def test_unknown_tasksets_and_a_missing_package_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DataError, match=r"verifiers:no-such cannot be loaded .*no_such"):
        make_task(TaskConfig(name="verifiers:no-such"))
    with pytest.raises(ConfigError, match="needs the id of a taskset"):
        make_task(TaskConfig(name="verifiers"))
    assert "verifiers:<id>" in available_tasks()
    monkeypatch.setattr(verifiers_env, "find_spec", lambda _name: None)
    with pytest.raises(DataError, match=r"pip install 'maporl\[verifiers\]'"):
        sums()


def test_an_older_package_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(verifiers_env, "find_spec", lambda _name: found)
    with pytest.raises(DataError, match=r"verifiers 0\.4 .*an older one is installed"):
        sums()


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("<answer>a</answer> \\boxed{b}", "a"),
        ("x \\boxed{b} y", "b"),
        ("the answer is c. Really", "c"),
        ("  a haiku\nof two lines ", "a haiku\nof two lines"),
        ("\\boxed{never closed", None),
        ("<think>so", None),
        ("x" * 20_001, None),
    ],
)
def test_answers_are_read_from_tag_box_statement_or_the_whole(message: str, answer: Any) -> None:
    assert extract_answer(message) == answer
