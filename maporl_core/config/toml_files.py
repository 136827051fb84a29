"""Reading the file of a run description, whatever somebody gave in its place.

In: a path.  Out: its text, or a ConfigError in one line.  Neighbour: ``config.load`` parses it.
"""

from __future__ import annotations

from pathlib import Path

from maporl_core.errors import ConfigError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file, is_folder

_MAX_BYTES = 1 << 20  # no run description is longer than this; a mistaken path may be


def read_toml_text(path: Path, otherwise: str) -> str:
    """The text of a file, without a byte order mark.  Raises ConfigError.

    ``otherwise`` says what to give where there is no such file.
    """
    if is_folder(path):
        inside = path / "config.toml"
        hint = f"; its config is {one_line(inside)}" if is_file(inside) else ""
        raise ConfigError(f"{one_line(path)} is a folder, not a TOML file{hint}")
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"no file {one_line(path)}; {otherwise}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigError(f"cannot read {one_line(path)}: {reason}") from None
    if len(raw) > _MAX_BYTES:
        raise ConfigError(f"{one_line(path)} is over 1 MiB; a run description is a short TOML file")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{one_line(path)}: is UTF-16 text; save it as UTF-8")
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{one_line(path)} line {line}: not UTF-8 text") from None
