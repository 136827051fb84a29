"""Rows of local data files: JSON lines and Parquet, with file and line in every complaint.

In: a file or folder.  Out: ``Row`` records in file order; numbers keep the spelling they have in
the file (``NumberText``), strings stay strings.  Neighbours: the tasks turn rows into problems
and report bad ones to a ``Tally``, which stops with a DataError or counts them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from maporl_core.errors import DataError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import exists, is_file, is_folder, user_path

MAX_LINE = 64 << 20  # bytes of one line; no question is that long, but a wrong file may be one line
SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet")
# First bytes of files that are often given in place of JSON lines, and what to do with them.
_OTHER_FILES = (
    (b"\x1f\x8b", "is compressed by gzip; unpack it with gunzip"),
    (b"BZh", "is compressed by bzip2; unpack it with bunzip2"),
    (b"\xfd7zXZ", "is compressed by xz; unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd; unpack it with unzstd"),
    (b"PK\x03\x04", "is a zip archive; unpack it"),
    (b"PAR1", "is a Parquet file; let its name end in .parquet"),
    (b"\xff\xfe", "is UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text; save it as UTF-8"),
)
_SUBFOLDERS = ("", "main", "data", "plain_text")  # where copies of hub repositories keep files


class NumberText(str):
    """A JSON number exactly as the file spells it: "2", "1.50", "1e-7"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """``number`` counts the rows of a file from 0, bad ones included; ``where`` is for people."""

    number: int
    where: str
    values: Mapping[str, Any]


class BadRow(ValueError):
    """A row that cannot be used: ``reason`` groups it in counts, the message says more."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class Tally:
    """Counts the rows that are left out, by reason.

    ``skip`` decides about unreadable rows: left out and counted, or a DataError at the first.
    """

    skip: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str) -> None:
        """A row that this task never uses, such as one without a gold label."""
        self.counts[reason] += 1

    def bad(self, where: str, error: BadRow) -> None:
        """An unreadable row.  Raises DataError unless such rows are to be skipped."""
        if not self.skip:
            raise DataError(
                f"{where}: {one_line(error)}; mend it, or leave such rows out with "
                "--set task.skip_bad_rows=true"
            ) from error
        self.counts[error.reason] += 1


def read_files(files: Iterable[Path], tally: Tally) -> Iterator[Row]:
    """All rows of several files in order, numbered on from file to file.

    Raises DataError when one of them cannot be read at all.
    """
    first = 0
    for file in files:
        number = -1
        for row in read_rows(file, tally):
            number = row.number
            yield Row(first + number, row.where, row.values)
        first += number + 1


def read_rows(path: Path, tally: Tally) -> Iterator[Row]:
    """All rows of one file; unreadable ones go to ``tally``.

    Raises DataError when the file cannot be read at all.
    """
    try:
        if path.suffix.lower() == ".parquet":
            yield from _parquet_rows(path)
        else:
            yield from _json_rows(path, tally)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise DataError(f"{one_line(path)}: cannot be read ({reason})") from error


def _json_rows(path: Path, tally: Tally) -> Iterator[Row]:
    # Lines are split at \n only: other line ends may stand inside strings.
    with path.open("rb") as file:
        number = 0
        for line_number, raw in enumerate(_lines(file), start=1):
            if line_number == 1:
                _check_kind(path, raw)
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.strip():
                continue
            where = f"{one_line(path)}, line {line_number}"
            try:
                yield Row(number, where, _parse(raw))
            except BadRow as error:
                tally.bad(where, error)
            number += 1


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines of bounded length: the rest of one that is longer is read past, not kept."""
    while raw := file.readline(MAX_LINE + 1):
        yield raw
        while len(raw) > MAX_LINE and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE + 1)


def _check_kind(path: Path, start: bytes) -> None:
    """Raises DataError for a file that is no JSON lines by its first bytes."""
    for magic, what in _OTHER_FILES:
        if start.startswith(magic):
            raise DataError(f"{one_line(path)}: {what}")


def _parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_LINE:
        raise BadRow("too long", f"is longer than {MAX_LINE >> 20} MiB")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRow("not UTF-8", f"is not UTF-8 text (byte {error.start + 1})") from error
    try:
        values = json.loads(
            text,
            parse_float=NumberText,
            parse_int=NumberText,
            parse_constant=_no_constant,
            object_pairs_hook=_no_repeats,
        )
    except json.JSONDecodeError as error:
        torn = "" if raw.endswith(b"\n") else " and ends without a line end; was it torn off?"
        raise BadRow(
            "not JSON", f"is not a JSON object ({error.msg}, column {error.colno}){torn}"
        ) from error
    except RecursionError as error:
        raise BadRow("not JSON", "is nested too deeply") from error
    if not isinstance(values, dict):
        raise BadRow(
            "not an object", f"holds a JSON {json_type(values)}, not an object of keys and values"
        )
    return values


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise BadRow("key given twice", f"gives {one_line(twice, 40)!r} twice")
    return found


def _no_constant(name: str) -> Any:
    raise BadRow("not JSON", f"holds {name}, which is no JSON number")


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for values in batch.to_pylist():
                    yield Row(number, f"{one_line(path)}, row {number + 1}", values)
                    number += 1
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        # ArrowExceptions, and texts or times that Python has no value for.
        raise DataError(
            f"{one_line(path)}: is no readable Parquet file ({one_line(error)})"
        ) from error


def text_of(values: Mapping[str, Any], key: str, setting: str = "") -> str:
    """A non-empty text under ``key``.  Raises BadRow for anything else.

    ``setting`` is the config key that names ``key``, where there is one.
    """
    value = values.get(key)
    if key not in values:
        raise missing_key(values, key, setting)
    if not isinstance(value, str) or isinstance(value, NumberText):
        raise BadRow(f"bad {key}", f"{key!r} is a {json_type(value)}, not text")
    if not value.strip():
        raise BadRow(f"empty {key}", f"{key!r} is empty")
    return value


def missing_key(values: Mapping[str, Any], key: str, setting: str = "") -> BadRow:
    """The error for a row without ``key``."""
    there = one_line(", ".join(map(repr, values))) or "no keys"
    hint = f" (see {setting})" if setting else ""
    return BadRow(f"no {key}", f"has no {key!r}; it has {there}{hint}")


def json_type(value: Any) -> str:
    """What JSON calls the type of a value read from a file."""
    if isinstance(value, NumberText | int | float) and not isinstance(value, bool):
        return "number"
    names = {type(None): "null", bool: "truth value", list: "list", dict: "table", str: "text"}
    return names.get(type(value), type(value).__name__)


# --- finding files ----------------------------------------------------------------------------


def local_path(path: str) -> Path:
    """The file or folder.  Raises DataError when there is none."""
    found = user_path(path)
    if not exists(found):
        raise DataError(f"{one_line(path)}: no such file or folder (task.path)")
    if not is_file(found) and not is_folder(found):
        raise DataError(f"{one_line(path)}: is no regular file or folder (task.path)")
    return found


def split_files(folder: Path, split: str) -> list[Path]:
    """Files of one split: split.jsonl, split.parquet, split-00000-of-00002.parquet and the like.

    Looked for in the folder, then in the folders that copies of hub repositories use.
    """
    for sub in _SUBFOLDERS:
        here = folder / sub
        if not is_folder(here):
            continue
        for suffix in SUFFIXES:
            whole = here / f"{split}{suffix}"
            if is_file(whole):
                return [whole]
            if shards := sorted(here.glob(f"{split}-*-of-*{suffix}")):
                return shards
    return []


def nothing_found(folder: Path, wanted: str) -> DataError:
    """The error for a folder without the files that a task looks for."""
    try:
        there = sorted(one_line(entry.name, 60) for entry in folder.iterdir())
    except OSError as error:
        return DataError(f"{one_line(folder)}: cannot be read ({error.strerror})")
    shown = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    return DataError(f"{one_line(folder)}: holds no {wanted}; it holds {shown or 'nothing'}")
