"""What cannot be trained is refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from small import config

from maporl_core.config.doors import ENGINES
from maporl_core.config.kinds import Section
from maporl_core.errors import ConfigError
from maporl_core.judging.needs import check_engine, check_reward
from maporl_core.kit.progress import Silent
from maporl_core.learning.methods.base import RolloutPlan
from maporl_core.rollout.engine import engine_offers

ASSEMBLY = import_module("maporl_core.assembly")
PLAN = RolloutPlan(problems=4, trained=frozenset({0, 1}))


class Weak:
    says = "text alone"
    Options = Section
    offers = frozenset({"stream"})


@pytest.fixture
def weak() -> Iterator[str]:
    """An engine that this process alone has."""
    ENGINES.add("weak", Weak)
    yield "weak"
    del ENGINES._found["weak"]


def test_an_engine_that_gives_only_text_trains_nobody() -> None:
    run = config(agents=2)
    with pytest.raises(ConfigError, match="no exact_ids and no logprobs, without which Ada, Bo"):
        check_engine(run, PLAN.trained, lambda _: {"stream"})
    with pytest.raises(ConfigError, match="gives no logprobs, "):
        check_engine(run, PLAN.trained, lambda _: {"exact_ids", "seeds"})
    check_engine(run, RolloutPlan(problems=4, trained=frozenset()).trained, lambda _: {"stream"})


def test_the_own_engine_trains() -> None:
    run = config(agents=2)
    check_engine(run, PLAN.trained, engine_offers)


def test_each_trained_agent_is_asked_for_the_engine_of_its_own_base(weak: str) -> None:
    run = config(
        agents=3,
        bases={"main": {}, "far": {"engine": {"kind": weak}}},
        policies={"Bo": {"base": "far"}},
    )
    check_engine(run, {0, 2}, engine_offers)
    with pytest.raises(ConfigError) as caught:
        check_engine(run, {0, 1}, engine_offers)
    assert str(caught.value) == (
        "bases.far.engine.kind: 'weak' gives no exact_ids and no logprobs, without which Bo on "
        "base 'far' cannot be trained; choose another engine for it, or leave them out of "
        "train.train_agents"
    )


def test_a_base_of_its_own_engine_trains_where_the_run_s_would_not(weak: str) -> None:
    own = config(agents=2, engine={"kind": weak}, bases={"main": {"engine": {"kind": "auto"}}})
    check_engine(own, {0, 1}, engine_offers)


def test_a_reward_that_compares_candidates_needs_two_of_them() -> None:
    with pytest.raises(ConfigError, match="compares candidates"):
        check_reward({"candidates"}, PLAN.candidates)
    check_reward({"candidates"}, RolloutPlan(problems=4, candidates=2).candidates)


def test_a_reward_that_needs_gold_answers_needs_a_task_that_has_them() -> None:
    check_reward({"gold", "scores"}, PLAN.candidates)
    check_reward({"gold"}, PLAN.candidates, gold=True)
    with pytest.raises(ConfigError, match="needs gold answers"):
        check_reward({"gold"}, PLAN.candidates, gold=False)


def test_training_is_refused_before_a_task_or_model_is_loaded_and_asking_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loaded(Exception):
        pass

    def loads(*_: Any) -> None:
        raise Loaded

    monkeypatch.setattr(ASSEMBLY, "make_task", loads)
    monkeypatch.setattr(ASSEMBLY, "engine_offers", lambda _: frozenset({"stream"}))
    with pytest.raises(ConfigError, match=r"engine\.kind"):
        ASSEMBLY.assemble(config(agents=2), Silent(), None, True)
    with pytest.raises(Loaded):
        ASSEMBLY.assemble(config(agents=2), Silent(), None)


def test_the_loop_names_no_kind() -> None:
    page = Path(import_module("maporl_core.train").__file__ or "").read_text("utf-8").lower()
    for kind in ("mappo", "gae", "everybody", "learnedverifier", "noisy", "hfengine", "pocket"):
        assert kind not in page
