"""Exports that other tools read, and mirrors of the metrics."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from store_samples import discussion, new_run, paid, summary

from maporl_core.errors import ConfigError, StoreError
from maporl_core.store.export import export_discussions, export_metrics
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import DiscussionFilter, StoreReader
from maporl_core.store.records import Paid
from maporl_core.store.sinks import make_sink
from maporl_core.store.writer import StoreWriter


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer:
        writer.write_evaluation(0, summary(), [Paid(discussion(9))])
        writer.write_step(1, [paid(1), paid(2, text="odd \ud800 \x00 [/red] 😀")], {"a": 1.0})
        writer.write_step(2, [paid(3)], {"a": math.nan, "b": math.inf})
    return run


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_datasets_reads_the_exported_discussions(run: RunDir, tmp_path: Path, format: Any) -> None:
    import datasets

    path = tmp_path / "out" / f"run.{format}"
    heard: list[int] = []
    with StoreReader(run) as reader:
        assert export_discussions(reader, path, format, on_rows=heard.append) == 3
    assert sum(heard) == 3
    kind = "json" if format == "jsonl" else "parquet"
    rows = datasets.load_dataset(
        kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert rows["problem_id"] == ["q1", "q2", "q3"]
    row = rows[1]
    assert row["agents"] == ["Ada", "Bo"]
    assert (row["step"], row["split"], row["corrected"], row["turns"]) == (1, "train", True, 2)
    message = row["messages"][2]
    assert message["text"] == "turn 1 agent 0 says odd \ufffd \x00 [/red] 😀"
    assert (message["turn"], message["agent"], message["name"]) == (2, 1, "Ada")
    assert (message["correct"], message["score"], message["policy"]) == (True, 0.75, "p0")
    assert message["reward"]["own"] == 0.2
    assert message["reward"]["total"] == pytest.approx(-0.6)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"run.{format}"]


def test_an_evaluation_is_exported_by_filter_without_rewards(run: RunDir, tmp_path: Path) -> None:
    path = tmp_path / "eval.jsonl"
    with StoreReader(run) as reader:
        assert export_discussions(reader, path, wanted=DiscussionFilter(split="eval")) == 1
    row = json.loads(path.read_text())
    assert (row["problem_id"], row["evaluation"]) == ("q9", 1)
    assert set(row["messages"][0]["reward"].values()) == {None}


def test_more_discussions_than_one_batch_are_all_exported_in_order(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with StoreWriter(run) as writer:
        writer.write_step(1, [paid(i) for i in range(1203)], {})
    with StoreReader(run) as reader:
        assert export_discussions(reader, tmp_path / "all.parquet", "parquet") == 1203
    import pyarrow.parquet as pq

    ids = pq.read_table(tmp_path / "all.parquet")["problem_id"].to_pylist()
    assert ids == [f"q{i}" for i in range(1203)]


def test_metrics_become_one_row_per_step(run: RunDir, tmp_path: Path) -> None:
    with StoreReader(run) as reader:
        assert export_metrics(reader, tmp_path / "m.csv") == 2
        assert export_metrics(reader, tmp_path / "m.jsonl", "jsonl") == 2
    with (tmp_path / "m.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["step", "a", "b"], ["1", "1.0", ""], ["2", "nan", "inf"]]
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {"step": 1, "a": 1.0},
        {"step": 2, "a": None, "b": None},
    ]


def test_an_unknown_format_and_an_impossible_place_are_one_line(
    run: RunDir, tmp_path: Path
) -> None:
    with StoreReader(run) as reader:
        with pytest.raises(ConfigError, match="use jsonl or parquet"):
            export_discussions(reader, tmp_path / "x", "xlsx")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="use csv or jsonl"):
            export_metrics(reader, tmp_path / "x", "xlsx")  # type: ignore[arg-type]
        with pytest.raises(StoreError, match="cannot write"):
            export_discussions(reader, run.config / "x.jsonl")


def test_a_failed_export_leaves_the_old_file(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("old")

    def fail(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("maporl_core.store.export.json.dumps", fail)
    with StoreReader(run) as reader, pytest.raises(StoreError, match="disk is full"):
        export_discussions(reader, path)
    assert path.read_text() == "old"
    assert not list(tmp_path.glob(".x*"))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_is_of_one_moment_of_the_run(run: RunDir, tmp_path: Path, format: Any) -> None:
    """Here the trainer goes back to step 1 and on another way while the export is under way."""
    with StoreWriter(run) as writer, StoreReader(run) as reader:
        writer.write_step(3, [paid(100 + i) for i in range(250)], {})
        gone_back: list[int] = []

        def go_back(_rows: int) -> None:
            if not gone_back:
                gone_back.append(writer.truncate_after(1))
                writer.write_step(2, [paid(999)], {})

        whole = export_discussions(reader, tmp_path / "before", format)
        path = tmp_path / "during"
        assert export_discussions(reader, path, format, on_rows=go_back) == whole == 253
        assert path.read_bytes() == (tmp_path / "before").read_bytes()
        assert export_discussions(reader, path, format) == 3


def test_tensorboard_gets_the_finite_metrics(run: RunDir) -> None:
    pytest.importorskip("tensorboard")
    sink = make_sink("tensorboard", run)
    sink.write(1, {"loss": 0.5, "odd": math.nan})
    sink.write(2, {"loss": 0.25})
    sink.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_the_finite_metrics_and_one_run_per_run(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    opened: list[dict[str, Any]] = []
    logged: list[tuple[dict[str, float], int]] = []
    closed: list[bool] = []

    def init(**options: Any) -> SimpleNamespace:
        opened.append(options)
        return SimpleNamespace(
            log=lambda metrics, step: logged.append((metrics, step)),
            finish=lambda: closed.append(True),
        )

    monkeypatch.setitem(sys.modules, name, SimpleNamespace(init=init))
    for _ in range(2):  # a run and its resumption
        sink = make_sink(name, run)
        sink.write(3, {"a": 1.0, "b": math.inf})
        sink.close()
    assert logged == [({"a": 1.0}, 3)] * 2
    assert closed == [True, True]
    assert opened[0] == opened[1]
    assert (opened[0]["project"], opened[0]["resume"]) == ("maporl", "allow")


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_missing_tracker_says_what_to_install(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"pip install 'maporl\[track\]'"):
        make_sink(name, run)


def test_an_unknown_tracker_gets_the_nearest_name(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="did you mean 'wandb'"):
        make_sink("wandbb", run)


def test_a_folder_or_a_device_is_never_replaced_by_an_export(run: RunDir, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with StoreReader(run) as reader:
        for target, kind in ((tmp_path, "a folder"), (pipe, "not a regular file")):
            with pytest.raises(ConfigError, match=kind):
                export_metrics(reader, target)
    assert pipe.is_fifo()
