"""A step with a number that is not finite: not applied, the messages named, the rest untouched."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from run_samples import Probe, new_run, small, state_bytes
from small import config, discussions, policies, rewards, training

from maporl_core.config.schema import RunConfig
from maporl_core.errors import TrainingError
from maporl_core.kit.progress import Silent
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater
from maporl_core.models.policy import Policies
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.reader import StoreReader
from maporl_core.store.state_files import save_state
from maporl_core.train import train
from maporl_core.types import Discussion, Pay, Place

Spoil = Callable[[Any, Any, Policies], None]
ADA_LAST = Place(1, 2, 0)


def learners(**keys: Any) -> tuple[RunConfig, Policies, Updater, list[Discussion]]:
    """Two agents that have moved away from their base, and what they said."""
    run = config(agents=2, **keys)
    made = policies(run, perturb=0.05)
    return run, made, Updater(made, run), list(discussions(run))


def reward(value: float) -> Spoil:
    def spoil(_held: Any, paid: Any, _made: Policies) -> None:
        paid[ADA_LAST] = Pay({"own": value})

    return spoil


def sampled_logprob(value: float) -> Spoil:
    def spoil(held: Any, _paid: Any, _made: Policies) -> None:
        d, t, a, _ = ADA_LAST
        rows = [list(row) for row in held[d].messages]
        message = rows[t][a]
        rows[t][a] = replace(message, logprobs=(*message.logprobs[:-1], value))
        held[d] = replace(held[d], messages=tuple(map(tuple, rows)))

    return spoil


def value_head(value: float) -> Spoil:
    def spoil(_held: Any, _paid: Any, made: Policies) -> None:
        with torch.no_grad():
            next(iter(made["Ada"].value.values())).view(-1)[0] = value

    return spoil


def gradient(value: float) -> Spoil:
    def spoil(_held: Any, _paid: Any, made: Policies) -> None:
        start, end = made["Ada"].base.stack.router.blocks[made["Ada"].index]
        layer = next(iter(made["Ada"].base.stack.layers.values()))
        mask = torch.zeros(len(layer.lora_b), 1)
        mask[start:end] = value
        layer.lora_b.register_hook(lambda grad: grad + mask)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (reward(math.nan), {ADA_LAST}),
        (reward(math.inf), {ADA_LAST}),
        (reward(-math.inf), {ADA_LAST}),
        (reward(1e38), None),  # finite, but not its square: the loss overflows
        (sampled_logprob(math.nan), {ADA_LAST}),
        (sampled_logprob(-math.inf), {ADA_LAST}),
        (value_head(math.nan), None),
        (value_head(math.inf), None),
        (gradient(math.nan), None),
        (gradient(math.inf), None),
    ],
)
def test_nothing_is_applied_and_the_messages_are_named(
    spoil: Spoil, named: set[Place] | None, tmp_path: Path
) -> None:
    _run, made, updater, held = learners(
        update={
            "epochs": 2,
            "minibatches": 2,
        },
        method={
            "kl_target": 0.5,
        },
    )
    good = pack(held, rewards(held), training(0, 1))
    assert not updater.update(good, 0).bad
    paid = rewards(held)
    spoil(held, paid, made)
    rows = pack(held, paid, training(0, 1))
    before = all_bytes(made, updater, tmp_path / "before")
    found = updater.update(rows, 1)
    assert found.bad
    if named is None:  # it cannot be told which of them, but it is among them
        assert ADA_LAST in found.bad
    else:
        assert set(found.bad) == named
    assert all_bytes(made, updater, tmp_path / "after") == before


@pytest.mark.parametrize("trained_before", [True, False], ids=["later", "first update"])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_optimiser_steps_before_the_bad_one_of_an_update_are_undone_too(
    step: int, trained_before: bool, tmp_path: Path
) -> None:
    """Of two epochs of two minibatches only the ``step``-th has a gradient that is not finite."""
    _run, made, updater, held = learners(
        update={
            "epochs": 2,
            "minibatches": 2,
        },
        method={
            "kl_target": 0.5,
        },
    )
    rows = pack(held, rewards(held), training(0, 1))
    if trained_before:
        assert not updater.update(rows, 0).bad
    before = all_bytes(made, updater, tmp_path / "before")
    weights = weight_bytes(made)
    moved: list[list[bool]] = []
    spoil_from(made, "Ada", step, lambda: moved.append(changed(weights, weight_bytes(made))))
    found = updater.update(rows, 1)
    assert found.bad
    assert {place.agent for place in found.bad} == {0}
    assert [all(policy) for policy in moved] == [True]  # both policies had been stepped
    assert all_bytes(made, updater, tmp_path / "after") == before


def test_a_base_that_was_updated_before_another_went_bad_is_undone_too(tmp_path: Path) -> None:
    _run, made, updater, held = learners(
        bases={"one": {}, "two": {}}, policies={"Ada": {"base": "one"}, "Bo": {"base": "two"}}
    )
    rows = pack(held, rewards(held), training(0, 1))
    assert not updater.update(rows, 0).bad
    before = all_bytes(made, updater, tmp_path / "before")
    weights = weight_bytes(made)
    moved: list[list[bool]] = []
    spoil_from(made, "Bo", 1, lambda: moved.append(changed(weights, weight_bytes(made))))
    found = updater.update(rows, 1)
    assert {place.agent for place in found.bad} == {1}
    assert moved == [[True, False]]
    assert all_bytes(made, updater, tmp_path / "after") == before


def spoil_from(made: Policies, name: str, step: int, then: Callable[[], None]) -> None:
    """The policy's gradients are NaN from the ``step``-th backward pass on; ``then`` hears it."""
    start, end = made[name].base.stack.router.blocks[made[name].index]
    layer = next(iter(made[name].base.stack.layers.values()))
    mask = torch.zeros(len(layer.lora_b), 1)
    mask[start:end] = math.nan
    passes = 0

    def hook(grad: torch.Tensor) -> torch.Tensor:
        nonlocal passes
        passes += 1
        if passes == step:
            then()
        return grad + mask if passes >= step else grad

    layer.lora_b.register_hook(hook)


def weight_bytes(made: Policies) -> list[bytes]:
    """All weights of each policy."""
    return [
        b"".join(w.detach().numpy().tobytes() for w in made[n].parameters()) for n in made.names()
    ]


def changed(before: list[bytes], after: list[bytes]) -> list[bool]:
    return [a != b for a, b in zip(before, after, strict=True)]


def all_bytes(made: Policies, updater: Updater, path: Path) -> list[bytes]:
    """Weights, and the optimisers as a checkpoint keeps them, byte for byte."""
    save_state(path, updater.state())
    files = [path.with_name(path.name + end) for end in (".json", ".safetensors")]
    return weight_bytes(made) + [file.read_bytes() for file in files]


def test_a_run_stops_after_so_many_bad_steps_saved_as_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {
        "train": {"steps": 9},
        "update": {"max_bad_steps": 2},
        "checkpoint": {"every": 0, "keep": 10},
        "eval": {"questions": 0},
    }
    run, probe = new_run(tmp_path, small(**changes)), Probe()
    honest, calls, last_good = Updater.update, [], []

    def goes_bad(self: Updater, rows: Any, step: int) -> Any:
        calls.append(step)
        if step >= 2:
            last_good.append(copy.deepcopy(self.state()))
            rows[0].spans[-1] = replace(rows[0].spans[-1], reward=math.nan)
        return honest(self, rows, step)

    monkeypatch.setattr(Updater, "update", goes_bad)
    with pytest.raises(TrainingError, match=r"2 steps in a row.*maporl resume small"):
        train(small(**changes), run, probe)
    assert calls == [0, 1, 2, 3]
    said = [text for level, text in probe.logs if level == "error"]
    assert len(said) == 2
    with StoreReader(run) as reader:
        bad = [event for event in reader.events_since() if event.kind == "not finite"]
        assert [event.step for event in bad] == [3, 4]
        ids = [row.id for row in reader.page() if row.step == 3]
        assert f"discussion {min(ids)} (problem " in bad[0].text
        assert "turn 2 Ada" in bad[0].text
        assert reader.status().state == "failed"
        assert reader.status().step == 4
    (saved,) = list_checkpoints(run)
    assert saved.step == 4
    save_state(tmp_path / "good", last_good[0])
    monkeypatch.setattr(Updater, "update", honest)
    more = {**changes, "train": {"steps": 5}}
    train(small(**more), run, Silent(), resume=True)
    assert state_bytes(run.final)


def spoil_steps(monkeypatch: pytest.MonkeyPatch, bad: set[int]) -> list[int]:
    """Updates of these steps (0-based) meet a reward that is NaN; all steps that were tried."""
    honest, calls = Updater.update, []

    def update(self: Updater, rows: Any, step: int) -> Any:
        calls.append(step)
        if step in bad:
            rows[0].spans[-1] = replace(rows[0].spans[-1], reward=math.nan)
        return honest(self, rows, step)

    monkeypatch.setattr(Updater, "update", update)
    return calls


def few(steps: int) -> dict[str, Any]:
    return {
        "train": {"steps": steps, "problems_per_step": 2},
        "update": {"max_bad_steps": 2},
        "checkpoint": {"every": 0},
        "eval": {"questions": 0},
    }


def test_a_good_step_between_bad_ones_starts_the_count_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = spoil_steps(monkeypatch, {0, 2, 4})
    run = new_run(tmp_path, small(**few(5)))
    train(small(**few(5)), run, Silent())
    assert calls == [0, 1, 2, 3, 4]
    with StoreReader(run) as reader:
        assert reader.status().state == "finished"
        bad = [event.step for event in reader.events_since() if event.kind == "not finite"]
    assert bad == [1, 3, 5]


def test_bad_steps_in_a_row_are_counted_over_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = spoil_steps(monkeypatch, {1, 2})
    run = new_run(tmp_path, small(**few(2)))
    train(small(**few(2)), run, Silent())
    with pytest.raises(TrainingError, match="2 steps in a row"):
        train(small(**few(5)), run, Silent(), resume=True)
    assert calls == [0, 1, 2]
