"""What the Debate screen shows next: the debate being written, a stored one, or the same still.

In: the ``RunView``, what is shown, whether the screen follows.  Out: one ``Want``.  Pure.
Neighbours: the Debate screen asks at every change of the view and does what it says.

While a step is being generated the watched debate exists only in the live rows; when the step is
written it has an id in the store and the stored one takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from maporl_core.store.reader import LiveDiscussion
from maporl_tui.reading.debate_records import Debate
from maporl_tui.reading.view import RunView


@dataclass(frozen=True, slots=True)
class ShowLive:
    """Draw the watched debate from the live rows."""

    live: LiveDiscussion


@dataclass(frozen=True, slots=True)
class Load:
    """Show the stored debate ``key``."""

    key: int


@dataclass(frozen=True, slots=True)
class Newest:
    """Show the newest debate that passes the filter; ``mark`` changes when there may be a newer."""

    mark: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class FindWatched:
    """Show the stored form of a watched debate whose id was never seen."""

    step: int
    problem_id: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing new to show."""


Want = ShowLive | Load | Newest | FindWatched | Keep


def being_written(view: RunView) -> LiveDiscussion | None:
    """The watched debate while its step is not in the store yet; None when nothing is written."""
    live = view.live
    return live if live is not None and view.is_live and live.discussion is None else None


def decide(
    view: RunView,
    shown: Debate | None,
    *,
    follow: bool,
    filtered: bool,
    newest_mark: tuple[object, ...] | None,
) -> Want:
    """What to show now.  ``newest_mark`` is the mark of the last ``Newest`` that was done."""
    live = view.live
    if follow and live is not None and view.is_live and not filtered:
        if live.discussion is None:
            return ShowLive(live)
        key = live.discussion
        return Keep() if shown is not None and shown.key == key else Load(key)
    if follow or shown is None:
        mark = (view.generation, view.last_written, len(view.evaluations))
        return Keep() if mark == newest_mark else Newest(mark)
    if shown.key is not None:
        return Keep()
    # A debate that was being written when following was switched off stays until it is stored.
    if live is not None and live.version == shown.version:
        return ShowLive(live) if live.discussion is None else Load(live.discussion)
    return FindWatched(shown.step, shown.problem_id)
