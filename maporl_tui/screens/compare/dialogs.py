"""The dialogs of the Compare screen: which two evaluations, and a question of one's own.

In: the evaluations of one run or two; who will answer.  Out: two sides, an ``OwnQuestion``; None
when left with escape.  Neighbours: ``screens.compare`` asks them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from maporl_tui.drawing.text import one_line
from maporl_tui.reading.compare_items import Side, Stored, evaluation_name
from maporl_tui.reading.compare_talk import OwnQuestion
from maporl_tui.widgets.line_input import LineInput
from maporl_tui.widgets.option_pages import PagedOptions

_LEAVE = Binding("escape", "leave", "Back", id="dialog.leave")


class ChoosePair(ModalScreen[tuple[Side, Side] | None]):
    """The left evaluation, then the right one."""

    BINDINGS = [_LEAVE]
    CSS_PATH = "../dialogs.tcss"
    DEFAULT_CSS = """
    ChoosePair { align: center middle; background: $background 60%; }
    ChoosePair OptionList { height: auto; max-height: 16; border: none; }
    """

    def __init__(self, runs: Sequence[Stored]) -> None:
        super().__init__()
        self._sides = [stored.side(e) for stored in runs for e in reversed(stored.evaluations)]
        self._several = len(runs) > 1
        self._left: Side | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Static("", markup=False, id="which")
            yield PagedOptions(
                *(
                    Option(describe(side, self._several), id=str(number))
                    for number, side in enumerate(self._sides)
                )
            )
            yield Label("enter chooses, escape leaves", classes="dialog-hint")

    def on_mount(self) -> None:
        self._ask("Left side: which evaluation?")
        self.query_one(OptionList).focus()

    def _ask(self, question: str) -> None:
        self.query_one("#which", Static).update(Content(question))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = self._sides[event.option_index]
        if self._left is None:
            self._left = chosen
            self._ask(f"Right side: what is held against {one_line(chosen.name, 60)}?")
        elif chosen.key == self._left.key:
            self._ask("That is the left side already: choose another one for the right side")
        else:
            self.dismiss((self._left, chosen))

    def action_leave(self) -> None:
        """Back to the left side, then out."""
        if self._left is not None:
            self._left = None
            self._ask("Left side: which evaluation?")
        else:
            self.dismiss(None)


def describe(side: Side, with_run: bool) -> Content:
    """One line: name, step, and under which conditions."""
    summary = side.evaluation.summary
    name = side.name if with_run else evaluation_name(side.evaluation)
    return Content.assemble(
        (one_line(name, 60), "bold"),
        f"  {one_line(summary.task, 20)}/{one_line(summary.split, 12)} "
        f"{summary.questions} questions, seed {summary.seed}, "
        f"temperature {summary.temperature:g}",
    )


class AskOwn(ModalScreen[OwnQuestion | None]):
    """A question, its answer, and how it is asked; enter asks."""

    BINDINGS = [_LEAVE]
    CSS_PATH = "../dialogs.tcss"
    DEFAULT_CSS = """
    AskOwn { align: center middle; background: $background 60%; }
    AskOwn VerticalScroll { height: auto; max-height: 14; }
    AskOwn .field { height: 1; margin-top: 1; }
    AskOwn .field Label { width: 20; }
    AskOwn .field Input { width: 1fr; }
    AskOwn #wrong { color: $wrong; height: auto; max-height: 2; }
    """
    FIELDS = (
        ("question", "question", "empty: a held-out one, by its number"),
        ("gold", "gold answer", "without it only a learned verifier scores"),
        ("number", "held-out number", "1"),
        ("temperature", "temperature", "as the run's evaluations; 0 is greedy"),
        ("seed", "seed", "the run's"),
    )

    def __init__(self, sides: tuple[str, str], last: OwnQuestion | None, loads: bool) -> None:
        super().__init__()
        self._sides, self._loads = sides, loads
        self._values = _typed(last or OwnQuestion())

    def compose(self) -> ComposeResult:
        left, right = (one_line(side, 36) for side in self._sides)
        with Vertical(classes="dialog -wide"):
            yield Static(Content(f"Ask {left} and {right}"), markup=False)
            with VerticalScroll(can_focus=False):
                for name, label, hint in self.FIELDS:
                    with Horizontal(classes="field"):
                        yield Label(label)
                        yield LineInput(self._values[name], hint, compact=True, id=name)
            yield Static("", markup=False, id="wrong")
            loads = "; the models are loaded first" if self._loads else ""
            yield Label(f"enter asks, escape leaves{loads}", classes="dialog-hint")

    def on_mount(self) -> None:
        self.query_one("#question", Input).focus()

    def on_input_submitted(self) -> None:
        values = {name: self.query_one(f"#{name}", Input).value for name, _, _ in self.FIELDS}
        try:
            self.dismiss(own_question(values))
        except ValueError as error:
            self.query_one("#wrong", Static).update(Content(one_line(str(error), 160)))

    def action_leave(self) -> None:
        self.dismiss(None)


def own_question(values: dict[str, str]) -> OwnQuestion:
    """What was typed as a question.  Raises ValueError with what to do."""
    typed = {name: value.strip() for name, value in values.items()}
    if typed["gold"] and not typed["question"]:
        raise ValueError("a gold answer belongs to a question: type the question too")
    number = _whole(typed["number"], "held-out number", 1)
    return OwnQuestion(
        question=typed["question"] or None,
        gold=typed["gold"] or None,
        number=1 if number is None else number,
        temperature=_temperature(typed["temperature"]),
        seed=_whole(typed["seed"], "seed", 0),
    )


def _whole(text: str, name: str, least: int) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) < least:
        raise ValueError(f"{name} {text!r}: a whole number from {least} on, or nothing")
    return int(text)


def _temperature(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise ValueError(f"temperature {text!r}: a number from 0 to 100, or nothing")
    return value


def _typed(asked: OwnQuestion) -> dict[str, str]:
    return {
        "question": asked.question or "",
        "gold": asked.gold or "",
        "number": str(asked.number) if asked.number != 1 else "",
        "temperature": "" if asked.temperature is None else f"{asked.temperature:g}",
        "seed": "" if asked.seed is None else str(asked.seed),
    }
