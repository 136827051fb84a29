"""What all six screens have in common.

In: the app's ``RunView`` whenever it changes while the screen is shown, and once when it is shown
again.  Out: a header, the body of the screen, the status line and the footer.  Neighbours: ``app``
keeps the view and the selection, the six screens fill in the body.

A screen implements ``compose_body`` and ``show_view``, and of the common actions those it has a
use for (``action_find``, ``action_next_match``, ``action_previous_match``, ``action_follow``,
``action_copy``, ``action_export``); keys of the others do nothing and are not in the help.
"""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from maporl_tui.host import Host, host_of
from maporl_tui.look.keymap import COMMON, SCREENS, bindings
from maporl_tui.reading.view import RunView
from maporl_tui.widgets.key_line import KeyLine
from maporl_tui.widgets.status_line import StatusLine
from maporl_tui.widgets.tabs import ScreenTabs


class RunScreen(Screen[None]):
    """One of the six screens."""

    NAME: ClassVar[str]
    """Its name in the keymap and on the command line."""
    FOOTER: ClassVar[tuple[str, ...]] = ()
    """Ids of the bindings that the footer shows."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
    AUTO_FOCUS = ""
    # Textual draws the whole screen again when the focus moves; the two widgets do it themselves.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    def __init_subclass__(cls, **options: Any) -> None:
        if "NAME" not in vars(cls):  # what a screen is derived from has no keys yet
            super().__init_subclass__(**options)
            return
        rows = SCREENS[cls.NAME]
        own = {row[0].partition("(")[0] for row in rows}
        common = [
            row
            for row in COMMON
            if row[0] in ("back", "maximise") or hasattr(cls, f"action_{row[0]}")
        ]
        missing = [name for name in own if not hasattr(cls, f"action_{name}")]
        if missing:
            raise TypeError(f"{cls.__name__} has no action_{missing[0]}")
        cls.BINDINGS = [
            *bindings(cls.NAME, rows, cls.FOOTER),
            *bindings("common", common, cls.FOOTER),
        ]
        cls.CSS_PATH = ["../base.tcss", f"{cls.NAME}.tcss"]
        super().__init_subclass__(**options)

    @property
    def maporl(self) -> Host:
        """The app, as far as screens may ask it."""
        return host_of(self)

    @property
    def view(self) -> RunView | None:
        """What is known of the run that the app is attached to."""
        return self.maporl.view

    def compose(self) -> ComposeResult:
        yield ScreenTabs(self.NAME)
        with Container(id="body"):
            yield from self.compose_body()
        yield StatusLine()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """The widgets of the screen."""
        raise NotImplementedError

    def show_view(self, view: RunView | None) -> None:
        """Draw what has changed; None when the app is attached to no run."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.watch(self.app, "view", self._view_changed, init=False)

    def on_screen_resume(self) -> None:
        self._view_changed(self.view)

    def _view_changed(self, view: RunView | None) -> None:
        if not self.is_current:
            return
        self.query_one(StatusLine).show(view)
        self.set_class(view is not None and view.stale, "-stale-data")
        self.show_view(view)

    def action_maximise(self) -> None:
        """The focused pane over the whole screen, and back."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(_pane(self.focused))

    def action_back(self) -> None:
        """Undo the last narrowing: a maximised pane first, then the screen before."""
        if self.maximized is not None:
            self.minimize()
        else:
            self.maporl.go_back()


def _pane(widget: Widget) -> Widget:
    """The pane that a focused widget belongs to."""
    for node in widget.ancestors_with_self:
        if isinstance(node, Widget) and node.has_class("pane"):
            return node
    return widget
