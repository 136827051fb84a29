"""From a preset name or a TOML file and ``--set a.b=c`` to a RunConfig, and back to TOML.

In: text from people.  Out: a frozen ``RunConfig``, or a ConfigError whose lines each name one key
and say what to do.  Neighbours: ``config`` holds the model, ``complaints`` words its
complaints, ``toml_files`` reads files, ``overrides`` ``--set``, ``renamed`` knows
names of earlier versions; ``cli``, ``store`` and ``train`` call this.

What a source may be: a word without "/" and without ".toml" is a preset, whatever lies in the
current folder; everything else is a file.  A file may start with ``extends = "<preset or file>"``
and give only what differs: tables merge key by key, lists are replaced whole.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError

from maporl_core.config.complaints import explain
from maporl_core.config.doors import REGISTRIES
from maporl_core.config.kinded import forget_other_kinds
from maporl_core.config.overrides import apply_override, know_kinds
from maporl_core.config.provenance import comments, missing
from maporl_core.config.renamed import renamed, say_renamed
from maporl_core.config.schema import RunConfig
from maporl_core.config.toml_files import read_toml_text
from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import is_file, is_folder, user_path

DEFAULT_PRESET = "pocket"

_PRESETS = Path(__file__).parent / "presets"


@cache
def preset_names() -> tuple[str, ...]:
    """Names of the built-in presets, the default first."""
    names = sorted(path.stem for path in _PRESETS.glob("*.toml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PRESET))


def preset_text(name: str) -> str:
    """The TOML of a preset with its comments.  Raises ConfigError, naming the nearest one."""
    if name not in preset_names():
        raise ConfigError(_unknown_preset(name))
    return (_PRESETS / f"{name}.toml").read_text(encoding="utf-8")


def preset_summary(name: str) -> str:
    """The first sentence of a preset's opening comment."""
    words: list[str] = []
    for line in preset_text(name).splitlines():
        text = line.removeprefix("#").strip()
        if not line.startswith("#") or not text:
            break
        words.append(text)
    return re.split(r"(?<=\.)\s", " ".join(words), maxsplit=1)[0].rstrip(".")


def load_config(
    source: str | Path | None = None, overrides: Sequence[str] = (), *, name: str | None = None
) -> RunConfig:
    """The run that ``source`` and ``overrides`` ("a.b=c", in order) describe.

    ``source`` None is the default preset; a Path is always a file.  A preset or file that sets no
    ``name`` is named after itself; ``name`` given here wins over everything.  Raises ConfigError
    with one line per fault (the first few).
    """
    source = DEFAULT_PRESET if source is None else source
    data = _read(source, ())
    data.setdefault("name", _default_name(source))
    if name is not None:
        data["name"] = name
    know_kinds(data, overrides)
    for override in overrides:
        apply_override(data, override)
    return build_config(data)


def load_stored(path: Path) -> RunConfig:
    """The run that a stored run's own ``config.toml`` describes, whatever version wrote it.

    Old names in it are nobody's mistake: nothing is said about them.  Raises ConfigError.
    """
    gone = missing(read_toml_text(path, "the run is damaged"))
    if gone:
        raise ConfigError("\n".join(gone))
    data = _read(path, (), say=lambda _line: None)
    data.setdefault("name", _default_name(path))
    return build_config(data)


def build_config(data: Mapping[str, Any]) -> RunConfig:
    """A RunConfig from plain tables, lists and values as TOML gives them; raises ConfigError."""
    try:
        return RunConfig.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error))) from None
    except (OverflowError, RecursionError):
        raise ConfigError("config: a value is too large or nested too deeply") from None


def override_config(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """``config`` with ``overrides`` ("a.b=c") applied; raises ConfigError as load_config does."""
    data = plain(config)
    know_kinds(data, overrides)
    for override in overrides:
        apply_override(data, override)
    return build_config(data)


def config_warnings(config: RunConfig) -> list[str]:
    """What is allowed but probably not meant, one line each."""
    found: list[str] = []
    spoken = config.resolved_policies()
    for name in config.policies:
        if name not in spoken:
            found.append(
                f"policies.{name}: no agent speaks with it; agents use {', '.join(spoken)}"
            )
    used = {policy.base for policy in spoken.values()}
    if config.verifier.on_model and config.verifier.base is not None:
        used.add(config.verifier.base)
    for name in config.bases:
        if name not in used:
            found.append(f"bases.{name}: no policy stands on it")
    found += [
        f"bases.{name}.trust_remote_code: code that comes with {one_line(base.model, 80)} "
        "will be run"
        for name, base in config.bases.items()
        if base.trust_remote_code and name in used
    ]
    if config.train.train_turns == "discussion" and config.discussion.turns == 1:
        found.append(
            "train.train_turns: 'discussion' trains turns 2 and later, but discussion.turns is 1; "
            "nothing would be learned"
        )
    if config.eval.questions == 0 and config.train.steps > 0:
        found.append("eval.questions: 0 measures nothing before and after training")
    trained = config.train.train_agents
    if trained is not None and not trained:
        found.append("train.train_agents: an empty list trains nobody")
    if len(config.agents) == 1 and config.discussion.consensus_stop:
        found.append(
            "discussion.consensus_stop: one agent always agrees with itself; every discussion ends "
            "after turn 1"
        )
    shared = [
        agent.name
        for agent, policy in zip(config.agents, config.agent_policies(), strict=True)
        if trained and agent.name not in trained and policy in config.trained_policies()
    ]
    if shared:
        found.append(
            f"train.train_agents: {', '.join(shared)} shares a trained policy and changes with it"
        )
    return found


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Tables of a TOML text.  Raises ConfigError with ``origin``, the line number and the line."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(_syntax_error(text, origin, error)) from None


def dump_toml(config: RunConfig) -> str:
    """TOML that loads back to exactly ``config``; every key is written, None is left out.

    Raises ConfigError for a value TOML cannot hold (only ``task.options`` made in code can).
    """
    try:
        return tomlkit.dumps(plain(config)) + comments(config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"task.options: cannot be written as TOML: {one_line(error)}") from None


def plain(config: RunConfig) -> dict[str, Any]:
    """A config as TOML's own types: tuples are lists, None is left out."""
    table: dict[str, Any] = _plain(config.model_dump(mode="python"))
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


# --- sources -----------------------------------------------------------------------------------


def is_preset_word(source: str) -> bool:
    """Whether ``source`` is read as a preset name rather than as a file."""
    return "/" not in source and "\\" not in source and not source.endswith(".toml")


def _default_name(source: str | Path) -> str:
    stem = source if isinstance(source, str) and is_preset_word(source) else Path(source).stem
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", str(stem)).strip("-._")[:64]
    return name or "run"


def _read(
    source: str | Path, seen: tuple[str, ...], say: Callable[[str], None] = say_renamed
) -> dict[str, Any]:
    """Tables of a source with everything it extends merged under it, by today's names."""
    if isinstance(source, str) and is_preset_word(source):
        origin, folder = f"preset {source}", None
        data = parse_toml(preset_text(source), origin)
        identity = origin
    else:
        path = user_path(source)
        origin, folder = one_line(path), path.parent
        data = parse_toml(read_toml_text(path, _otherwise()), origin)
        identity = str(path.resolve())
    data, lines = renamed(data)
    for line in lines:
        say(f"{origin}: {line}")
    parent = data.pop("extends", None)
    if parent is None:
        return data
    if not isinstance(parent, str) or not parent:
        raise ConfigError(f"{origin}: extends must be a preset name or the path of a file")
    if identity in seen:
        raise ConfigError(f"{origin}: extends goes round in a circle; remove one of the lines")
    inherited = parent if folder is None or is_preset_word(parent) else folder / parent
    base = _read(inherited, (*seen, identity), say)
    base.pop("name", None)  # a run is named after what was asked for
    return _merge(base, data)


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
            if key in REGISTRIES and REGISTRIES[key].key.split(".")[1] in value:
                forget_other_kinds(merged[key], key)
        else:
            merged[key] = value
    return merged


def _otherwise() -> str:
    return f"give a TOML file or a preset: {', '.join(preset_names())}"


def _unknown_preset(name: str) -> str:
    if is_folder(Path(name)):
        hint = f"{one_line(name)} is a folder here; give a TOML file, or "
    elif is_file(Path(name)):
        hint = f"to read the file of that name write ./{one_line(name)}; else "
    else:
        near = nearest(name, preset_names())
        hint = f"did you mean {near!r}? " if near else ""
    return f"no preset {one_line(name)!r}; {hint}presets are: {', '.join(preset_names())}"


def _syntax_error(text: str, origin: str, error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return f"{origin}: nested too deeply"
    message = str(error)
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:  # such as an integer of thousands of digits
        return f"{origin}: {one_line(message)}"
    lines = text.splitlines() or [""]
    number = int(place[1]) if place[1] else len(lines)
    # "\n" alone ends a TOML line; splitlines may know more ends.
    line = ((text.split("\n")[number - 1 : number]) or [lines[-1]])[0]
    return f"{origin} line {number}: {message[: place.start()]}: {one_line(line.strip())}"
