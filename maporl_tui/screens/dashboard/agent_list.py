"""The agents of a run: policy and base, trained or frozen, accuracies, KL, trend.

In: ``AgentFacts``.  Out: one line per agent where there is room, else three.  Neighbour: the
Dashboard's left side.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from maporl_core.kit.sparkline import sparkline
from maporl_tui.drawing.text import amount, one_line
from maporl_tui.screens.dashboard.facts import AgentFacts, change_text, number

_WIDE = 70
_SPARKS = 10


class AgentList(Static):
    """All agents, drawn again only when something about them has changed."""

    DEFAULT_CSS = "AgentList { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(markup=False, id=id)
        self._agents: tuple[AgentFacts, ...] = ()
        self._shown: tuple[object, ...] = ()

    def show(self, agents: Sequence[AgentFacts]) -> None:
        self._agents = tuple(agents)
        self._write()

    def on_resize(self) -> None:
        self._write()

    def _write(self) -> None:
        width = self.size.width
        shown = (self._agents, width)
        if width and shown != self._shown:
            self._shown = shown
            self.update(agents_content(self._agents, width))


def agents_content(agents: Sequence[AgentFacts], width: int) -> Content:
    """The list at ``width`` cells."""
    if not agents:
        return Content.styled("agents are named once the run has a config", "$text-muted")
    make = _one_line if width >= _WIDE else _three_lines
    longest = max(len(one_line(agent.name, 16)) for agent in agents)
    return Content("\n").join(make(agent, i, longest, width) for i, agent in enumerate(agents))


def _name(agent: AgentFacts, number_: int, longest: int) -> Content:
    name = one_line(agent.name, 16)
    return Content.assemble(("● " + name.ljust(longest), f"$agent-{number_ % 6 + 1} bold"))


def _who(agent: AgentFacts, room: int) -> str:
    """What stands behind an agent, in as many words as have room."""
    shared = "" if agent.policy == agent.name else f" policy {one_line(agent.policy, 20)}"
    start = f" from {one_line(agent.adapter, 30)}" if agent.adapter else ""
    base, _, model = agent.base.partition(" (")
    on = f" on {one_line(base, 30)}" if base else ""
    of = f" ({one_line(model, 40)}" if model else ""
    state = _state(agent)
    words = (
        f"{state}{shared}{on}{of}{start}",
        f"{state}{shared}{on}{start}",
        f"{state}{shared}{on}",
        f"{state}{on}",
    )
    return next((line for line in words if cell_len(line) <= room), state)


def _state(agent: AgentFacts) -> str:
    return {True: "trained", False: "frozen", None: "adapter"}[agent.trained]


def _numbers(agent: AgentFacts) -> str:
    turns = " ".join(number(value) for value in agent.accuracy_T)
    return f"turns {turns or '–'}  KL {amount(agent.kl)}"


def _trend(agent: AgentFacts) -> str:
    return f"{sparkline(agent.trend, _SPARKS)} {change_text(agent.change)}".strip()


def _one_line(agent: AgentFacts, number_: int, longest: int, width: int) -> Content:
    name = _name(agent, number_, longest)
    line = f"  {_numbers(agent)}  {_trend(agent)}  "
    room = width - name.cell_length - cell_len(line)
    return Content.assemble(name, line, (_who(agent, room), "$text-muted"))


def _three_lines(agent: AgentFacts, number_: int, longest: int, width: int) -> Content:
    name = _name(agent, number_, longest)
    return Content.assemble(
        name,
        "  ",
        (_who(agent, width - name.cell_length - 2), "$text-muted"),
        f"\n  {_numbers(agent)}\n  last turn {_trend(agent) or '–'}",
    )
