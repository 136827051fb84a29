"""Datasets from the hub, and what happens where there is none."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import datasets
import pytest
from huggingface_hub import constants

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import DataError
from maporl_core.tasks.data import hub
from maporl_core.tasks.data.stored import StoredTask
from maporl_core.tasks.registry import make_task


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A hub that refuses every connection, and an empty cache."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path))
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gsm8k", "PATH is a folder with train.jsonl and test.jsonl"),
        ("tinygsm", "PATH is a .jsonl or .parquet file with question and code"),
        ("anli", "PATH is a folder with dev_r1.jsonl"),
    ],
)
def test_without_a_network_the_error_says_how_to_use_a_local_copy_within_seconds(
    no_network: None, name: str, hint: str
) -> None:
    start = time.monotonic()
    with pytest.raises(DataError, match=rf"task.path=PATH, where {hint}") as caught:
        make_task(TaskConfig(name=name))
    assert time.monotonic() - start < 15
    assert "\n" not in str(caught.value)


def test_the_libraries_are_offline_only_while_loading(no_network: None) -> None:
    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    with pytest.raises(DataError):
        make_task(TaskConfig(name="gsm8k"))
    after = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    assert after == before


def test_a_listening_port_is_reachable_and_a_closed_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "getproxies", dict)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert hub.reachable(url, 2.0) is True
        monkeypatch.setattr(hub, "getproxies", lambda: {"https": url})
        assert hub.reachable("https://hub.invalid", 2.0) is True
    assert hub.reachable(url, 2.0) is False


def serve(monkeypatch: pytest.MonkeyPatch, found: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Makes ``load_dataset`` give ``found``; the calls are recorded."""
    calls: list[tuple[tuple[Any, ...], Any]] = []

    def load_dataset(*args: Any, **settings: Any) -> Any:
        calls.append((args, settings))
        return found

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "reachable", lambda _url: True)
    return calls


def rows(*values: dict[str, Any]) -> datasets.Dataset:
    return datasets.Dataset.from_list(list(values))


def test_gsm8k_comes_from_its_own_config_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"question": "How many?", "answer": "so\n#### 1,080"}
    found = datasets.DatasetDict(train=rows(row, row), test=rows(row))
    calls = serve(monkeypatch, found)
    task = make_task(TaskConfig(name="gsm8k"))
    assert calls == [(("openai/gsm8k", "main"), {})]
    assert {split: task.size(split) for split in task.splits()} == {"train": 2, "test": 1}
    (problem,) = task.problems("train", 1, 1, 0)
    assert problem.gold == "1080"
    make_task(TaskConfig(name="gsm8k", hub_id="somebody/copy"))
    assert calls[-1][0][0] == "somebody/copy"


def test_anli_rounds_on_the_hub_become_train_dev_and_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(label: int) -> datasets.Dataset:
        row = {"uid": "u", "premise": "P.", "hypothesis": "H.", "label": label, "reason": ""}
        return rows(row, {**row, "uid": "v", "label": -1})

    names = [f"{part}_r{number}" for part in ("train", "dev", "test") for number in (1, 2, 3)]
    serve(monkeypatch, datasets.DatasetDict({name: part(2) for name in names}))
    task = make_task(TaskConfig(name="anli", rounds=(2, 3)))
    assert isinstance(task, StoredTask)
    assert {split: task.size(split) for split in task.splits()} == {"train": 2, "dev": 2, "test": 2}
    assert task.dropped() == {"no gold label": 6}
    assert {p.gold for side in task.rows.values() for p in side} == {"contradiction"}


def test_tinygsm_fetches_no_more_rows_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []

    def endless() -> Any:
        for n in range(10_000):
            fetched.append(n)
            code = "import os" if n % 10 == 0 else f"def simple_math_problem():\n    return {n}"
            yield {"question": f"Question {n}?", "code": code}

    calls = serve(monkeypatch, datasets.IterableDataset.from_generator(endless))
    task = make_task(TaskConfig(name="tinygsm", limit=200))
    assert calls[0][1] == {"split": "train", "streaming": True}
    assert task.size("train") == 200
    assert (task.size("test") or 0) > 5
    assert len(fetched) < 500
    assert task.dropped()["code does more than arithmetic"] > 10


def test_a_dataset_of_another_shape_is_a_data_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = datasets.DatasetDict(train=rows({"text": "x"}), test=rows({"text": "x"}))
    serve(monkeypatch, found)
    with pytest.raises(DataError, match=r"openai/gsm8k, split train, row 1: has no 'question'"):
        make_task(TaskConfig(name="gsm8k"))
