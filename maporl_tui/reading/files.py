"""Files that the app writes for its user: exports of debates, tables and charts.

In: a path as typed and the text.  Out: the file, or one line that says why not.  Neighbour: ``app``
asks for the path and calls this away from the thread that draws.
"""

from __future__ import annotations

from pathlib import Path

from maporl_core.errors import StoreError


def write_export(path: Path, text: str, overwrite: bool = False) -> Path:
    """Write ``text`` as UTF-8 and return the full path; folders are made.

    Raises FileExistsError when there is such a file and ``overwrite`` is off, StoreError when it
    cannot be written.
    """
    path = path.expanduser()
    data = text.encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if overwrite else "xb") as file:
            file.write(data)
    except FileExistsError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path.resolve()
