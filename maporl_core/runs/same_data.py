"""Whether a run's data is still what the run began with, wherever it lies now.

In: a run's folder and its config, now and before.  Out: nothing, or a ConfigError naming both
places.  The store keeps a hash of every problem (``tasks.data.stored``).  Neighbours: ``session``
notes it and asks on a resume; ``maporl resume`` and ``api`` ask before they change anything.
"""

from __future__ import annotations

from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, MaporlError
from maporl_core.kit.plain_text import one_line
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.tasks.base import Task
from maporl_core.tasks.data.stored import content_of
from maporl_core.tasks.registry import make_task

CONTENT = "data_content"
"""Fact of the store: the hash of the data the run began with."""


def note_data(run: RunDir, store: StoreWriter, task: Task) -> None:
    """Keep the hash of what the run began with; tasks without stored data have none."""
    if (content := content_of(task)) is None:
        return
    with StoreReader(run) as reader:
        known = reader.meta().get(CONTENT)
    if known is None:
        store.set_meta({CONTENT: content})


def check_moved(
    run: RunDir, before: RunConfig, wanted: RunConfig, task: Task | None = None
) -> None:
    """Raise ConfigError where ``task.path`` changed and other data lies there.

    ``task``: the wanted one, if it is loaded already.  Where the store holds no hash yet, the old
    place is read as well.
    """
    if before.task.path == wanted.task.path:
        return
    content = content_of(make_task(wanted.task) if task is None else task)
    with StoreReader(run) as reader:
        known = reader.meta().get(CONTENT)
    places = f"task.path: run {run.name!r} began with {_place(before)}"
    if known is None:
        try:
            known = content_of(make_task(before.task))
        except MaporlError as error:
            raise ConfigError(
                f"{places}, which cannot be compared with {_place(wanted)} any more: "
                f"{one_line(error)}"
            ) from error
    if content != known:
        raise ConfigError(
            f"{places}, and {_place(wanted)} holds other problems; give the place where the same "
            "data lies now, or start a new run"
        )


def _place(config: RunConfig) -> str:
    return one_line(config.task.path or config.task.hub_id or f"the hub's {config.task.name}")
