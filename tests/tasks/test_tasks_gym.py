"""Procedural problems of reasoning-gym: seeded, graded by their own scoring, never run as code."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.tasks import gym
from maporl_core.tasks.base import Task
from maporl_core.tasks.registry import make_task
from maporl_core.tasks.sandbox.gym import check_expression, literal_or_arithmetic
from maporl_core.types import Problem

needs_gym = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="needs the extra 'tasks'"
)


def chain_sum(**settings: object) -> Task:
    return make_task(TaskConfig.model_validate({"name": "gym:chain_sum", **settings}))


def right(task: Task, message: str, problem: Problem) -> bool | None:
    return task.is_correct(task.extract(message), problem)


@needs_gym
def test_problems_are_a_function_of_split_position_and_seed() -> None:
    task = chain_sum()
    whole = task.problems("train", 495, 10, seed=3)  # over the end of a generator's chunk
    assert whole == [task.problems("train", 495 + n, 1, seed=3)[0] for n in range(10)]
    assert whole == chain_sum().problems("train", 495, 10, seed=3)
    assert len({problem.id for problem in whole}) == 10
    assert {p.id for p in whole}.isdisjoint(p.id for p in task.problems("train", 495, 10, seed=4))
    assert task.size("train") is None


@needs_gym
def test_train_and_test_never_share_a_generator_seed() -> None:
    task = chain_sum()
    assert task.size("test") == gym.TEST_SIZE

    def seeds(problems: list[Problem]) -> set[int]:
        return {p.meta["gym_seed"] + p.meta["gym_index"] for p in problems}

    test = task.problems("test", 0, 40, seed=0)
    assert max(seeds(test)) < gym.TEST_SIZE
    for seed in range(50):
        assert min(seeds(task.problems("train", 0, 1, seed))) >= gym._FIRST_TRAIN_SEED
    again = {p.id: p for p in task.problems("test", 0, gym.TEST_SIZE, seed=9)}
    assert len(again) == gym.TEST_SIZE
    assert all(again[p.id] == p for p in test)


@needs_gym
def test_answers_are_read_from_tags_and_scored_by_the_generator() -> None:
    task = chain_sum()
    (problem,) = task.problems("train", 0, 1, seed=0)
    gold = problem.gold
    assert gold is not None
    assert right(task, f"so <answer> {gold} </answer>", problem) is True
    assert right(task, f"so \\boxed{{{gold}}}", problem) is True
    assert right(task, f"The answer is {gold}.", problem) is True
    assert task.is_correct(f"+{gold}.00", problem) is True  # its own scoring knows numbers
    for message in (f"<answer>{int(gold) + 1}</answer>", "<answer></answer>", "no idea", ""):
        assert right(task, message, problem) is False
    assert right(task, f"<think><answer>{gold}</answer>", problem) is False


@needs_gym
@pytest.mark.parametrize("name", ["countdown", "n_queens", "string_insertion"])
def test_what_a_model_writes_is_never_run(name: str, tmp_path: Path) -> None:
    task = make_task(TaskConfig(name=f"gym:{name}"))
    (problem,) = task.problems("test", 0, 1, seed=0)
    target = tmp_path / "written"
    for answer in (
        f"__import__('os').system('touch {target}')",
        f"open('{target}', 'w')",
        f"[open('{target}', 'w')]",
        "().__class__.__base__.__subclasses__()",
        "exit()",
        "\0\ud800",
    ):
        assert task.is_correct(answer, problem) is False
    assert not target.exists()
    assert problem.gold is None or task.is_correct(problem.gold, problem) is True


@needs_gym
def test_an_answer_built_to_hang_is_wrong_soon() -> None:
    task = make_task(TaskConfig(name="gym:countdown"))
    (problem,) = task.problems("test", 0, 1, seed=0)
    start = time.monotonic()
    assert task.is_correct("9**9**9**9", problem) is False
    assert time.monotonic() - start < 60  # 3 on an idle machine; without limits it is endless
    assert problem.gold is not None
    assert task.is_correct(problem.gold + " ", problem) is True


@needs_gym
def test_unknown_generators_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no generator 'chain_sun'; did you mean chain_sum"):
        make_task(TaskConfig(name="gym:chain_sun"))
    for name in ("gym", "gym:"):
        with pytest.raises(ConfigError, match="needs a generator, for example gym:chain_sum"):
            make_task(TaskConfig(name=name))


@needs_gym
def test_options_reach_the_generator_and_wrong_ones_are_refused() -> None:
    task = chain_sum(options={"min_terms": 2, "max_terms": 2})
    assert all(
        p.question.count("+") + p.question.count(" - ") == 1
        for p in task.problems("train", 0, 9, 0)
    )
    with pytest.raises(ConfigError, match="min_terms must be positive"):
        chain_sum(options={"min_terms": -3})
    with pytest.raises(ConfigError, match=r"task.options: .*no_such_option"):
        chain_sum(options={"no_such_option": 1})
    with pytest.raises(ConfigError, match="seed"):
        chain_sum(options={"seed": 1})


@needs_gym
def test_unknown_splits_are_answered_with_those_that_exist() -> None:
    with pytest.raises(DataError, match="no split 'dev'; it has train, test"):
        chain_sum().problems("dev", 0, 1, 0)


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gym, "find_spec", lambda _name: None)
    with pytest.raises(DataError, match=r"pip install 'maporl\[tasks\]'"):
        chain_sum()


@pytest.mark.parametrize(
    ("source", "value"),
    [("[1, 'a']", [1, "a"]), ("3 // 2 + 4", 5), ("0x1f & 0b11", 3), ("(-7) % 3", 2), ("1/2", 0.5)],
)
def test_literals_and_sums_are_all_that_scorers_can_evaluate(source: str, value: object) -> None:
    assert literal_or_arithmetic(source) == value


@pytest.mark.parametrize(
    "source", ["open('x')", "[].__class__", "2 ** 9", "[x for x in (1, 2)]", "lambda: 1", "x"]
)
def test_everything_else_is_refused_by_scorers(source: str) -> None:
    with pytest.raises(ValueError, match="malformed node"):
        literal_or_arithmetic(source)


def test_expressions_of_scorers_may_only_build() -> None:
    check_expression("Integer (2 )*sin (Symbol ('x'))+C", {"C": 0})
    for code in ("eval ('1')", "Symbol ('x').diff", "getattr (1 ,'x')", "[1 for x in y]", "f()()"):
        with pytest.raises(ValueError, match="in an answer"):
            check_expression(code, {})
