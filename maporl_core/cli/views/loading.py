"""Loading, shown while it lasts: a spinner, or a plain line where downloads draw their own bars.

In: names of stages.  Out: one line of the terminal that is gone when loading is done.  Neighbours:
``live`` and ``lines`` show the stages after it.
"""

from __future__ import annotations

from rich.console import Console
from rich.status import Status

from maporl_core.cli.views.terminal import plain
from maporl_core.kit.user_paths import exists, user_path
from maporl_core.models.assets import VARIANTS
from maporl_core.runs.doctor import HUB_TASKS


def is_loading(stage: str) -> bool:
    """Whether a stage loads something, as ``assembly`` and the commands name them."""
    return stage.startswith("loading ")


def may_download(stage: str) -> bool:
    """Whether a loading stage may fetch something, with a bar that a spinner would garble."""
    kind, _, what = stage.removeprefix("loading ").partition(" ")
    if kind == "model":
        return what not in VARIANTS and not exists(user_path(what))
    return kind == "task" and what in HUB_TASKS


def spinner_name(console: Console) -> str:
    return "line" if console.options.ascii_only else "dots"


class Loading:
    """The line that says what is being loaded."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None

    def show(self, stage: str) -> None:
        """Say that ``stage`` goes on, in place of the one before."""
        if not self.console.is_terminal or may_download(stage):
            self.done()
            self.console.print(plain(f"{stage} …", "dim"), soft_wrap=True)
        elif self._status is None:
            self._status = self.console.status(
                plain(stage, "dim"), spinner=spinner_name(self.console)
            )
            self._status.start()
        else:
            self._status.update(plain(stage, "dim"))

    def done(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None
