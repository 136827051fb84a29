"""Making, finding, listing and removing runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_samples import new_run, paid

from maporl_core.errors import ConfigError, StoreError
from maporl_core.store.paths import RunDir, remove_run
from maporl_core.store.reader import StoreReader, list_runs
from maporl_core.store.writer import StoreWriter


def test_a_new_run_holds_its_config_and_an_empty_store(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "deep" / "runs", "a.b-1", "seed = 3\n", {"task": "gsm8k"})
    assert run.config_text() == "seed = 3\n"
    with StoreReader(run) as reader:
        assert reader.meta()["task"] == "gsm8k"
        assert reader.meta()["name"] == "a.b-1"
        assert (reader.page(), reader.status().step, reader.status().state) == ((), 0, "new")
    assert [path.name for path in (tmp_path / "deep" / "runs").iterdir()] == ["a.b-1"]


def test_a_taken_name_is_refused_and_the_line_says_what_to_do(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer:
        writer.write_step(1, [paid(1)], {})
    with pytest.raises(ConfigError, match=r"maporl resume test.*maporl runs remove test"):
        new_run(tmp_path)
    with StoreReader(run) as reader:
        assert reader.count() == 1
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="exists and is not a maporl run"):
        new_run(tmp_path, "folder")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="exists and is not a maporl run"):
        new_run(tmp_path, "file")


def test_an_empty_folder_of_that_name_is_used(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    assert new_run(tmp_path).database.is_file()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/abs", "-x", ".hidden", "é", "x" * 65])
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="not allowed"):
        new_run(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_found_by_name_by_folder_and_by_file(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert RunDir.find(tmp_path, "test") == run
    assert RunDir.find(tmp_path / "elsewhere", str(run.path)).name == "test"
    assert RunDir.find(tmp_path / "elsewhere", str(run.database)) == run


def test_an_unknown_run_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no runs yet"):
        RunDir.find(tmp_path, "test")
    new_run(tmp_path, "pocket-long")
    with pytest.raises(ConfigError, match="did you mean 'pocket-long'"):
        RunDir.find(tmp_path, "poket-long")
    with pytest.raises(ConfigError, match="maporl runs list"):
        RunDir.find(tmp_path, "zzz")
    with pytest.raises(ConfigError, match="no run ''"):
        RunDir.find(tmp_path, "")


def test_the_list_shows_every_run_even_a_broken_one(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == ()
    good = new_run(tmp_path, "good")
    with StoreWriter(good) as writer:
        writer.write_step(4, [paid(1)], {"accuracy": 0.5})
        writer.set_state("finished")
    bad = new_run(tmp_path, "bad")
    bad.database.write_bytes(b"junk" * 1000)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").touch()
    first, second = list_runs(tmp_path)
    assert (first.name, first.status.state) == ("bad", "unreadable")
    assert first.problem is not None
    assert "not a maporl store" in first.problem
    assert (second.name, second.status.state, second.task) == ("good", "finished", "pocket")
    assert (second.status.step, second.status.steps) == (4, 10)
    assert second.metrics == {"accuracy": 0.5}
    assert 0.0 <= second.age < 60.0


def test_removing_takes_the_run_and_nothing_else(tmp_path: Path) -> None:
    run, other = new_run(tmp_path), new_run(tmp_path, "other")
    remove_run(run)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    with StoreReader(other) as reader:
        assert reader.count() == 0


def test_a_run_in_training_is_not_removed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with run.lock(), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        remove_run(run)
    assert run.database.is_file()


def test_only_runs_are_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "run.db").write_text("mine")
    (tmp_path / "thesis" / "config.toml").touch()
    with pytest.raises(StoreError, match="not a maporl run: nothing was removed"):
        remove_run(RunDir(tmp_path / "thesis"))
    assert (tmp_path / "thesis" / "run.db").read_text() == "mine"
    run = new_run(tmp_path)
    (tmp_path / "link").symlink_to(run.path)
    with pytest.raises(StoreError, match="is a link"):
        remove_run(RunDir(tmp_path / "link"))
    assert run.database.is_file()


def test_an_interrupted_creation_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("maporl_core.store.paths._move_into_place", fail)
    with pytest.raises(KeyboardInterrupt):
        new_run(tmp_path)
    assert list(tmp_path.iterdir()) == []
