"""AdamW with moments in fp32 or 8 bits: made, refused in a line, saved exactly."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small import config, discussions, policies, rewards, training

from maporl_core.assembly import assemble
from maporl_core.config.load import load_config
from maporl_core.errors import ModelError
from maporl_core.kit.progress import Silent
from maporl_core.learning import optimisers
from maporl_core.learning.footprint import MOMENT_BYTES
from maporl_core.learning.optimisers import check_optimiser
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater
from maporl_core.store.state_files import load_state, save_state

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
EIGHT_BIT = {"optimiser": "adamw8bit"}

with_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason='needs pip install "maporl[quant]"'
)


def wide(**update: Any) -> Any:
    """Two agents with adapters large enough for blocks of 8-bit moments."""
    named = {name: {"rank": 128} for name in ("Ada", "Bo")}
    return config(agents=2, policies=named, update=update)


def rows_of(run: Any) -> Any:
    held = discussions(run)
    return pack(held, rewards(held), training(0, 1))


def test_adamw_by_default_with_the_groups_rates_to_begin_with() -> None:
    run = config(agents=1, update={"value_lr": 0.5})
    made = Updater(policies(run), run).optimisers["Ada"]
    assert type(made) is torch.optim.AdamW
    assert [(g["lr"], g["initial_lr"], g["eps"]) for g in made.param_groups] == [
        (1e-2, 1e-2, 1e-5),
        (0.5, 0.5, 1e-5),
    ]


def test_eight_bits_without_bitsandbytes_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimisers.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match=r"pip install \"maporl\[quant\]\"$"):
        check_optimiser(wide(**EIGHT_BIT).update, CPU)


def test_eight_bits_are_refused_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimisers.importlib.util, "find_spec", lambda _name: None)
    run = load_config("pocket", ["update.optimiser=adamw8bit", "bases.main.model=nobody/nothing"])
    with pytest.raises(ModelError, match="needs bitsandbytes"):
        assemble(run, Silent(), training=True)


def test_a_bitsandbytes_without_kernels_for_the_device_is_named_with_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", SimpleNamespace(__version__="0.41"))
    monkeypatch.setattr(optimisers.importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setattr(optimisers, "_KERNEL", "aten::add.Tensor")
    check_optimiser(wide(**EIGHT_BIT).update, CPU)
    monkeypatch.setattr(optimisers, "_has_kernel", lambda _key: False)
    with pytest.raises(ModelError, match=r"bitsandbytes 0\.41 has no 8-bit optimiser .*CUDA"):
        check_optimiser(wide(**EIGHT_BIT).update, CUDA)


@with_bitsandbytes
def test_moments_of_wide_adapters_take_a_byte_each() -> None:
    run = wide(**EIGHT_BIT)
    made = policies(run, perturb=0.05)
    updater = Updater(made, run)
    check_optimiser(run.update, CPU)
    updater.update(rows_of(run), 0)
    sizes = []
    for weight in made["Ada"].adapter.values():
        state = updater.optimisers["Ada"].state[weight]
        moments = [state["state1"], state["state2"]]
        if weight.numel() >= 4096:
            assert {moment.dtype for moment in moments} == {torch.uint8}
            sizes.append(sum(moment.nbytes for moment in moments) / weight.numel())
    assert sizes
    assert set(sizes) == {float(MOMENT_BYTES["adamw8bit"])}


@with_bitsandbytes
def test_a_step_is_that_of_adamw_within_the_error_of_eight_bits() -> None:
    moved = {}
    for kind in ("adamw", "adamw8bit"):
        run = wide(optimiser=kind, lr=1e-3)
        made = policies(run, perturb=0.05)
        before = [w.detach().clone() for w in made["Ada"].parameters()]
        updater = Updater(made, run)
        for step in range(3):
            updater.update(rows_of(run), step)
        moved[kind] = torch.cat(
            [(w - b).flatten() for w, b in zip(made["Ada"].parameters(), before, strict=True)]
        )
    gap = (moved["adamw"] - moved["adamw8bit"]).norm() / moved["adamw"].norm()
    assert 0 < gap < 0.05


@with_bitsandbytes
def test_eight_bit_moments_are_saved_and_go_on_exactly(tmp_path: Path) -> None:
    run = wide(**EIGHT_BIT)
    rows = rows_of(run)
    straight, resumed = policies(run, perturb=0.05), policies(run, perturb=0.05)
    one, two = Updater(straight, run), Updater(resumed, run)
    for updater in (one, two):
        updater.update(rows, 0)
    save_state(tmp_path / "state", two.state())
    three = Updater(resumed, run)
    three.load_state(load_state(tmp_path / "state"))
    for updater in (one, three):
        updater.update(rows, 1)
    for name in straight.names():
        pairs = zip(straight[name].parameters(), resumed[name].parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


@with_bitsandbytes
def test_an_update_that_is_undone_leaves_eight_bit_moments_as_they_were() -> None:
    run = wide(**EIGHT_BIT)
    made = policies(run, perturb=0.05)
    updater = Updater(made, run)
    updater.update(rows_of(run), 0)
    before = {w: dict(s) for w, s in updater.optimisers["Ada"].state.items()}
    copies = {
        w: {k: v.clone() if torch.is_tensor(v) else v for k, v in s.items()}
        for w, s in before.items()
    }
    held = discussions(run)
    paid = rewards(held)
    paid[next(reversed(paid))] = type(next(iter(paid.values())))({"own": float("inf")})
    result = updater.update(pack(held, paid, training(0, 1)), 1)
    assert result.bad
    for weight, state in updater.optimisers["Ada"].state.items():
        for key, value in copies[weight].items():
            now = state[key]
            assert torch.equal(now, value) if torch.is_tensor(value) else now == value
