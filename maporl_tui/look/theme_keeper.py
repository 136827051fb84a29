"""Keeps the app in the theme its user wants: finds it, remembers a choice, follows an edited file.

In: the app, its settings and the name from the command line.  Out: registered themes and the one in
use.  Neighbours: ``themes`` reads the files, ``settings`` holds the choice, ``app`` owns this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.app import App

from maporl_tui.look.settings import Settings, config_folder, keep_theme
from maporl_tui.look.themes import (
    DEFAULT_THEME,
    ThemeError,
    load_themes,
    read_theme,
    shipped_folder,
)


class ThemeKeeper:
    """One app's themes; ``given`` is a name that holds for this time only."""

    def __init__(self, app: App[Any], settings: Settings, given: str | None) -> None:
        self._app, self._settings, self._given = app, settings, given
        self._themes = load_themes(shipped_folder(), config_folder() / "themes")
        self._times: dict[Path, int] = {}

    def start(self) -> list[str]:
        """Register all themes and put on the wanted one; one line per thing that is wrong."""
        problems = list(self._themes.problems)
        for theme in self._themes.by_name.values():
            self._app.register_theme(theme)
        wanted = self._given or self._settings.theme or DEFAULT_THEME
        if wanted not in self._app.available_themes:
            names = ", ".join(sorted(self._themes.by_name))
            problems.append(f"no theme {wanted!r}; there are {names} and Textual's own")
            wanted = DEFAULT_THEME
        self._app.theme = wanted
        return problems

    def chosen(self) -> str | None:
        """Remember the theme that the user has put on; a problem with that, as one line."""
        name = self._app.theme
        if name in (self._given, self._settings.theme):
            return None
        if self._settings.theme is None and name == DEFAULT_THEME:
            return None
        try:
            keep_theme(name)
        except OSError as error:
            return f"the theme was not kept: {error}"
        return None

    def follow_file(self) -> str | None:
        """Take over the file of the present theme if it was edited; what is wrong with it."""
        path = self._themes.files.get(self._app.theme)
        try:
            changed = path.stat().st_mtime_ns if path is not None else None
        except OSError:
            return None
        if path is None or changed is None or self._times.setdefault(path, changed) == changed:
            return None
        self._times[path] = changed
        try:
            theme = read_theme(path)
        except ThemeError as error:
            return str(error)
        if theme.name == self._app.theme:
            self._app.register_theme(theme)
            self._app.refresh_css(animate=False)
        return None
