"""What the Dashboard says in words and tables: agents, before and after, what to do next.

In: a ``RunView`` and series of the agents.  Out: records and lines.  Pure: no screen, no file.
Neighbours: ``dashboard`` shows them, ``widgets.agent_list`` draws the agents.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maporl_core.store.reader import Evaluation, Series
from maporl_tui.drawing.text import amount, one_line, signed
from maporl_tui.reading.view import RunView, Stage

TREND_POINTS = 24
_BAR = 20
"""Cells of a stage's bar."""
_LOADING = 60.0
"""Seconds in which a trainer that was just started may hold no lock yet."""
_LEAST_TREND = 0.005
"""Smaller changes count as none."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """One agent.  ``trained`` None: not known.  ``trend``: its last turn's accuracy over steps.

    ``change``: mean of the last third of the trend minus that of the first third.
    """

    name: str
    policy: str
    base: str
    adapter: str | None
    trained: bool | None
    accuracy_T: tuple[float | None, ...]
    kl: float | None
    trend: tuple[float, ...] = ()
    change: float | None = None


def trend_metric(agent: str, turns: int) -> str:
    """The metric an agent's trend is taken from: its accuracy in the last turn."""
    return f"accuracy/{agent}/turn_{turns}"


def turns_of(names: Sequence[str]) -> int:
    """How many turns the metrics know of."""
    found = [n.removeprefix("accuracy/turn_") for n in names if n.startswith("accuracy/turn_")]
    return max((int(turn) for turn in found if turn.isdecimal()), default=0)


def agents_of(view: RunView, trends: Mapping[str, Series]) -> tuple[AgentFacts, ...]:
    """All agents in their order; without a readable config, those that metrics tell of."""
    turns = turns_of(view.metric_names)
    config = view.config
    found = []
    rows: list[tuple[str, str, str, str | None, bool | None]]
    if config is None:
        rows = [(name, name, "", None, None) for name in agent_names(view)]
    else:
        policies, trained = config.resolved_policies(), config.trained_policies()
        rows = [
            (
                agent.name,
                policy,
                f"{policies[policy].base} ({config.bases[policies[policy].base].model})",
                policies[policy].adapter,
                policy in trained,
            )
            for agent, policy in zip(config.agents, config.agent_policies(), strict=True)
        ]
    for name, policy, base, adapter, learns in rows:
        series = trends.get(trend_metric(name, turns), Series())
        found.append(
            AgentFacts(
                name=name,
                policy=policy,
                base=base,
                adapter=adapter,
                trained=learns,
                accuracy_T=tuple(
                    view.metrics.get(trend_metric(name, turn + 1)) for turn in range(turns)
                ),
                kl=view.metrics.get(f"policy/{policy}/kl"),
                trend=series.means,
                change=change(series.means),
            )
        )
    return tuple(found)


def agent_names(view: RunView) -> list[str]:
    """The agents in their order; without a readable config, those that metrics tell of."""
    if view.config is not None:
        return [agent.name for agent in view.config.agents]
    begin, end = "accuracy/", "/turn_1"
    return [
        name.removeprefix(begin).removesuffix(end)
        for name in view.metric_names
        if name.startswith(begin) and name.endswith(end) and name.count("/") == 2
    ]


def change(values: Sequence[float]) -> float | None:
    """Mean of the last third minus mean of the first third; None below three values."""
    if len(values) < 3:
        return None
    third = len(values) // 3
    return sum(values[-third:]) / third - sum(values[:third]) / third


def change_text(found: float | None) -> str:
    """▲ +0.12, ▼ -0.03 or ≈ 0; nothing where there is no trend yet."""
    if found is None:
        return ""
    if abs(found) < _LEAST_TREND:
        return "≈ 0"
    return f"{'▲' if found > 0 else '▼'} {signed(found, 2)}"


# Before and after ----------------------------------------------------------------------------


def before_after(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, Evaluation | None] | None:
    """The trainer's first evaluation and its last one of the same questions."""
    own = [one for one in evaluations if one.origin == "run"]
    if not own:
        return None
    first, last = own[0], own[-1]
    same = _asked(first) == _asked(last)
    return first, last if last is not first and same else None


def _asked(one: Evaluation) -> tuple[object, ...]:
    s = one.summary
    return s.task, s.split, s.questions, s.seed, s.temperature


def before_after_rows(evaluations: Sequence[Evaluation]) -> list[tuple[str, str, str, str]]:
    """Rows (turn, before, after, gain) with 95 % intervals, a header first; none without any."""
    pair = before_after(evaluations)
    if pair is None:
        return []
    first, last = pair
    rows = [("t", "before", "after", "gain")]
    later = last.summary.accuracy_T if last is not None else ()
    for turn, was in enumerate(first.summary.accuracy_T):
        now = later[turn] if turn < len(later) else None
        rows.append(
            (
                str(turn + 1),
                _interval(was.mean, was.low, was.high),
                _interval(now.mean, now.low, now.high) if now else "–",
                _share(now.mean - was.mean, 3, "+") if now else "",
            )
        )
    return rows


def before_after_note(evaluations: Sequence[Evaluation]) -> str:
    """What the table is of, or when there will be one."""
    pair = before_after(evaluations)
    if pair is None:
        return "held-out questions: no evaluation yet (maporl eval RUN)"
    first, last = pair
    count = first.summary.questions
    asked = f"{count} held-out question{'s' * (count != 1)}"
    if last is None:
        return f"{asked}, step {first.step}; the next one fills 'after'"
    return f"{asked}, steps {first.step} and {last.step}"


def _interval(mean: float, low: float, high: float) -> str:
    return f"{_share(mean)} [{_share(low, 2)} {_share(high, 2)}]"


def _share(value: float, digits: int = 3, sign: str = "") -> str:
    """A number in [−1, 1] without the leading zero, as reports print them: .478, +.12, 1.0."""
    text = f"{value:{sign}.{digits}f}"
    return text[:-1] if abs(value) >= 1 else text.replace("0.", ".", 1)


# What to do next -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notice:
    """Lines above everything else.  ``kind``: "trouble" or "hint"."""

    kind: str
    lines: tuple[str, ...]


def resume_command(view: RunView) -> str:
    """The command line that goes on with the run."""
    path = Path(view.path)
    name = view.name if path.parent == Path("runs") else str(path)
    return f"maporl resume {shlex.quote(name)}"


def notice(view: RunView | None) -> Notice | None:
    """What stands above the charts; None where nothing needs to be said."""
    if view is None:
        return Notice("hint", ("no run is chosen: 1 lists the runs, 6 starts one",))
    if view.generation < 0:
        if view.problem is not None:
            return Notice("trouble", (one_line(view.problem),))
        return Notice("hint", ("reading the run …",))
    lines = _of_state(view)
    kind = "trouble" if view.status.state in ("failed", "died") else "hint"
    if view.config_problem is not None:
        lines.append(f"config.toml cannot be read: {one_line(view.config_problem)}")
        kind = "trouble"
    stage = view.stage
    if stage is not None and not stage.name.startswith("step "):  # steps have the status line
        lines.append(f"{stage.name}{_so_far(stage)}")
    if not view.metric_names and view.is_live:
        talking = "" if view.live is None else "; 3 shows the agents talking now"
        lines.append(f"charts come with the first step{talking}")
    elif not view.metric_names:
        lines.append("no step was finished, so there are no charts")
    return Notice(kind, tuple(lines)) if lines else None


def _so_far(stage: Stage) -> str:
    """How far a stage is, as a bar and in numbers; nothing where that is not known."""
    if not stage.total:
        return " …"
    done = min(stage.done, stage.total)
    filled = round(_BAR * done / stage.total)
    return f"  {'█' * filled}{'░' * (_BAR - filled)}  {done:,} of {stage.total:,} messages"


def _of_state(view: RunView) -> list[str]:
    status = view.status
    done = f"step {status.step}" + (f" of {status.steps}" if status.steps is not None else "")
    reason = f": {one_line(status.reason)}" if status.reason else ""
    go_on = f"go on with: {resume_command(view)}"
    if view.is_held and status.state not in ("running", "paused"):
        goes_on = "the run is starting" if status.state == "new" else f"going on after {done}"
        return [f"{goes_on}: its trainer, process {status.pid}, is loading"]
    if status.state == "died":
        return [
            f"✗ died after {done}: the trainer is gone and left no word",
            go_on,
            *_log(view),
        ]
    if status.state == "failed":
        return [f"✗ failed after {done}{reason}", f"when that is mended, {go_on}", *_log(view)]
    if status.state == "interrupted":
        return [f"interrupted after {done}{reason}; {go_on}"]
    if status.state == "new":
        # Until it has loaded its libraries, a trainer leaves no sign of itself.
        if time.time() - view.created < _LOADING:
            return ["its trainer is still loading"]
        return [f"not begun, and no trainer is seen; if there is none, {go_on}"]
    if status.state == "paused":
        return [f"paused after {done}; P lets it go on"]
    return []


def _log(view: RunView) -> list[str]:
    if not view.log_tail:
        return []
    return ["last lines of log.txt:", *(f"  {one_line(line)}" for line in view.log_tail)]


def number(value: float | None) -> str:
    """A share for a table: .531; an en dash where there is none."""
    return amount(value) if value is None or value != value else _share(value)
