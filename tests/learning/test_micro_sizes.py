"""Micro-batches: picked by the device, halved when memory runs out, never felt in a gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small import config, discussions, policies, rewards, training

from maporl_core.errors import ModelError
from maporl_core.kit.out_of_memory import out_of_memory
from maporl_core.learning import micro_sizes
from maporl_core.learning.base_rows import BaseRows
from maporl_core.learning.footprint import update_bytes
from maporl_core.learning.packing import Row, pack
from maporl_core.learning.updater import Updater
from maporl_core.models.policy import Base
from maporl_core.models.shapes import shape_of

CPU_SAYS = (
    "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: 1 bytes"
)
ERRORS = [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError(CPU_SAYS)]


def rows_of(run: Any) -> list[Row]:
    held = discussions(run, count=5)
    return pack(held, rewards(held), training(*range(len(run.agents))))


def fail_above(
    monkeypatch: pytest.MonkeyPatch, tokens: int, error: Exception, stage: str = "any"
) -> list[int]:
    """Forwards of more than ``tokens`` tokens raise; the sizes that were tried, in order."""
    tried = []
    whole = Base.hidden

    def hidden(base: Base, ids: torch.Tensor, *more: Any) -> torch.Tensor:
        with_gradient = torch.is_grad_enabled()
        if stage == "any" or (stage == "update") == with_gradient:
            tried.append(ids.numel())
            if ids.numel() > tokens:
                raise error
        return whole(base, ids, *more)

    monkeypatch.setattr(Base, "hidden", hidden)
    return tried


def fail_in_backward(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The ``number``-th backward fills some gradients, then raises; the others do not."""
    calls = iter(range(1, 1000))
    whole = torch.Tensor.backward

    def backward(loss: torch.Tensor, *more: Any) -> None:
        whole(loss, *more)
        if next(calls) == number:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "backward", backward)


def one_step(run: Any, before: Callable[[], Any] = lambda: None) -> tuple[Any, Any, Updater]:
    """Gradients before clipping of one optimiser step, the result and the updater."""
    made = policies(run, perturb=0.05)
    rows = rows_of(run)
    updater = Updater(made, run)
    captured: dict[str, list[torch.Tensor]] = {}
    for name, optimiser in updater.optimisers.items():
        weights = made[name].parameters()

        def keep(*_: Any, name: str = name, weights: Any = weights) -> None:
            captured[name] = [w.grad.clone() for w in weights]

        optimiser.register_step_pre_hook(keep)
    before()
    torch.manual_seed(3)
    return captured, updater.update(rows, 0), updater


def assert_equal_gradients(one: Any, other: Any) -> None:
    for name in one:
        scale = max(float(g.abs().max()) for g in one[name])
        for a, b in zip(one[name], other[name], strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("stage", ["measure", "update"])
def test_memory_that_runs_out_changes_no_gradient(
    stage: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config(agents=2)
    whole, free, _ = one_step(run)
    halved, result, updater = one_step(run, lambda: fail_above(monkeypatch, 150, error, stage))
    assert_equal_gradients(whole, halved)
    assert result.metrics["policy/Ada/policy_loss"] == pytest.approx(
        free.metrics["policy/Ada/policy_loss"], abs=1e-6
    )
    assert updater.sizes.of["main"] <= 150


def test_memory_that_runs_out_in_a_backward_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = config(agents=2, update={"micro_tokens": 200})
    whole, _, _ = one_step(run)
    halved, result, updater = one_step(run, lambda: fail_in_backward(monkeypatch, 2))
    assert_equal_gradients(whole, halved)
    assert updater.sizes.of["main"] < 200
    assert len(result.said) == 1


def test_what_comes_out_is_what_the_smaller_size_gives_at_once_with_dropout_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropped = {"policies": {name: {"dropout": 0.3} for name in ("Ada", "Bo")}}
    run = config(agents=2, **dropped)
    halved, _, updater = one_step(
        run, lambda: fail_above(monkeypatch, 150, MemoryError(), "update")
    )
    monkeypatch.undo()
    small = config(agents=2, update={"micro_tokens": updater.sizes.of["main"]}, **dropped)
    at_once, _, _ = one_step(small)
    for name in at_once:
        assert all(torch.equal(a, b) for a, b in zip(at_once[name], halved[name], strict=True))


def test_it_is_said_once_and_the_size_that_held_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = config(agents=2, update={"epochs": 3})
    made = policies(run)
    rows = rows_of(run)
    updater = Updater(made, run)
    tried = fail_above(monkeypatch, 150, MemoryError())
    first = updater.update(rows, 0)
    assert len(first.said) == 1
    assert "micro-batches of 100000 tokens on base 'main'" in first.said[0]
    assert f"at most {updater.sizes.of['main']}" in first.said[0]
    assert sum(size > 150 for size in tried) < 6  # it went down at once, and never again
    del tried[:]
    second = updater.update(rows, 1)
    assert second.said == ()
    assert max(tried) <= 150


def test_a_resumed_run_forms_the_same_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    run = config(agents=2)
    rows = rows_of(run)
    straight, resumed = policies(run, perturb=0.05), policies(run, perturb=0.05)
    one, two = Updater(straight, run), Updater(resumed, run)
    with monkeypatch.context() as full:
        fail_above(full, 150, MemoryError())
        for updater in (one, two):
            updater.update(rows, 0)
    three = Updater(resumed, run)
    three.load_state(two.state())
    assert three.sizes.of == one.sizes.of != {"main": 100_000}
    for updater in (one, three):
        updater.update(rows, 1)
    for name in straight.names():
        pairs = zip(straight[name].parameters(), resumed[name].parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def test_another_size_asked_for_on_resuming_takes_the_place_of_the_kept_one() -> None:
    run = config(agents=1)
    updater = Updater(policies(run), run)
    updater.sizes.note("main", 64)
    other = config(agents=1, update={"micro_tokens": 500})
    resumed = Updater(policies(other), other)
    resumed.load_state(updater.state())
    assert resumed.sizes.of == {"main": 500}


def test_a_state_without_sizes_is_from_before_and_is_read() -> None:
    run = config(agents=1)
    state = Updater(policies(run), run).state()
    del state["micro"]
    updater = Updater(policies(run), run)
    updater.load_state(state)
    assert updater.sizes.of == {"main": 100_000}


@pytest.mark.parametrize("stage", ["measure", "update"])
def test_a_conversation_that_does_not_fit_alone_is_one_line_that_says_what_helps(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config(agents=2)
    updater = Updater(policies(run), run)
    fail_above(monkeypatch, 0, torch.OutOfMemoryError("CUDA out of memory"), stage)
    with pytest.raises(ModelError) as caught:
        updater.update(rows_of(run), 0)
    said = str(caught.value)
    assert "\n" not in said
    for words in ("single conversation of", "gradient_checkpointing", "discussion.max_new_tokens"):
        assert words in said


def test_other_errors_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    run = config(agents=1)
    updater = Updater(policies(run), run)
    fail_above(monkeypatch, 0, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        updater.update(rows_of(run), 0)


def test_the_allocator_of_this_machine_is_understood() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert out_of_memory(caught.value)


# What "auto" picks ------------------------------------------------------------------------------


def picked(monkeypatch: pytest.MonkeyPatch, memory: int, **changes: Any) -> int:
    run = config(agents=2, update={"micro_tokens": "auto"}, **changes)
    monkeypatch.setattr(micro_sizes, "device_memory", lambda _device: memory)
    return Updater(policies(run), run).sizes.of["main"]


def test_auto_is_16384_tokens_on_a_cpu_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert picked(monkeypatch, 64 << 30) == 16_384


def test_auto_is_the_largest_power_of_two_whose_forecast_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = config(agents=2)
    shape = shape_of(policies(run).bases["main"].model.config.to_dict(), "small")
    for memory in (520 << 20, 560 << 20):
        size = picked(monkeypatch, memory)
        fixed, room = 400 << 20, 0.8 * memory
        assert math.log2(size).is_integer()
        assert fixed + update_bytes(shape, size, 16, 4) <= room
        assert fixed + update_bytes(shape, 2 * size, 16, 4) > room
        saving = picked(monkeypatch, memory, bases={"main": {"gradient_checkpointing": True}})
        assert saving >= size


def test_auto_does_not_look_at_what_happens_to_be_free() -> None:
    run = config(agents=1, update={"micro_tokens": "auto"})
    sizes = {Updater(policies(run), run).sizes.of["main"] for _ in range(3)}
    assert len(sizes) == 1


def test_rows_say_which_micro_batch_is_under_way() -> None:
    run = config(agents=1)
    base = policies(run).bases["main"]
    rows = BaseRows(base, rows_of(run), 60)
    for batch in rows.batches(range(len(rows.rows))):
        assert rows.under_way == tuple(batch.ids.shape)
