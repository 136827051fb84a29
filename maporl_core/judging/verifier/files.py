"""The files of a verifier's data: parts as they are sampled, then one table and its card.

In and out: ``Answer`` and ``Example`` records, plain dicts.  A file appears under its name only
when it is whole and on disk, so a process may be killed at any moment; what it was writing then is
swept by the next ``only_writer``.  Neighbours: ``data`` has the records, ``sampling`` decides
what is written when.  pyarrow is imported on first use.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from maporl_core.errors import ConfigError, DataError, StoreError
from maporl_core.judging.verifier.data import SPLITS, Answer, Example
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import exists, is_file, is_folder
from maporl_core.store.failures import store_errors
from maporl_core.store.manifest import flush

SETTINGS = "settings.json"
PARTS = "parts"
TABLE = "data.parquet"
CARD = "card.json"
CARD_PAGE = "card.md"

_LEFTOVER = ".*.part-*"  # what ``write_whole`` fills, until it has its name
_PATIENCE = 2.0  # seconds; children of a killed process hold its lock a moment longer

HINT = "give a folder made with: maporl verifier data"

_CLEAN = str.maketrans(dict.fromkeys(range(55296, 57344), "�"))
"""Parquet holds strict Unicode: a lone surrogate becomes U+FFFD."""


def clean_text(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts as they come back from a file."""
    return tuple(text.translate(_CLEAN) for text in texts)


def check_place(folder: Path) -> None:
    """Raises ConfigError unless there is nothing yet, or verifier data that was begun.

    What a killed process left of its very first file counts as nothing.
    """
    with store_errors("read", folder):
        if is_file(folder / SETTINGS) or not exists(folder):
            return
        if is_folder(folder) and not set(folder.iterdir()) - set(folder.glob(_LEFTOVER)):
            return
    raise ConfigError(f"{one_line(folder)} exists and holds no verifier data; name another folder")


def check_writable(target: Path) -> None:
    """Try to make something where ``target`` will be; long work should not end in a refusal.

    Raises StoreError when the name, the folder above or the disk does not allow it.
    """
    with store_errors("write", target):
        above = target.parent
        while not exists(above) and above != above.parent:
            above = above.parent
        with tempfile.TemporaryDirectory(prefix=f".{target.name[:40]}.part-", dir=above) as trial:
            (Path(trial) / target.name).touch()


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Make the folder, keep other writers out of it, and sweep what a killed one left half done.

    Raises StoreError while another process writes there; the lock ends with its process.
    """
    with store_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with store_errors("lock", folder):
            _lock(handle, folder)
            for path in (*folder.glob(_LEFTOVER), *folder.glob(f"{PARTS}/{_LEFTOVER}")):
                path.unlink()
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise StoreError(
                    f"another process is writing verifier data to {one_line(folder)}: wait until "
                    "it is done, or name another folder"
                ) from None
            time.sleep(0.05)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
                raise
            return  # a file system without locks
        else:
            return


def write_whole(path: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write a file beside ``path``, flush it, then give it the name.

    Raises StoreError when the disk refuses; ``path`` is then as it was.
    """
    building = path.with_name(f".{path.name}.part-{os.getpid()}")
    with store_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fill(building)
            flush(building)
            building.replace(path)
            flush(path.parent)
        finally:
            building.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    def fill(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    write_whole(path, fill)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Strict JSON: the caller has made NaN and infinity None."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, hint: str) -> dict[str, Any]:
    """A JSON object.  Raises DataError that ends with ``hint`` when there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if is_file(path) else None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{one_line(path)}: cannot be read ({one_line(error)}); {hint}") from error
    if not isinstance(found, dict):
        what = "holds no JSON object" if is_file(path) else no_file(path)
        raise DataError(f"{one_line(path)}: {what}; {hint}")
    return found


def no_file(path: Path) -> str:
    """What a path is that leads to no file, to follow its name in a message."""
    if is_folder(path):
        return "is a folder, not a file"
    return "is a pipe or device, not a file" if exists(path) else "no such file"


def read_data_card(folder: Path) -> dict[str, Any]:
    """The card of a data folder.  Raises DataError, saying what to do, when it is not whole."""
    if is_file(folder / SETTINGS) and not exists(folder / CARD):  # the card is written last
        raise DataError(
            f"{one_line(folder)}: its sampling was stopped; the same maporl verifier data command "
            "goes on, and then this works"
        )
    return read_json(folder / CARD, HINT)


def part_path(folder: Path, number: int) -> Path:
    return folder / PARTS / f"part-{number:06d}.parquet"


def write_part(path: Path, answers: Sequence[Answer]) -> None:
    """Answers of some questions, repeated and unparsable ones included."""
    _write(path, [asdict(answer) for answer in answers], _columns(Answer))


def read_part(path: Path) -> list[Answer]:
    """Raises DataError, saying what to remove, when the file is damaged."""
    hint = "remove this file, and the same command samples it again"
    return [Answer(**row) for row in _read(path, _columns(Answer), hint)]


def write_examples(path: Path, examples: Sequence[Example]) -> None:
    _write(path, [asdict(example) for example in examples], _columns(Example))


def read_examples(folder: Path) -> dict[str, list[Example]]:
    """Examples of a data folder by split.  Raises DataError when it is not whole."""
    read_data_card(folder)
    sides: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for number, row in enumerate(_read(folder / TABLE, _columns(Example), HINT), start=1):
        if None in row.values() or not 0.0 <= row["difficulty"] <= 1.0:
            raise DataError(
                f"{folder / TABLE}: row {number} lacks a value or has an impossible one; {HINT}"
            )
        example = Example(**row)
        if example.split not in sides:
            raise DataError(f"{folder / TABLE}: has a split {one_line(example.split)!r}; {HINT}")
        sides[example.split].append(example)
    return sides


def _columns(record: type[Answer] | type[Example]) -> dict[str, str]:
    """Name → type of each column, as Arrow names it."""
    arrow = {"str": "string", "str | None": "string", "bool": "bool", "float": "double"}
    return {f.name: arrow[str(f.type)] for f in fields(record)}


def _write(path: Path, rows: list[dict[str, Any]], columns: Mapping[str, str]) -> None:
    import pyarrow
    from pyarrow import parquet

    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                row[name] = value.translate(_CLEAN)
    schema = pyarrow.schema(
        [(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()]
    )
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    write_whole(path, lambda part: parquet.write_table(table, part, compression="zstd"))


def _read(path: Path, columns: Mapping[str, str], hint: str) -> list[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    if not is_file(path):
        raise DataError(f"{one_line(path)}: {no_file(path)}; {hint}")
    try:
        table = parquet.read_table(path, partitioning=None)
        found = {
            name: str(kind)
            for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        }
        if found != dict(columns):
            raise DataError(f"{one_line(path)}: has other columns than it should; {hint}")
        return list(table.to_pylist())
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DataError(f"{one_line(path)}: cannot be read ({one_line(error)}); {hint}") from error
