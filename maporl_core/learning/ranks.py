"""Who trains beside this process: how work is dealt out and numbers are brought together.

``Ranks`` is the interface that ``credit``, ``base_update`` and ``updater`` speak; ``Alone`` is one
process by itself.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


class Ranks(Protocol):
    """``index`` of ``count`` processes that train one run together."""

    @property
    def index(self) -> int: ...

    @property
    def count(self) -> int: ...

    def share(self, places: range) -> range:
        """The part of the work that is this process's; the parts of all are the whole."""
        ...

    def gather(self, item: T) -> list[T]:
        """The item of every process, by index."""
        ...

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all processes, in the order of their indices."""
        ...

    def agree(self, flag: bool) -> bool:
        """Whether any process says so: the same in all of them."""
        ...


class Alone:
    """One process."""

    index = 0
    count = 1

    def share(self, places: range) -> range:
        return places

    def gather(self, item: T) -> list[T]:
        return [item]

    def sum(self, x: Tensor) -> Tensor:
        return x

    def agree(self, flag: bool) -> bool:
        return flag
