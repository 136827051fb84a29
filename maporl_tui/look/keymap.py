"""Every key of the app in one place, each with an id that a user can put another key to.

In: a name of this module's tables.  Out: Textual bindings.  Neighbours: ``app`` and the screens
take their ``BINDINGS`` from here, ``settings`` holds the user's keys, the help screen lists them.

No key with ctrl except the palette: terminals and tmux keep those for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from textual.binding import Binding

_FUNCTION_KEY = re.compile(r"f\d+")
Row = tuple[str, str, str]
"""(action, key, description)"""

APP: tuple[Row, ...] = (
    ("show('runs')", "1", "Runs"),
    ("show('dashboard')", "2", "Dashboard"),
    ("show('debate')", "3", "Debate"),
    ("show('rewards')", "4", "Rewards"),
    ("show('compare')", "5", "Compare"),
    ("show('launch')", "6", "Launch"),
    ("help", "question_mark", "Help"),
    ("pause", "P", "Pause or resume the run"),
    ("checkpoint", "C", "Checkpoint now"),
    ("stop", "X", "Stop after this step"),
    ("detach", "q", "Detach"),
)
COMMON: tuple[Row, ...] = (
    ("find", "slash", "Filter"),
    ("next_match", "n", "Next match"),
    ("previous_match", "N", "Previous match"),
    ("maximise", "z", "Maximise"),
    ("follow", "f", "Follow"),
    ("copy", "y", "Copy"),
    ("export", "e", "Export"),
    ("back", "escape", "Back"),
)
"""What every screen answers to; one that has no use for a key hides it."""

SCREENS: Mapping[str, tuple[Row, ...]] = {
    "runs": (
        ("attach", "enter", "Attach"),
        ("mark", "space", "Mark"),
        ("compare", "v", "Compare"),
        ("delete", "d", "Delete"),
        ("sort", "s", "Sort"),
        ("reverse", "r", "Reverse"),
    ),
    "dashboard": (
        ("zoom", "enter", "Zoom"),
        ("crosshair", "x", "Crosshair"),
        ("log_axis", "l", "Log axis"),
        ("smooth", "s", "Smoothing"),
        ("move('left')", "left", "Chart left, or crosshair back"),
        ("move('right')", "right", "Chart right, or crosshair on"),
        ("move('up')", "up", "Chart up"),
        ("move('down')", "down", "Chart down"),
    ),
    "debate": (
        ("previous_debate", "comma", "Previous debate"),
        ("next_debate", "full_stop", "Next debate"),
        ("agent(-1)", "h", "Agent left"),
        ("agent(1)", "l", "Agent right"),
        ("turn(1)", "j", "Turn down"),
        ("turn(-1)", "k", "Turn up"),
        ("open_whole", "o", "Open whole"),
        ("raw_prompt", "t", "Raw prompt"),
        ("to_rewards", "enter", "Rewards"),
        ("only('corrected')", "r", "Only corrected"),
        ("only('persuaded')", "p", "Only persuaded"),
        ("only('broke')", "b", "Only broke"),
        ("only('all_wrong')", "w", "Only all wrong"),
    ),
    "rewards": (
        ("part", "c", "Part"),
        ("to_debate", "enter", "To the debate"),
        ("previous_debate", "comma", "Previous debate"),
        ("next_debate", "full_stop", "Next debate"),
    ),
    "compare": (
        ("swap", "b", "Swap sides"),
        ("lock", "L", "Lock scrolling"),
        ("flips", "w", "Flips only"),
        ("diff", "d", "Text diff"),
        ("ask", "a", "Ask"),
        ("choose", "c", "Choose evaluations"),
        ("to_debate", "enter", "To the debate"),
        ("item(-1)", "comma", "Previous question"),
        ("item(1)", "full_stop", "Next question"),
        ("side(-1)", "h", "Left side"),
        ("side(1)", "l", "Right side"),
        ("message(1)", "j", "Message down"),
        ("message(-1)", "k", "Message up"),
    ),
    "launch": (
        ("save", "f2", "Save"),
        ("start", "f5", "Start"),
        ("source", "f3", "From"),
        ("reset", "f4", "Reset field"),
        ("add", "f7", "Add a row"),
        ("remove", "f8", "Remove the row"),
    ),
}


def bindings(group: str, rows: Iterable[Row], show: Iterable[str] = ()) -> list[Binding]:
    """Bindings of one group; their ids are ``group.action``, only those of ``show`` in the footer.

    An action with an argument has it in its id: ``app.show.runs``.
    """
    shown = set(show)
    return [
        Binding(
            key,
            action,
            description,
            show=binding_id(group, action) in shown,
            key_display=key.upper() if _FUNCTION_KEY.fullmatch(key) else None,  # as keyboards do
            id=found,
        )
        for action, key, description in rows
        for found in (binding_id(group, action),)
    ]


def binding_id(group: str, action: str) -> str:
    """The id of one action: "app", "show('runs')" → "app.show.runs"."""
    name, _, argument = action.partition("(")
    argument = argument.rstrip(")").strip("'")
    return f"{group}.{name}.{argument}" if argument else f"{group}.{name}"


def known_ids() -> set[str]:
    """Ids of all bindings."""
    groups = {"app": APP, "common": COMMON, **SCREENS}
    return {binding_id(group, row[0]) for group, rows in groups.items() for row in rows}


def problems(keys: Mapping[str, str]) -> list[str]:
    """One line for each key of the settings that stands for nothing."""
    known = known_ids()
    return [
        f"keys: no binding {name!r}; see the help for their names"
        for name in keys
        if name not in known
    ]
