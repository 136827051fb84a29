"""``maporl kinds``: everything that can be chosen, whoever made it.

In: nothing, or the name of a section.  Out: each kind with the distribution it comes from, its one
line and its own keys; broken ones with the line that says why.  Neighbour: ``config.doors``.
"""

from __future__ import annotations

from typing import Any

import typer

from maporl_core.cli.shared import JsonOption, examples
from maporl_core.cli.views.terminal import print_json, say
from maporl_core.config.doors import DOORS
from maporl_core.config.keys import KeyFact, field_fact, key_facts
from maporl_core.errors import ConfigError
from maporl_core.kit.nearest import nearest
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.registry import Kind

KINDS_EXAMPLES = examples(
    ("maporl kinds", "methods, rewards, tasks …: what comes with maporl and what plug-ins add"),
    ("maporl kinds reward", "those of one section, with their keys"),
)


def kinds_command(
    section: str | None = typer.Argument(
        None, help="Only this one: task, topology, verifier, reward, method, engine or bench."
    ),
    json: JsonOption = False,
) -> None:
    """List every kind that a run description can choose, with where it comes from."""
    if section is not None and section not in DOORS:
        near = nearest(section, DOORS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(DOORS)}"
        raise ConfigError(f"no section of kinds is called {one_line(section, 40)!r}; {hint}")
    wanted = DOORS if section is None else {section: DOORS[section]}
    found = {name: registry.everything() for name, registry in wanted.items()}
    if json:
        print_json([_facts(kind) for kinds in found.values() for kind in kinds])
        return
    for name, kinds in found.items():
        say(f"{DOORS[name].key}")
        width = max(len(kind.name) for kind in kinds)
        for kind in kinds:
            words = f"broken: {kind.fault}" if kind.fault else kind.says
            say(f"  {kind.name:<{width}}  {words}  ({kind.distribution} {kind.version})")
            for option in _options(kind):
                default = f" = {option['default']}" if option["default"] else ""
                say(f"  {'':<{width}}    {option['key']}{default}")


def _facts(kind: Kind) -> dict[str, Any]:
    return {
        "section": kind.registry,
        "kind": kind.name,
        "distribution": kind.distribution,
        "version": kind.version,
        "says": kind.says if not kind.fault else "",
        "options": _options(kind),
        "fault": kind.fault or None,
    }


def _options(kind: Kind) -> list[dict[str, str]]:
    """Keys that a kind adds to its section, or that it alone reads."""
    if kind.fault:
        return []
    own = [
        field_fact(f"{kind.registry}.{name}", field)
        for name, field in kind.options.model_fields.items()
    ]
    return [
        {"key": fact.key, "takes": fact.takes, "default": fact.default, "meaning": fact.meaning}
        for fact in [*own, *_read(kind)]
    ]


def _read(kind: Kind) -> list[KeyFact]:
    wanted = [f"{kind.registry}.{name}" for name in getattr(kind.made, "looks_at", ())]
    return [fact for fact in key_facts() if fact.key in wanted]
