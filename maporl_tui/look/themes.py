"""Themes from TOML files: those shipped with the package and the user's own.

In: folders of ``*.toml``.  Out: Textual themes, and one line per file that is not one.  Neighbours:
``app`` registers them and watches the file of the one in use.

    name = "dusk"          # default: the file's name
    dark = true
    primary = "#7aa2f7"    # needed; also: secondary, accent, foreground, background, surface,
                           # panel, boost, warning, error, success
    [variables]            # any Textual or maporl variable, such as footer-key-foreground

Colours of what is peculiar to this app are variables too (``APP_VARIABLES``): a theme that leaves
them out gets them from its main colours.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

DEFAULT_THEME = "dusk"
COLOURS = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "boost",
    "warning",
    "error",
    "success",
)
APP_VARIABLES = {
    "right": "success",
    "wrong": "error",
    "unknown": "warning",
    "agent-1": "primary",
    "agent-2": "accent",
    "agent-3": "secondary",
    "agent-4": "success",
    "agent-5": "warning",
    "agent-6": "error",
    "before": "warning",
    "after": "primary",
    "on-color": "background",
}
"""Variables of this app, and the main colour each is taken from where a theme has no own."""


_MUTED = 0.7
"""Share of the foreground in muted text."""


def app_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """A theme's variables with those of this app, where the theme leaves them out.

    Muted text too is a colour of its own here: Textual's "auto" (as much contrast as the background
    allows, faded) is drawn as full contrast within a text of several styles.
    """
    whole = dict(variables)
    for name, source in APP_VARIABLES.items():
        whole.setdefault(name, whole[source])
    if whole["text-muted"].startswith("auto"):
        background, foreground = (Color.parse(whole[key]) for key in ("background", "foreground"))
        whole["text-muted"] = background.blend(foreground, _MUTED, alpha=1.0).hex
    return whole


class ThemeError(ValueError):
    """A file that is no theme; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Themes:
    """What was found: themes by name, the file of each, and what was wrong with the others."""

    by_name: dict[str, Theme] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def shipped_folder() -> Path:
    """The themes of the package: inside it when installed, beside it in a checkout."""
    here = Path(__file__).parents[1]
    inside = here / "themes"
    return inside if inside.is_dir() else here.parent / "themes"


def load_themes(*folders: Path) -> Themes:
    """All themes of the folders; a later folder's theme replaces an earlier one of its name."""
    found = Themes()
    problems: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            try:
                theme = read_theme(path)
            except ThemeError as error:
                problems.append(str(error))
                continue
            found.by_name[theme.name] = theme
            found.files[theme.name] = path
    return Themes(found.by_name, found.files, tuple(problems))


def read_theme(path: Path) -> Theme:
    """The theme in one file.  Raises ThemeError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"theme {path.name}: {error}") from error
    try:
        return _theme(data, path.stem)
    except (ThemeError, ColorParseError) as error:
        raise ThemeError(f"theme {path.name}: {error}") from error


def _theme(data: dict[str, Any], default_name: str) -> Theme:
    known = {"name", "dark", "ansi", "variables", *COLOURS}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ThemeError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    if "primary" not in data:
        raise ThemeError('no primary colour: add primary = "#rrggbb"')
    name = _typed(data, "name", str, default_name)
    ansi = _typed(data, "ansi", bool, False)
    colours: dict[str, Any] = {key: _colour(key, data[key]) for key in COLOURS if key in data}
    variables = _typed(data, "variables", dict, {})
    for key, value in variables.items():
        if not isinstance(value, str):
            raise ThemeError(f"variables.{key} must be a string")
    for variable in APP_VARIABLES:
        if variable in variables:
            _colour(f"variables.{variable}", variables[variable])
    return Theme(
        name=name,
        dark=_typed(data, "dark", bool, True),
        ansi=ansi,
        variables=variables,
        **colours,
    )


def _typed(data: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    value = data.get(key, default)
    if not isinstance(value, kind):
        raise ThemeError(f"{key} must be a {kind.__name__}, not {value!r}")
    return value


def _colour(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ThemeError(f'{key} must be a colour such as "#7aa2f7", not {value!r}')
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise ThemeError(f'{key}: {value!r} is not a colour; write "#rrggbb"') from error
    return value
