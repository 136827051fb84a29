"""``maporl bench store``: open, filter, page and chart a store of any size.

Neighbour: ``store`` builds and measures; here it becomes a kind that ``config.doors`` names.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from maporl_core.config.kinds import Count, Section
from maporl_core.experiments.bench.base import Found
from maporl_core.experiments.bench.store import bench_store
from maporl_core.kit.progress import Progress


class StoreOptions(Section):
    messages: Count = Field(1_000_000, description="messages in the store")


class StoreBench:
    """Builds a large store, and times opening it, every filter, pages and charts."""

    says = "a million messages: open, filter, page"
    needs = ()
    Options = StoreOptions

    def __init__(self, options: StoreOptions) -> None:
        self.options = options

    def measure(self, progress: Progress) -> Found:
        messages = self.options.messages
        with tempfile.TemporaryDirectory() as folder:
            progress.stage(f"building a store of {messages:,} messages", messages)
            found = bench_store(Path(folder), messages, on_messages=progress.advance)
        figures = found["figures"]
        limits = {name: found["limits"][name.partition(":")[0]] for name in figures}
        return Found(figures, limits, found)
