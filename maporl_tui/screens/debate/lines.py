"""Lines and marks around a debate, made from what is known; no widget is touched here.

In: a ``Debate``, the filter, the view.  Out: styled lines, hits, marks, words for empty panes.
Neighbours: ``view`` and the Debate screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from maporl_tui.drawing.text import one_line, safe
from maporl_tui.reading.debate_follow import being_written
from maporl_tui.reading.debate_query import find_hits
from maporl_tui.reading.debate_records import Cell, Debate
from maporl_tui.reading.view import RunView
from maporl_tui.widgets.text_view import Mark

NO_RUN = "No run: choose one on 1 Runs, or start one on 6 Launch."
_ANSWER_SOUGHT = 20_000  # characters of a text in which its answer is underlined


@dataclass(frozen=True, slots=True)
class Hit:
    """Where the filter's words stand; ``place`` None: in the question."""

    place: Cell | None
    start: int
    end: int


def hits_in(debate: Debate, words: str) -> tuple[Hit, ...]:
    """All hits of a debate in reading order; none without words."""
    if not words:
        return ()
    hits = [Hit(None, *span) for span in find_hits(safe(debate.question), words)]
    for said in debate.everything():
        place = debate.cell_of(said)
        hits += [Hit(place, *span) for span in find_hits(safe(said.text), words)]
    return tuple(hits)


def marks_in(
    debate: Debate, hits: Sequence[Hit], now: int | None
) -> tuple[tuple[Mark, ...], dict[Cell, tuple[Mark, ...]]]:
    """Marks of the question, and of each message: its hits (the present one apart), its answer."""
    question: list[Mark] = []
    messages: dict[Cell, list[Mark]] = {}
    for number, hit in enumerate(hits):
        mark = Mark(hit.start, hit.end, "now" if number == now else "hit")
        if hit.place is None:
            question.append(mark)
        else:
            messages.setdefault(hit.place, []).append(mark)
    for said in debate.everything():
        answer = answer_mark(said.text, said.answer) if said.is_over else None
        if answer is not None:
            messages.setdefault(debate.cell_of(said), []).append(answer)
    return tuple(question), {place: tuple(marks) for place, marks in messages.items()}


def answer_mark(text: str, answer: str | None) -> Mark | None:
    """Where a message last writes its answer as it was read; None where it does not."""
    if not answer or len(text) > _ANSWER_SOUGHT:
        return None
    text = safe(text)
    end = len(text)
    while (start := text.rfind(answer, 0, end)) >= 0:
        before, after = text[start - 1 : start], text[start + len(answer) :][:1]
        if not before.isalnum() and not after.isalnum():
            return Mark(start, start + len(answer), "answer")
        end = start + len(answer) - 1
    return None


def head_line(debate: Debate) -> Content:
    """Gold answer, which debate this is, and where it comes from."""
    gold = "no gold answer" if debate.gold is None else f"gold {one_line(debate.gold, 40)}"
    number = "being written" if debate.key is None else f"debate {debate.key}"
    split = debate.split if debate.label is None else f"eval {one_line(debate.label, 40)}"
    parts = [number, f"step {debate.step}", split, f"problem {one_line(debate.problem_id, 30)}"]
    if debate.sample is not None:
        parts.append(f"sample {debate.sample}")
    if debate.stopped_early:
        parts.append("stopped early: all agreed")
    return Content.assemble((gold, "bold"), (" · " + " · ".join(parts), "$text-muted"))


def state_line(
    view: RunView,
    *,
    follow: bool,
    filter_words: str,
    passing: int | None,
    hits: int,
    hit: int | None,
    has_text: bool,
) -> Content:
    """The filter and how many pass it; whether the screen follows, or what f returns to."""
    parts: list[tuple[str, str]] = []
    if filter_words:
        count = "counting" if passing is None else f"{passing} pass"
        if passing == 1:
            count = "1 passes"
        parts.append((f"only {filter_words}: {count}", "bold $warning" if passing == 0 else "bold"))
    if has_text:
        at = f"hit {hit + 1} of {hits}" if hit is not None else f"hits here: {hits}"
        parts.append((f"{at} (n N)", ""))
    live = being_written(view)
    if live is not None and (not follow or filter_words):
        back = "f returns" if not filter_words else "esc takes the filter off"
        parts.append((f"live: step {live.step} is being written – {back}", "$accent"))
    elif follow and view.is_live:
        parts.append(("following – f holds", "$accent"))
    pieces: list[str | tuple[str, str]] = []
    for part in parts:
        pieces += [" · ", part] if pieces else [part]
    return Content.assemble(*pieces)


def nothing_yet(view: RunView) -> str:
    """What to do about a run without a debate."""
    if view.problem is not None:
        return f"The store of {view.name} cannot be read: {one_line(view.problem, 200)}"
    if view.is_live:
        return "No debate yet: the first one appears here as soon as the agents speak."
    if view.status.state in ("died", "failed", "interrupted"):
        return (
            f"No debate was stored before the run ended ({view.status.state}). "
            f"Go on with: maporl resume {view.name}"
        )
    return f"The run {view.name} holds no debates. Start another one on 6 Launch."


def nothing_passes(filter_words: str) -> str:
    """What to do about a filter that nothing passes."""
    return f"No debate passes: {filter_words}.  esc takes the filter off, / changes it."
