"""``maporl run`` and ``maporl resume``: co-train, and say how far it is.

In: a preset or file, or the name of a run.  Out: a trained run and its before/after table.
Neighbours: ``train`` does the work; ``live`` and ``lines`` are the three ways to show it, and
``lasting`` lets the run outlive whoever looks; ``signals`` hears signals from the first moment on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from maporl_core.cli.shared import (
    DEFAULT_ROOT,
    JsonOption,
    RootOption,
    RunArgument,
    SetOption,
    SourceArgument,
    examples,
    stored_config,
)
from maporl_core.cli.tui import TuiOption, need_terminal, open_app, start_words
from maporl_core.cli.views.lasting import LastingView, View
from maporl_core.cli.views.lines import JsonLines, PlainLines
from maporl_core.cli.views.live import MEASURES, LiveView
from maporl_core.cli.views.state import HISTORY, RunState
from maporl_core.cli.views.terminal import out_console, say
from maporl_core.config.load import config_warnings, dump_toml, load_config, override_config
from maporl_core.config.resumable import check_resumable
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, Interrupted, MaporlError, StoreError
from maporl_core.kit.signals import StopFlag, stop_signals
from maporl_core.kit.user_paths import free_name
from maporl_core.runs.same_data import check_moved
from maporl_core.store.checkpoint import list_checkpoints
from maporl_core.store.failures import store_errors
from maporl_core.store.paths import RunDir, remove_run
from maporl_core.store.reader import StoreReader

STDERR = 2
RUN_EXAMPLES = examples(
    ("maporl run", "the built-in agents, in minutes on a CPU"),
    ("maporl run pocket --steps 20 --name quick", "shorter, under a name of its own"),
    (
        "maporl run gsm8k --set update.lr=1e-4 --set task.path=data/gsm8k",
        "changed keys, own data",
    ),
    ("maporl run my.toml --json > log.jsonl", "one JSON object per line"),
    ("maporl run my.toml --tui", "as a process of its own, watched in the terminal app"),
)
RESUME_EXAMPLES = examples(
    ("maporl resume pocket", "go on from the newest whole checkpoint"),
    ("maporl resume pocket --set train.steps=200", "train a finished run further"),
)


def run_command(
    source: SourceArgument = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the run; default: after the preset or file."),
    ] = None,
    overrides: SetOption = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=0, help="The same as --set train.steps=N.")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run of that name if there is one already."),
    ] = False,
    json: JsonOption = False,
    tui: TuiOption = False,
) -> None:
    """Co-train agents: discuss, score, pay, update; then compare with before training.

    Everything is kept in a folder under --root. Ctrl-C saves a checkpoint first.
    """
    changes = list(overrides or ())
    if steps is not None:
        changes.append(f"train.steps={steps}")
    config = load_config(source, changes, name=name)
    own_name = name is not None or any(change.split("=")[0].strip() == "name" for change in changes)
    existing = RunDir(root / config.name)
    if tui:
        need_terminal(json)
        if resume and existing.database.is_file():
            open_app(start_words("--resume", str(existing.path), changes, root))
        open_app(start_words("--start", source, changes, root, name))
    with stop_signals() as stop:
        if resume and existing.database.is_file():
            _resume(existing, config, json, stop)
        else:
            _train(*_create(root, config, own_name), json, stop, fresh=True)


def resume_command(
    run: RunArgument,
    overrides: SetOption = None,
    root: RootOption = DEFAULT_ROOT,
    json: JsonOption = False,
    tui: TuiOption = False,
) -> None:
    """Go on with a run from its newest whole checkpoint, exactly where it was.

    --set may change when it stops, evaluates and saves (train.steps, eval.every, …), not what it
    learns.
    """
    found = RunDir.find(root, run)
    if tui:
        need_terminal(json)
        open_app(start_words("--resume", str(found.path), overrides or (), found.path.parent))
    with stop_signals() as stop:
        _resume(found, override_config(stored_config(found), overrides or ()), json, stop)


def _create(root: Path, config: RunConfig, own_name: bool) -> tuple[RunDir, RunConfig]:
    """The new run's folder, under a free name unless the user chose one."""
    while True:
        chosen = config
        if not own_name:
            chosen = config.model_copy(update={"name": free_name(root, config.name)})
        try:
            return RunDir.create(root, chosen.name, dump_toml(chosen)), chosen
        except ConfigError:
            # Another run may have taken the free name in this very moment.
            if own_name or not (root / chosen.name).exists():
                raise


def _resume(run: RunDir, config: RunConfig, json: bool, stop: StopFlag) -> None:
    stored = stored_config(run)
    check_resumable(stored, config)
    check_moved(run, stored, config)
    done = max((entry.step for entry in list_checkpoints(run)), default=0)
    if config.train.steps < done:
        raise ConfigError(
            f"train.steps: {config.train.steps} is fewer than the {done} steps that run "
            f"{run.name!r} has done"
        )
    with StoreReader(run) as reader:
        status = reader.status()
    if status.state == "finished" and config.train.steps == done:
        longer = f"maporl resume {shlex.quote(run.name)} --set train.steps={2 * max(done, 1)}"
        if json:
            JsonLines(RunState(done, config.discussion.turns)).emit(
                "done", run=run.name, state="finished", steps=done
            )
        else:
            say(f"run {run.name} is finished: {done} of {done} steps; to train on: {longer}")
        return
    if config != stored:
        with run.lock(), store_errors("write", run.config):
            part = run.config.with_suffix(".toml.new")
            part.write_text(dump_toml(config), encoding="utf-8")
            part.replace(run.config)
    _train(run, config, json, stop, fresh=False)


def _train(run: RunDir, config: RunConfig, json: bool, stop: StopFlag, fresh: bool) -> None:
    shown = _view(config, run, json, stop)
    if not fresh:
        _recall(shown.state, run)
    view = LastingView(shown)
    with view, _told(view, run), _left_in_words(run), _removed_if_it_never_began(run, fresh):
        stop.begin_loading()
        view.emit("run", name=run.name, path=str(run.path), steps=config.train.steps)
        for warning in config_warnings(config):
            view.log("warning", warning)
        view.stage("loading libraries")
        from maporl_core.train import train

        result = train(config, run, view, resume=not fresh, stop=stop)
    view.emit("done", run=run.name, state="finished", steps=result.steps, gain=result.gain)
    if not json:
        view.show(say, "", *_what_next(run))


def _view(config: RunConfig, run: RunDir, json: bool, stop: StopFlag) -> View:
    state = RunState(config.train.steps, config.discussion.turns)
    console = out_console()
    if json or not console.is_terminal or console.is_dumb_terminal:
        stop.descriptor = STDERR
        return JsonLines(state) if json else PlainLines(state, console)
    agents = len(config.agents)
    return LiveView(
        state,
        console,
        title=f"maporl  {run.name}",
        subtitle=f"{agents} agent{'s' * (agents != 1)} x {config.discussion.turns} turns on "
        f"{config.task.name}, kept in {run.path}",
        notice=lambda: stop.answer,
    )


def _recall(state: RunState, run: RunDir) -> None:
    """What the run had shown before it was interrupted, up to where it goes on."""
    step = max((entry.step for entry in list_checkpoints(run)), default=0)
    names = [f"accuracy/turn_{turn + 1}" for turn in range(state.turns)]
    names += [metric for _, metric in MEASURES]
    with StoreReader(run) as reader:
        own = [e.summary for e in reader.evaluations() if e.origin == "run"]
        before = next((summary for summary in own if summary.policy_state == "base"), None)
        history = {name: reader.series(name, HISTORY, last=step).means for name in names}
    state.recall(step, before, history)


@contextmanager
def _told(view: LastingView, run: RunDir) -> Iterator[None]:
    """For machines, the end of a run that did not finish is an event too."""
    try:
        yield
    except MaporlError as error:
        state = "interrupted" if isinstance(error, Interrupted) else "failed"
        view.emit("done", run=run.name, state=state, error=str(error), exit_code=error.exit_code)
        raise


@contextmanager
def _left_in_words(run: RunDir) -> Iterator[None]:
    """Whoever breaks a run off at once reads what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        left = "nothing was done yet"
        if run.database.is_file():
            left = f"go on with: maporl resume {shlex.quote(run.name)}"
        raise Interrupted(f"stopped at once, unsaved; {left}") from None


@contextmanager
def _removed_if_it_never_began(run: RunDir, fresh: bool) -> Iterator[None]:
    """A new run that was stopped, or could not load its data or models, leaves no folder behind."""
    try:
        yield
    except StoreError:
        raise
    except (MaporlError, KeyboardInterrupt):
        with suppress(StoreError):  # what went wrong first is what the user needs to read
            if fresh and _is_empty(run):
                remove_run(run)
        raise


def _is_empty(run: RunDir) -> bool:
    with StoreReader(run) as reader:
        return not (reader.status().step or reader.evaluations() or list_checkpoints(run))


def _what_next(run: RunDir) -> list[str]:
    """Commands that look at the finished run."""
    name = shlex.quote(run.name)
    where = (
        "" if run.path.parent == DEFAULT_ROOT else f" --root {shlex.quote(str(run.path.parent))}"
    )
    return [
        f"Kept in {run.path}. What next:",
        f"  maporl debate --both --run {name}{where}",
        "      the same question before and after training, side by side",
        f"  maporl eval {name}{where} --questions 2000",
        "      more questions, narrower intervals",
        f"  maporl resume {name}{where} --set train.steps=N",
        "      train on",
    ]
