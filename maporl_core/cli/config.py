"""``maporl config``: look at presets and files, resolve them, check them, print the schema.

In: a preset or file and overrides.  Out: TOML, JSON or findings.  Neighbours: ``config.load``.
"""

from __future__ import annotations

import typer

from maporl_core.cli.shared import (
    JsonOption,
    SetOption,
    SourceArgument,
    complete_preset,
    examples,
    show_help,
)
from maporl_core.cli.verifier_check import verifier_seat
from maporl_core.cli.views.lines import StageBar
from maporl_core.cli.views.terminal import err_console, print_json, say
from maporl_core.config.keys import key_facts
from maporl_core.config.kinded import json_schema
from maporl_core.config.load import (
    config_warnings,
    dump_toml,
    load_config,
    plain,
    preset_names,
    preset_summary,
    preset_text,
)
from maporl_core.config.schema import RunConfig

app = typer.Typer(
    help="Show, check and explain run descriptions.",
    invoke_without_command=True,
    epilog=examples(
        ("maporl config presets", "what comes built in"),
        ("maporl config show gsm8k --set update.lr=1e-4", "every key of a run, resolved"),
        ("maporl config check my.toml", "find mistakes before a run does"),
    ),
)


@app.callback()
def _root(context: typer.Context) -> None:
    show_help(context)


@app.command(
    "show",
    epilog=examples(
        ("maporl config show", "the default preset, every key written out"),
        ("maporl config show gsm8k > my.toml", "a file to start from"),
        ("maporl config show pocket --set 'train.train_agents=[Ada]'", "with a change"),
    ),
)
def show(
    source: SourceArgument = None, overrides: SetOption = None, json: JsonOption = False
) -> None:
    """Print the resolved config: every key with the value a run would use."""
    config = load_config(source, overrides or ())
    if json:
        print_json(plain(config))
    else:
        say(dump_toml(config).rstrip("\n"))


@app.command(
    "presets",
    epilog=examples(
        ("maporl config presets", "names and what they are for"),
        ("maporl config presets gsm8k", "the text of one, with its comments"),
    ),
)
def presets(
    name: str | None = typer.Argument(
        None, metavar="PRESET", help="Print this one.", autocompletion=complete_preset
    ),
    json: JsonOption = False,
) -> None:
    """List the built-in presets, or print one with its comments."""
    if name is not None:
        text = preset_text(name)
        if json:
            print_json({"name": name, "toml": text})
        else:
            say(text.rstrip("\n"))
        return
    found = {preset: preset_summary(preset) for preset in preset_names()}
    if json:
        print_json([{"name": preset, "summary": summary} for preset, summary in found.items()])
        return
    width = max(map(len, found))
    for preset, summary in found.items():
        say(f"{preset:<{width}}  {summary}")


@app.command(
    "keys",
    epilog=examples(
        ("maporl config keys", "every key, what it takes, its default and meaning"),
        ("maporl config keys kl", "those whose name or meaning has this word"),
    ),
)
def keys(
    word: str | None = typer.Argument(None, help="Only keys with this word."),
    markdown: bool = typer.Option(False, "--markdown", help="As a table for a page."),
    json: JsonOption = False,
) -> None:
    """List the keys of a run description with their defaults."""
    wanted = (word or "").lower()
    found = [fact for fact in key_facts() if wanted in f"{fact.key} {fact.meaning}".lower()]
    if json:
        print_json(found)
        return
    if markdown:
        say("| key | takes | default | meaning |", "|---|---|---|---|")
        for fact in found:
            cells = (fact.takes, f"`{fact.default}`" if fact.default else "none", fact.meaning)
            say(f"| `{fact.key}` | {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        return
    for fact in found:
        default = f" = {fact.default}" if fact.default else ""
        say(f"{fact.key}{default}", f"    {fact.takes}{fact.meaning and '; '}{fact.meaning}")
    if not found:
        say(f"no key has {word!r} in its name or meaning")


@app.command(
    "schema",
    epilog=examples(("maporl config schema > schema.json", "for editors that check TOML files")),
)
def schema() -> None:
    """Print the JSON schema of a run description."""
    print_json(json_schema(RunConfig))


@app.command(
    "check",
    epilog=examples(
        ("maporl config check my.toml", "exit code 0: fine, 2: not"),
        ("maporl config check anli --set task.rounds=[4]", "says what is wrong"),
    ),
)
def check(
    source: SourceArgument = None, overrides: SetOption = None, json: JsonOption = False
) -> None:
    """Check a preset or file; exit code 2 and one line per mistake if it is wrong.

    A learned verifier is looked at as the run would, short of loading its model; 3: its folder is
    damaged, 4: it does not fit its base.
    """
    config = load_config(source, overrides or ())
    seat = None
    warnings = config_warnings(config)
    if config.verifier.on_model:
        with StageBar(err_console()) as bar:
            bar.stage("looking at the verifier")
            seat, found = verifier_seat(config)
        warnings += [finding.text for finding in found]
    if json:
        verifier = seat.words if seat is not None else None
        print_json({"ok": True, "name": config.name, "warnings": warnings, "verifier": verifier})
        return
    for warning in warnings:
        say(f"warning: {warning}")
    agents = ", ".join(agent.name for agent in config.agents)
    say(
        f"ok: {config.name}: {agents} discuss {config.task.name} for {config.discussion.turns} "
        f"turns; {config.train.steps} steps of {config.train.problems_per_step} problems"
    )
    if seat is not None:
        say(f"verifier: {seat.words}")
