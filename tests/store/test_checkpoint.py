"""Checkpoints are whole or not there, and the newest whole one is resumed from."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import new_run

from maporl_core.errors import StoreError
from maporl_core.store.checkpoint import (
    atomic_folder,
    checkpoint_at,
    clean_leftovers,
    find_resumable,
    list_checkpoints,
    write_checkpoint,
)
from maporl_core.store.manifest import verify
from maporl_core.store.paths import RunDir
from maporl_core.store.state_files import load_state, save_state

HERE = Path(__file__).parents[1]


def save(run: RunDir, step: int, keep: int = 10, score: float | None = None) -> Path:
    with write_checkpoint(run, step, keep=keep, score=score, facts={"config": "abc"}) as folder:
        (folder / "policies").mkdir()
        (folder / "policies" / "weights").write_bytes(bytes([step]) * 1000)
        (folder / "state.json").write_text(f'{{"step": {step}}}')
    return run.checkpoints / f"step-{step:06d}"


def names(run: RunDir) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_the_newest_whole_checkpoint_is_chosen(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert find_resumable(run).checkpoint is None
    for step in (5, 100, 20):
        save(run, step)
    found = find_resumable(run)
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.checkpoint.facts) == (100, {"config": "abc"})
    assert found.lines() == ("resuming from step-000100: the newest that is whole",)
    assert [entry.step for entry in list_checkpoints(run)] == [5, 20, 100]


def empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def truncate(folder: Path) -> None:
    os.truncate(folder / "policies" / "weights", 500)


def flip(folder: Path) -> None:
    data = bytearray((folder / "policies" / "weights").read_bytes())
    data[123] ^= 1
    (folder / "policies" / "weights").write_bytes(bytes(data))


def rewrite(change: dict[str, object]) -> object:
    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))

    return edit


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (empty, "it is empty"),
        (truncate, "policies/weights has 500 bytes instead of 1000"),
        (flip, "policies/weights is not what was written"),
        (lambda folder: (folder / "state.json").unlink(), "state.json is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "it has no manifest.json"),
        (lambda folder: os.truncate(folder / "manifest.json", 50), "is cut off or damaged"),
        (lambda folder: (folder / "manifest.json").write_text("[1]"), "manifest.json is damaged"),
        (lambda folder: (folder / "manifest.json").write_bytes(b"\xff\xfe"), "cut off or damaged"),
        (rewrite({"version": 99}), "written by a newer maporl"),
        (rewrite({"step": 7}), "its manifest is that of step 7"),
        (rewrite({"files": {"../../config.toml": {"size": 1, "sha256": "x"}}}), "is damaged"),
        (rewrite({"files": {"/etc/passwd": {"size": 1, "sha256": "x"}}}), "is damaged"),
    ],
)
def test_a_spoiled_checkpoint_is_passed_over_with_the_reason(
    tmp_path: Path, spoil: object, why: str
) -> None:
    run = new_run(tmp_path)
    save(run, 1)
    broken = save(run, 2)
    spoil(broken)  # type: ignore[operator]
    found = find_resumable(run)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    ((path, reason),) = found.passed_over
    assert path == broken
    assert why in reason
    assert found.lines()[0] == f"passed over step-000002: {reason}"
    with pytest.raises(StoreError, match="cannot be used"):
        checkpoint_at(run, 2)


def test_when_there_is_none_or_none_is_whole_the_lines_say_which(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert find_resumable(run).lines() == ("no checkpoint yet: starting from step 0",)
    truncate(save(run, 1))
    found = find_resumable(run)
    assert found.checkpoint is None
    assert found.lines()[-1] == "no checkpoint is whole"


def test_a_checkpoint_is_asked_for_by_step(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    path = save(run, 3)
    assert checkpoint_at(run, 3).path == path
    with pytest.raises(StoreError, match="no checkpoint of step 4; it has: 3"):
        checkpoint_at(run, 4)


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for step, score in ((1, 0.5), (2, 0.9), (3, float("nan")), (4, None), (5, 0.7)):
        save(run, step, keep=2, score=score)
    assert names(run) == ["step-000002", "step-000004", "step-000005"]
    save(run, 6, keep=1, score=0.95)
    assert names(run) == ["step-000006"]


@pytest.mark.parametrize("failure", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_failing_block_leaves_the_old_ones_and_no_leftovers(
    tmp_path: Path, failure: BaseException
) -> None:
    run = new_run(tmp_path)
    save(run, 1)

    def half() -> None:
        with write_checkpoint(run, 2, keep=1) as folder:
            (folder / "half").write_text("x")
            raise failure

    with pytest.raises(type(failure)):
        half()
    assert names(run) == ["step-000001"]


@pytest.mark.parametrize("moment", ["filling", "before the rename", "between the renames"])
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path, moment: str) -> None:
    """The second checkpoint of step 1 is being written over the first when the process dies."""
    run = new_run(tmp_path)
    save(run, 1)
    code = """
import os, signal, sys
from pathlib import Path
from maporl_core.store import checkpoint
from maporl_core.store.paths import RunDir
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
moment = sys.argv[2]
if moment == "before the rename":
    checkpoint._put_in_place = die
if moment == "between the renames":
    rename, seen = Path.rename, []
    def second(self, target):
        seen.append(target)
        return die() if len(seen) == 2 else rename(self, target)
    Path.rename = second
with checkpoint.write_checkpoint(RunDir(Path(sys.argv[1])), 1, keep=3) as folder:
    (folder / "new").write_text("new")
    if moment == "filling":
        die()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.path), moment],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        check=False,
        capture_output=True,
    )
    assert done.returncode == -9
    clean_leftovers(run)
    assert names(run) == ["step-000001"]
    found = find_resumable(run)
    assert found.checkpoint is not None
    assert found.passed_over == ()
    assert (found.checkpoint.path / "state.json").is_file()  # the old one, whole


def test_leftovers_are_never_taken_for_checkpoints(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    path = save(run, 1)
    path.rename(run.checkpoints / ".tmp-step-000002-123")
    (run.checkpoints / "notes.txt").touch()
    (run.checkpoints / "step-x").mkdir()
    (run.path / ".tmp-verifier-123").mkdir()
    found = find_resumable(run)
    assert (found.checkpoint, found.passed_over) == (None, ())
    clean_leftovers(run)
    assert names(run) == ["notes.txt", "step-x"]
    assert not (run.path / ".tmp-verifier-123").exists()


def test_a_checkpoint_written_again_takes_the_place_of_the_old(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    old = save(run, 1)
    truncate(old)
    save(run, 1)
    assert names(run) == ["step-000001"]
    assert verify(old) is None


def test_any_folder_can_be_written_whole_or_not_at_all(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with atomic_folder(run.final, {"step": 9}) as folder:
        (folder / "a").write_text("one")
    assert verify(run.final) is None

    def fail() -> None:
        with atomic_folder(run.final) as folder:
            (folder / "a").write_text("two")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (run.final / "a").read_text() == "one"


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and (a.dtype, a.shape) == (b.dtype, b.shape)
            and a.reshape(-1).view(torch.uint8).equal(b.reshape(-1).view(torch.uint8))
        )
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


def test_state_is_readable_by_whom_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_state(tmp_path / "adam", {"moments": torch.zeros(3)})
    finally:
        os.umask(before)
    found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert found == {"adam.safetensors": 0o644, "adam.json": 0o644}


def test_nested_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    state = {
        "none": None,
        "flags": [True, False],
        "numbers": [0, -1, 2**200, 0.1, -0.0, 1e-320, float("inf"), float("nan")],
        "text": ["", "\ud800", "\x00", "é", "$tensor"],
        "bytes": b"\x00\xff",
        7: {"int key": (1, (2, [3]))},
        "$dollar": {"$tensor": "not one"},
        "empty": [{}, [], ()],
        "tensors": {
            "f32": torch.randn(3, 4),
            "bf16": torch.randn(5).bfloat16(),
            "f64": torch.tensor([float("nan"), 1 / 3], dtype=torch.float64),
            "i64": torch.tensor(2**62),
            "bool": torch.tensor([True, False]),
            "none of it": torch.zeros(0, 3),
            "turned": torch.randn(4, 3).T,
            "shared": [shared, shared, shared[2:], shared.view(2, 3)],
        },
        "arrays": [np.arange(4, dtype=np.uint32), np.float32(0.1), np.int64(3), np.array(2.5),
                   np.arange(3, dtype=">i4")],
    }  # fmt: skip
    save_state(tmp_path / "state.v1", state)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.v1.json", "state.v1.safetensors"]
    state["arrays"][-1] = np.arange(3, dtype="i4")  # the byte order is the machine's
    assert same(load_state(tmp_path / "state.v1"), state)


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text() | st.integers() | st.booleans(), inner)
        ),
        max_leaves=20,
    )
)
def test_any_plain_state_comes_back(
    tmp_path_factory: pytest.TempPathFactory, state: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "plain"
    save_state(path, state)
    assert same(load_state(path), state)


def test_random_generators_go_on_exactly_where_they_were(tmp_path: Path) -> None:
    mine, modern, torchs = random.Random(3), np.random.default_rng(5), torch.Generator()
    torchs.manual_seed(7)
    mine.gauss(0, 1)  # keeps its pair for the next call: part of the state
    modern.normal(size=3)
    torch.rand(5, generator=torchs)
    save_state(
        tmp_path / "random",
        {
            "python": mine.getstate(),
            "numpy": modern.bit_generator.state,
            "legacy": np.random.RandomState(1).get_state(legacy=False),
            "torch": torchs.get_state(),
        },
    )
    expected = [mine.gauss(0, 1), modern.normal(), torch.rand(1, generator=torchs).item()]
    state = load_state(tmp_path / "random")
    again, later, third = random.Random(), np.random.default_rng(), torch.Generator()
    again.setstate(state["python"])
    later.bit_generator.state = state["numpy"]
    third.set_state(state["torch"])
    np.random.RandomState().set_state(state["legacy"])
    assert [again.gauss(0, 1), later.normal(), torch.rand(1, generator=third).item()] == expected


def test_an_optimiser_goes_on_exactly(tmp_path: Path) -> None:
    def steps(optimiser: torch.optim.Optimizer, weight: torch.nn.Parameter, count: int) -> None:
        for i in range(count):
            optimiser.zero_grad()
            (weight * (i + 1)).sin().sum().backward()
            optimiser.step()

    weight = torch.nn.Parameter(torch.linspace(0, 1, 7))
    optimiser = torch.optim.AdamW([weight], lr=0.1)
    steps(optimiser, weight, 3)
    save_state(tmp_path / "adam", {"weight": weight, "optimiser": optimiser.state_dict()})
    steps(optimiser, weight, 3)
    state = load_state(tmp_path / "adam")
    copy = torch.nn.Parameter(state["weight"])
    resumed = torch.optim.AdamW([copy], lr=0.5)
    resumed.load_state_dict(state["optimiser"])
    steps(resumed, copy, 3)
    assert torch.equal(copy, weight)


def test_what_a_state_file_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"state\['a'\]\[1\] is a set"):
        save_state(tmp_path / "s", {"a": [1, {2}]})
    with pytest.raises(StoreError, match="is a ndarray"):
        save_state(tmp_path / "s", np.array([object()]))


def test_a_damaged_state_file_is_one_line(tmp_path: Path) -> None:
    save_state(tmp_path / "s", {"a": torch.ones(3)})
    with pytest.raises(StoreError, match="not there any more"):
        load_state(tmp_path / "other")
    os.truncate(tmp_path / "s.safetensors", 40)
    with pytest.raises(StoreError, match="damaged"):
        load_state(tmp_path / "s")
    save_state(tmp_path / "s", {"a": torch.ones(3)})
    (tmp_path / "s.json").write_text('{"a": {"$tensor": "t9"}}')
    with pytest.raises(StoreError, match="damaged"):
        load_state(tmp_path / "s")
    (tmp_path / "s.json").write_text('{"a": {"$eval": "1"}}')
    with pytest.raises(StoreError, match=r"unknown mark '\$eval'"):
        load_state(tmp_path / "s")
