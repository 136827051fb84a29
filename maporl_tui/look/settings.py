"""What a user set for good: the theme and the keys, in one small TOML file.

In: ``tui.toml`` in the platform's config folder for maporl (``MAPORL_CONFIG_DIR`` overrides it).
Out: ``Settings`` and one line per thing that is wrong.  Neighbours: ``app`` reads it at the start
and keeps the chosen theme there; ``keymap`` knows which keys there are.

    theme = "dusk"
    [keys]
    "app.detach" = "Q"
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import tomlkit
from platformdirs import user_config_path
from tomlkit.exceptions import TOMLKitError


@dataclass(frozen=True, slots=True)
class Settings:
    """``keys`` maps a binding's id to the key that replaces its own."""

    theme: str | None = None
    keys: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def config_folder() -> Path:
    """Where the user's themes (``themes/*.toml``) and ``tui.toml`` lie."""
    own = os.environ.get("MAPORL_CONFIG_DIR")
    return Path(own) if own else user_config_path("maporl", appauthor=False)


def settings_file() -> Path:
    return config_folder() / "tui.toml"


def read_settings(path: Path | None = None) -> Settings:
    """The user's settings; whatever is wrong in the file is left out and named."""
    path = path or settings_file()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Settings(problems=(f"{path}: {error}",))
    problems = [f"{path}: unknown key {key!r}" for key in data if key not in ("theme", "keys")]
    theme, keys = data.get("theme"), data.get("keys", {})
    if theme is not None and not isinstance(theme, str):
        problems.append(f"{path}: theme must be a name")
        theme = None
    if not isinstance(keys, dict):
        problems.append(f"{path}: [keys] must be a table")
        keys = {}
    for name, key in keys.items():
        if not isinstance(key, str) or not key:
            problems.append(f'{path}: keys.{name} must be a key such as "Q"')
    good = {name: key for name, key in keys.items() if isinstance(key, str) and key}
    return Settings(theme, good, tuple(problems))


def keep_theme(name: str, path: Path | None = None) -> None:
    """Write the chosen theme into the settings, leaving the rest as it is.  Raises OSError."""
    path = path or settings_file()
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = tomlkit.document()
    except (UnicodeDecodeError, TOMLKitError) as error:
        raise OSError(f"{path} is not TOML, so the theme was not kept: {error}") from error
    document["theme"] = name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".toml.new")
    part.write_text(tomlkit.dumps(document), encoding="utf-8")
    part.replace(path)
