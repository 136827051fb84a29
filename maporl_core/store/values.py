"""How text, numbers and token ids become SQLite values, and come back unchanged.

In: Python values of the records.  Out: values sqlite3 can bind.  Neighbours: ``rows`` writes with
it, ``reader`` reads with it.

Text is TEXT wherever UTF-8 can hold it.  Text with a lone surrogate has no UTF-8 form, and SQL
functions stop at a NUL, so both are kept as a BLOB (UTF-8 with surrogates passed through).
SQLite has no NaN: a required number that is NaN is stored as NULL; an optional one uses NULL for
None and the text ``nan`` for NaN.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any

_NAN = "nan"
_INT_CODES = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))


def put_text(text: str | None) -> str | bytes | None:
    """Text as SQLite keeps it: TEXT, or BLOB for what TEXT cannot hold."""
    if text is None:
        return None
    if "\x00" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "surrogatepass")


def get_text(value: str | bytes) -> str:
    """The text that ``put_text`` was given."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def get_optional_text(value: str | bytes | None) -> str | None:
    return None if value is None else get_text(value)


def preview(value: str | bytes, length: int) -> str:
    """The first ``length`` characters of a stored text that may have been cut in mid character."""
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    return text[:length]


def put_number(value: float) -> float | None:
    """A required number: NaN becomes NULL; infinities are kept."""
    return None if math.isnan(value) else float(value)


def get_number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def put_optional_number(value: float | None) -> float | str | None:
    """An optional number: None becomes NULL, NaN the text ``nan``."""
    if value is None:
        return None
    return _NAN if math.isnan(value) else float(value)


def get_optional_number(value: float | str | None) -> float | None:
    return None if value is None else float(value)


def put_flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def get_flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def put_json(value: Any) -> str:
    """JSON text; non-ASCII is escaped, so lone surrogates and NUL survive."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def pack_ints(values: Sequence[int]) -> bytes:
    """Integers as one type letter and little-endian items of the smallest width that fits."""
    if not values:
        return b""
    code = "q"
    if min(values) >= 0:
        largest = max(values)
        code = next(code for code, limit in _INT_CODES if largest < limit)
    return code.encode() + _little_endian(array(code, values))


def unpack_ints(data: bytes) -> tuple[int, ...]:
    return tuple(_items(data)) if data else ()


def pack_floats(values: Sequence[float]) -> bytes:
    """Floats as one type letter and little-endian items: 32 bits where that is exact, else 64."""
    if not values:
        return b""
    exact = array("d", values)
    short = array("f", values)
    same = array("d", short).tobytes() == exact.tobytes()
    return b"f" + _little_endian(short) if same else b"d" + _little_endian(exact)


def unpack_floats(data: bytes) -> tuple[float, ...]:
    return tuple(_items(data)) if data else ()


def _little_endian(items: array[Any]) -> bytes:
    if sys.byteorder == "big":
        items.byteswap()
    return items.tobytes()


def _items(data: bytes) -> array[Any]:
    items: array[Any] = array(chr(data[0]))
    items.frombytes(data[1:])
    if sys.byteorder == "big":
        items.byteswap()
    return items
