"""The run's story and its alerts, newest first, one row per event.

In: events as stored.  Out: rows, of which only those on the screen are ever made; a cursor, a
filter.  Neighbours: the Dashboard shows it, ``dialogs.Whole`` shows one event whole.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from maporl_core.store.reader import Event
from maporl_tui.drawing.text import one_line, safe

ALERTS = ("warning", "error")
_MARKS = {"warning": "!", "error": "✗"}


class LogView(ScrollView, can_focus=True):
    """A list of events; n and N go from alert to alert, or through what the filter left."""

    COMPONENT_CLASSES = {"log--warning", "log--error", "log--cursor", "log--info"}
    DEFAULT_CSS = """
    LogView { scrollbar-size-horizontal: 0; }
    LogView > .log--info { color: $foreground; }
    LogView > .log--warning { color: $warning; text-style: bold; }
    LogView > .log--error { color: $error; text-style: bold; }
    LogView > .log--cursor { text-style: reverse; }
    """
    BINDINGS = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "step(-1000000)", show=False),
        Binding("end", "step(1000000)", show=False),
    ]

    cursor: var[int] = var(0)

    class Counted(Message):
        """What there is to count has changed."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._all: tuple[Event, ...] = ()
        self._rows: tuple[Event, ...] = ()
        self.filter = ""
        self.border_title = "log"

    @property
    def chosen(self) -> Event | None:
        """The event under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the filter lets through, newest first."""
        return self._rows

    def show(self, events: Sequence[Event]) -> None:
        """Show these events (oldest first, as stored); the cursor stays on its event."""
        if events is self._all or tuple(events) == self._all:
            return
        self._all = tuple(events)
        self._sift()

    def narrow(self, words: str) -> None:
        """Only events that hold ``words`` in any case; empty: all."""
        self.filter = words.strip()
        self._sift()

    def next_match(self, by: int) -> bool:
        """The next older (1) or newer (-1) row: an alert, or any row when filtered."""
        wanted = [i for i, event in enumerate(self._rows) if self.filter or event.level in ALERTS]
        if not wanted:
            return False
        ahead = [i for i in wanted if (i - self.cursor) * by > 0]
        # Where no alert was looked at yet, the first one may be right under the cursor.
        nearest = min(ahead, key=lambda i: abs(i - self.cursor), default=None)
        self.cursor = nearest if nearest is not None else wanted[0 if by > 0 else -1]
        return True

    def action_step(self, by: int) -> None:
        self.cursor = min(max(0, len(self._rows) - 1), max(0, self.cursor + by))

    def action_page(self, by: int) -> None:
        self.action_step(by * max(1, self.size.height - 1))

    def watch_cursor(self) -> None:
        top = self.scroll_offset.y
        height = max(1, self.scrollable_content_region.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)
        self.refresh()

    def _sift(self) -> None:
        before = self.chosen
        at_top = self.cursor == 0
        wanted = self.filter.casefold()
        self._rows = tuple(event for event in reversed(self._all) if wanted in _searched(event))
        keys = [event.id for event in self._rows]
        keep = before is not None and not at_top and before.id in keys
        self.virtual_size = Size(0, len(self._rows))
        self.set_reactive(LogView.cursor, keys.index(before.id) if keep and before else 0)
        self.watch_cursor()
        alerts = sum(event.level in ALERTS for event in self._all)
        count = len(self._all)
        title = [f"log: {count} event{'s' * (count != 1)}"]
        if alerts:
            title.append(f"{alerts} alert{'s' if alerts > 1 else ''}, n goes there")
        if self.filter:
            title.append(f"filter {one_line(self.filter, 30)!r}: {len(self._rows)}")
        self.border_title = " · ".join(title).replace("[", r"\[")

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        row = y + self.scroll_offset.y
        if row >= len(self._rows):
            if y == 0 and not self._rows:
                words = "no event holds that; / with nothing shows all" if self.filter else ""
                text = Segment(words, self.rich_style)
                return Strip([text]).adjust_cell_length(width, self.rich_style)
            return Strip.blank(width, self.rich_style)
        event = self._rows[row]
        level = event.level if event.level in ALERTS else "info"
        style = self.rich_style + self.get_component_rich_style(f"log--{level}", partial=True)
        if row == self.cursor and self.has_focus:
            style += self.get_component_rich_style("log--cursor", partial=True)
        return Strip([Segment(_line(event, width), style)]).adjust_cell_length(width, style)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()


def _line(event: Event, width: int = 400) -> str:
    """One event as one line, marked where it is an alert."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.time))
    mark = _MARKS.get(event.level, " ")
    return f"{clock} {mark} {event.level} {one_line(event.kind, 20)}: {one_line(event.text, width)}"


def _searched(event: Event) -> str:
    return f"{event.level} {event.kind}: {event.text[:100_000]}".casefold()


def whole_event(event: Event) -> str:
    """Everything that is stored of one event."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    return f"{clock}  {event.level}  {safe(event.kind)}\n\n{safe(event.text)}"
