"""A discussion on the terminal: message by message, as it is written, or two side by side.

In: Discussions with their rewards, or text as it is generated.  Out: Rich output that reads well in
80 columns.  Neighbours: ``debate`` and ``runs show`` print with it.  What agents wrote is never
read as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from maporl_core.cli.views.terminal import plain
from maporl_core.types import Discussion, Message, Pay

Rewards = Sequence[Sequence[Pay | None]]
"""Per turn, as the discussion's messages stand; None where nothing was paid."""


def verdict(message: Message) -> Text:
    """The answer a message gives, whether it is right, and its score: "15  right  score 0.82"."""
    line = plain("no answer" if message.answer is None else message.answer, "bold")
    if message.correct is not None:
        line.append("  ")
        line.append(*(("right", "green") if message.correct else ("wrong", "red")))
    if message.score is not None:
        line.append(f"  score {message.score:.2f}")
    if message.finish == "length":
        line.append("  cut at the length limit", "yellow")
    if message.dropped_context:
        line.append(f"  {message.dropped_context} prompt tokens did not fit", "yellow")
    return line


def reward_words(parts: Pay) -> str:
    """ "reward 0.62 = own 0.45 + influence 0.17"; parts of 0 are left out."""
    shown = [(name, value) for name, value in parts.parts.items() if value != 0]
    if len(shown) < 2:
        name = f" ({shown[0][0]})" if shown else ""
        return f"reward {parts.total:.2f}{name}"
    first, *rest = shown
    words = f"{first[0]} {first[1]:.2f}"
    for name, value in rest:
        words += f" {'-' if value < 0 else '+'} {name} {abs(value):.2f}"
    return f"reward {parts.total:.2f} = {words}"


def message_block(name: str, message: Message, reward: Pay | None) -> Text:
    """Head line, what was written, and what it was paid, as one text."""
    block = plain(name, "bold cyan").append("  ")
    if marks := _marks(message):
        block.append_text(plain(marks, "magenta")).append("  ")
    block.append_text(verdict(message)).append("\n")
    block.append_text(plain(message.text.strip() or "(nothing)"))
    if reward is not None:
        block.append("\n").append(reward_words(reward), "dim")
    return block


def _marks(message: Message) -> str:
    """What is special about its place: a phase that is not "answer", a candidate not taken."""
    marks = [message.phase] if message.phase != "answer" else []
    if message.branch or not message.chosen:
        taken = "" if message.chosen else ", not taken"
        marks.append(f"candidate {message.branch + 1}{taken}")
    return "  ".join(marks)


def print_question(console: Console, question: str, gold: str | None) -> None:
    console.print(plain(question, "bold"))
    if gold is not None:
        console.print(plain(f"gold answer: {gold}", "dim"))


def print_turn(
    console: Console,
    turn: int,
    agents: Sequence[str],
    row: Sequence[Message],
    rewards: Sequence[Pay | None] | None = None,
) -> None:
    """One turn under a rule; ``turn`` counts from 0."""
    console.rule(plain(f"turn {turn + 1}"), style="dim", align="left")
    for i, message in enumerate(row):
        reward = rewards[i] if rewards else None
        block = message_block(agents[message.agent], message, reward)
        console.print(Padding(block, (0, 0, 1, 0)))


def print_discussion(console: Console, discussion: Discussion, rewards: Rewards | None) -> None:
    """All turns; rewards below each message where there are any."""
    for t, row in enumerate(discussion.messages):
        print_turn(console, t, discussion.agents, row, rewards[t] if rewards else None)
    _print_early_stop(console, discussion)


def print_rewards(console: Console, discussion: Discussion, rewards: Rewards) -> None:
    """What every message was paid and why, one line each."""
    console.rule(plain("rewards"), style="dim", align="left")
    for said, row in zip(discussion.messages, rewards, strict=True):
        for message, parts in zip(said, row, strict=True):
            if parts is not None:
                name = f"turn {message.turn + 1}  {discussion.agents[message.agent]}  "
                console.print(plain(name, "cyan").append(reward_words(parts), "default"))
    _print_early_stop(console, discussion)


def _print_early_stop(console: Console, discussion: Discussion) -> None:
    if discussion.stopped_early:
        console.print(plain("all agents agreed: the discussion stopped here", "dim"))


def print_side_by_side(
    console: Console,
    titles: tuple[str, str],
    discussions: tuple[Discussion, Discussion],
    rewards: tuple[Rewards | None, Rewards | None],
) -> None:
    """Two discussions of one problem, the same turn and agent in one row."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_lines=True, pad_edge=False)
    for title in titles:
        table.add_column(plain(title, "bold"), ratio=1, overflow="fold")
    for t in range(max(discussion.turns for discussion in discussions)):
        table.add_row(plain(f"turn {t + 1}", "bold"), plain(""))
        for a, name in enumerate(discussions[0].agents):
            table.add_row(
                *(_cell(d, r, t, a, name) for d, r in zip(discussions, rewards, strict=True))
            )
    table.add_row(*(plain(right_by_turn(d), "bold") for d in discussions))
    console.print(table)


def right_by_turn(discussion: Discussion) -> str:
    """ "right by turn: 1/3, 2/3, 3/3"; empty where correctness is unknown."""
    counts = []
    for turn in range(discussion.turns):
        row = discussion.said(turn)
        if any(message.correct is None for message in row):
            return ""
        counts.append(f"{sum(bool(message.correct) for message in row)}/{len(row)}")
    return f"right by turn: {', '.join(counts)}"


def _cell(
    discussion: Discussion, rewards: Rewards | None, turn: int, agent: int, name: str
) -> Text:
    if turn >= discussion.turns:
        return plain("(had stopped: all agreed)", "dim")
    message = discussion.at(turn, agent)
    if message is None:
        return plain(f"{name} said nothing", "dim")
    block = message_block(name, message, None)
    parts = rewards[turn][discussion.messages[turn].index(message)] if rewards else None
    return block if parts is None else block.append(f"\nreward {parts.total:.2f}", "dim")


class Writing:
    """Text while it is generated: on a terminal the turn under way is redrawn in place.

    With ``keep`` each finished turn stays on the screen.
    """

    def __init__(self, console: Console, agents: Sequence[str], title: str, keep: bool) -> None:
        self.console = console
        self.agents = agents
        self.title = title
        self.keep = keep
        self._turn = 0
        self._texts: dict[int, str] = {}
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def heard(self, turn: int, agent: int, text: str) -> None:
        """Everything one agent has written in this turn so far."""
        if turn != self._turn:
            self._turn, self._texts = turn, {}
        self._texts[agent] = text

    def spoken(self, row: Sequence[Message]) -> None:
        """A turn is finished and scored."""
        self._texts = {}
        if self.keep:
            print_turn(self.console, row[0].turn, self.agents, row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        rows = max(1, (console.size.height - 3) // max(1, len(self.agents)) - 1)
        yield plain(f"{self.title}, turn {self._turn + 1}", "dim")
        for agent, text in sorted(self._texts.items()):
            yield plain(self.agents[agent], "bold cyan")
            # A long text shows its end, which is where it grows.
            tail = plain(text[-width * (rows + 1) :])
            yield from list(tail.wrap(console, width))[-rows:]


def discussion_json(discussion: Discussion, rewards: Rewards | None) -> list[list[dict[str, Any]]]:
    """Per turn what each message says and was paid."""
    return [
        [
            {
                "agent": discussion.agents[message.agent],
                "branch": message.branch + 1,
                "phase": message.phase,
                "chosen": message.chosen,
                "text": message.text,
                "answer": message.answer,
                "correct": message.correct,
                "score": message.score,
                "finish": message.finish,
                "dropped_context": message.dropped_context,
                "reward": _reward_json(rewards[t][i] if rewards else None),
            }
            for i, message in enumerate(row)
        ]
        for t, row in enumerate(discussion.messages)
    ]


def _reward_json(parts: Pay | None) -> dict[str, float] | None:
    if parts is None:
        return None
    return {**parts.parts, "total": parts.total}
