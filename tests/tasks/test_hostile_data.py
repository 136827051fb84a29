"""Data files of every wrong kind: one line with file, row and what to do; good rows still load."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import json
import lzma
import os
import random
import stat
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import DataError, MaporlError
from maporl_core.tasks.data import rows as rows_module
from maporl_core.tasks.data.stored import StoredTask
from maporl_core.tasks.registry import make_task

GOOD = '{"question": "good %d", "answer": "1"}\n'
TASKS = ("gsm8k", "tinygsm", "anli", "jsonl")


def own(path: Path | str, **settings: Any) -> StoredTask:
    task = make_task(TaskConfig(name="jsonl", path=str(path), **{"holdout": 0.0, **settings}))
    assert isinstance(task, StoredTask)
    return task


def fault(path: Path | str, name: str = "jsonl", **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        make_task(TaskConfig(name=name, path=str(path), **settings))
    text = str(caught.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 600
    return text


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_packed_and_foreign_files_are_named_for_what_they_are(tmp_path: Path, name: str) -> None:
    text = (GOOD % 1).encode()
    with zipfile.ZipFile(tmp_path / "zip.jsonl", "w") as archive:
        archive.writestr("x", text)
    parquet.write_table(pyarrow.table({"question": ["q"]}), tmp_path / "parquet.jsonl")
    for kind, content, words in (
        ("gz", gzip.compress(text), "unpack it with gunzip"),
        ("bz2", bz2.compress(text), "unpack it with bunzip2"),
        ("xz", lzma.compress(text), "unpack it with unxz"),
        ("zip", None, "is a zip archive"),
        ("parquet", None, "let its name end in .parquet"),
        ("utf16", text.decode().encode("utf-16"), "save it as UTF-8"),
    ):
        path = tmp_path / f"{kind}.jsonl"
        if content is not None:
            path.write_bytes(content)
        for skip in (False, True):  # nothing of it can be read, so nothing is skipped
            message = fault(path, name, skip_bad_rows=skip)
            assert str(path) in message
            assert words in message


def test_folders_devices_pipes_and_links_in_circles_are_no_data(tmp_path: Path) -> None:
    (tmp_path / "folder" / "train.jsonl").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "folder" / "test.jsonl").symlink_to(tmp_path / "nowhere")
    for name in TASKS:
        assert "it holds test.jsonl, train.jsonl" in fault(tmp_path / "folder", name)
        assert "no regular file or folder" in fault(tmp_path / "pipe", name)
        assert "no regular file or folder" in fault("/dev/zero", name)
        assert "no such file or folder" in fault(tmp_path / "circle", name)


@pytest.mark.parametrize(
    "path", ["~nobody-here/x", "x" * 4000, "a\0b", "\x1b[31mred", "a\nb", "//", "x/" * 2000]
)
def test_paths_that_lead_nowhere_are_one_line(path: str) -> None:
    fault(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_and_folders_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(GOOD % 1)
    path.chmod(0)
    assert "cannot be read" in fault(path)
    (tmp_path / "closed").mkdir(mode=stat.S_IXUSR)
    assert "cannot be read" in fault(tmp_path / "closed")


def test_a_line_of_any_length_is_read_past_without_being_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "MAX_LINE", 1000)
    path = tmp_path / "own.jsonl"
    long = json.dumps({"question": "x" * 5000, "answer": "1"}) + "\n"
    path.write_text(GOOD % 1 + long + GOOD % 3)
    assert "line 2: is longer than" in fault(path)
    task = own(path, skip_bad_rows=True)
    assert [problem.question for problem in task.rows["train"]] == ["good 1", "good 3"]
    assert task.dropped() == {"too long": 1}


def test_a_key_given_twice_in_a_row_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "q", "answer": "1", "answer": "2"}\n' + GOOD % 2)
    assert "line 1: gives 'answer' twice" in fault(path)
    assert own(path, skip_bad_rows=True).dropped() == {"key given twice": 1}


def test_keys_with_control_codes_or_without_end_do_not_reach_the_message(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"\x1b[31mred": 1, **{f"key {n}": n for n in range(9000)}}))
    assert "line 1: has no 'question'; it has" in fault(path)


def test_rows_of_several_shards_have_ids_and_sides_of_their_own(tmp_path: Path) -> None:
    def shard(number: int) -> None:
        code = "def simple_math_problem():\n    return 1\n"
        # Every question stands in both shards, at different places.
        order = range(30) if number == 0 else reversed(range(30))
        rows = [{"question": f"q{n}", "answer": "#### 1", "code": code} for n in order]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"train-0000{number}-of-00002.jsonl").write_text(text)

    shard(0)
    shard(1)
    for name in ("gsm8k", "tinygsm", "jsonl"):
        task = make_task(TaskConfig(name=name, path=str(tmp_path), holdout=0.4, grading="text"))
        assert isinstance(task, StoredTask)
        ids = [problem.id for side in task.rows.values() for problem in side]
        assert len(set(ids)) == len(ids) == 60
        train, test = ({p.question for p in task.rows[side]} for side in ("train", "test"))
        assert train
        assert test
        assert train.isdisjoint(test)


def test_rows_that_share_an_id_stay_apart(tmp_path: Path) -> None:
    rows = [{"uid": "same", "premise": f"P{n}.", "hypothesis": "H.", "label": 0} for n in range(40)]
    (tmp_path / "dev_r1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = make_task(TaskConfig(name="anli", path=str(tmp_path), rounds=(1,), holdout=0.4))
    assert isinstance(task, StoredTask)
    ids = [problem.id for side in task.rows.values() for problem in side]
    assert len(set(ids)) == 40
    assert min(len(side) for side in task.rows.values()) > 5


# Parquet ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"prompt": ["a"], "target": ["b"]}, "row 1: has no 'question'; it has 'prompt', 'target'"),
        ({"question": ["a"], "answer": [None]}, "row 1: 'answer' is a null"),
        ({"question": [7], "answer": ["1"]}, "row 1: 'question' is a number"),
        ({"question": ["a"], "answer": [float("nan")]}, "row 1: 'answer' is nan"),
        ({"question": ["a"], "answer": [float("inf")]}, "row 1: 'answer' is inf"),
        ({"question": ["a"], "answer": [b"1"]}, "row 1: 'answer' is a bytes"),
        ({"question": ["a"], "answer": [datetime.date(2024, 1, 5)]}, "row 1: 'answer' is a date"),
        ({"question": ["a"], "answer": [{"x": 1}]}, "row 1: 'answer' is a table"),
        ({"question": ["a"], "answer": [[1]]}, "row 1: 'answer' is a list"),
    ],
)
def test_columns_of_another_kind_are_named_by_row(
    tmp_path: Path, columns: dict[str, list[Any]], words: str
) -> None:
    path = tmp_path / "own.parquet"
    good: dict[str, list[Any]] = {key: [*values, *values] for key, values in columns.items()}
    parquet.write_table(pyarrow.table(good), path)
    for grading in ("text", "number"):
        assert words in fault(path, grading=grading)
    assert "left out: 2" in fault(path, grading="text", skip_bad_rows=True)


def test_numbers_of_a_parquet_file_keep_their_value(tmp_path: Path) -> None:
    path = tmp_path / "own.PARQUET"
    answers = [decimal.Decimal("1.50"), decimal.Decimal("10000000000000000000003.00")]
    parquet.write_table(pyarrow.table({"question": ["a", "b"], "answer": answers}), path)
    golds = [problem.gold for problem in own(path).rows["train"]]
    assert golds == ["1.50", "10000000000000000000003.00"]


def test_text_that_is_no_unicode_in_a_parquet_file_is_one_line(tmp_path: Path) -> None:
    broken = pyarrow.array([b"\xff\xfe"]).cast(pyarrow.string(), safe=False)
    path = tmp_path / "own.parquet"
    parquet.write_table(pyarrow.table({"question": broken, "answer": ["1"]}), path)
    assert "no readable Parquet file" in fault(path)


def test_damaged_parquet_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    parquet.write_table(pyarrow.table({"question": ["a"] * 50, "answer": ["1"] * 50}), path)
    content, rng = path.read_bytes(), random.Random(1)
    for _ in range(20):
        path.write_bytes(content[: rng.randrange(len(content) - 1)])
        fault(path)


# Rows ---------------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)
KEYS = ("question", "answer", "code", "premise", "hypothesis", "label", "uid", "choices", "x")
table = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)


def outcome(path: Path, name: str, **settings: Any) -> StoredTask | str:
    """The task, or the line that says why not; anything else that is raised fails."""
    try:
        task = make_task(TaskConfig(name=name, path=str(path), **settings))
    except MaporlError as error:
        return str(error)
    assert isinstance(task, StoredTask)
    return task


@given(
    rows=st.lists(table | values, max_size=4),
    name=st.sampled_from(TASKS),
    skip=st.booleans(),
    grading=st.sampled_from(["number", "choice", "text"]),
)
def test_rows_of_any_shape_are_read_or_refused_in_one_line(
    rows: list[Any], name: str, skip: bool, grading: str, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("rows") / "dev_r1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = outcome(path, name, skip_bad_rows=skip, grading=grading)
    if isinstance(found, str):
        assert "\n" not in found
        assert str(path) in found
        return
    kept = sum(map(len, found.rows.values()))
    assert kept > 0
    assert kept + sum(found.dropped().values()) == len(rows)


@given(
    content=st.binary(max_size=80)
    | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))
)
def test_bytes_whatever_are_one_line(content: bytes, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("bytes") / "own.jsonl"
    path.write_bytes(content)
    for skip in (False, True):
        assert str(path) in fault(path, skip_bad_rows=skip)
