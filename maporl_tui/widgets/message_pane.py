"""One message of an agent: verdict, answer, score, what changed, pay, and its text.

In: a ``Said``, and marks in its text.  Out: a pane with a frame, a head of one or two lines and a
window over the text; what did not change is not drawn again.  It knows no store and no screen.
Neighbours: the Debate screen and the Compare screen put panes side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.content import Content
from textual.strip import Strip
from textual.visual import Visual

from maporl_tui.drawing.text import one_line, signed
from maporl_tui.reading.debate_records import Said
from maporl_tui.widgets.text_view import Mark, TextLines

AGENT_COLOURS = 6
VERDICT_STYLES = {True: "$right", False: "$wrong", None: "$unknown"}
CHANGE_STYLES = {"wrong→right": "bold $right", "right→wrong": "bold $wrong"}
_LONGEST_ANSWER = 40
_Piece = tuple[str, str]


def head_line(said: Said) -> Content:
    """ "✓ 20  score 0.75  reward +0.621"; what is not known is left out."""
    if said.status == "waiting":
        return Content.styled("waiting", "$text-muted")
    if said.status == "writing":
        return Content.styled("… writing", "$text-muted")
    answer = "no answer" if said.answer is None else one_line(said.answer, _LONGEST_ANSWER)
    style = VERDICT_STYLES[said.correct]
    pieces: list[_Piece] = [(f"{said.mark} {answer}", f"bold {style}")]
    if said.score is not None:
        pieces.append((f"score {said.score:.2f}", ""))
    if said.reward is not None:
        pieces.append((f"reward {signed(said.reward)}", ""))
    return _joined(pieces, "  ")


def note_line(said: Said) -> Content:
    """What changed, and what is amiss with the message; empty when there is nothing to say."""
    pieces: list[_Piece] = []
    if said.change is not None:
        pieces.append((said.change, CHANGE_STYLES.get(said.change, "$text-muted")))
    if said.finish == "length":
        pieces.append(("unfinished: cut at the length limit", "$warning"))
    if said.dropped:
        tokens = "token" if said.dropped == 1 else "tokens"
        pieces.append((f"{said.dropped} prompt {tokens} dropped", "$warning"))
    return _joined(pieces, " · ")


class MessagePane(TextLines):
    """A framed message, one widget for all of it; it scrolls, and ``z`` can maximise it."""

    ALLOW_MAXIMIZE = True
    DEFAULT_CSS = """
    MessagePane { border: round $surface-lighten-2; height: 1fr; width: 1fr; text-wrap: nowrap;
                  text-overflow: ellipsis; }
    MessagePane:focus { border: heavy $primary; }
    MessagePane.-waiting { color: $text-muted; }
    """

    def __init__(
        self, said: Said | None = None, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=f"pane {classes or ''}".strip())
        self._heads: list[Content] = []
        self._said: Said | None = None
        if said is not None:
            self.show(said)

    @property
    def said(self) -> Said | None:
        """The message that is shown."""
        return self._said

    def show(self, said: Said, marks: Sequence[Mark] = ()) -> None:
        """Show another message, or the same one as far as it is known now.

        A text that is being written is followed to its end unless somebody scrolled away from it.
        """
        before, self._said = self._said, said
        if said != before:
            self._show_head(said, before)
        at_end = self.is_vertical_scroll_end
        grows = said.status == "writing"
        fresh = before is None or _spot(before) != _spot(said)
        self.show_text(said.text, marks)
        if grows and (at_end or fresh):
            self.scroll_end(animate=False)

    def draw_line(self, y: int, width: int, style: Style) -> Strip:
        if y < len(self._heads):
            drawn = Visual.to_strips(self, self._heads[y], width, 1, self.visual_style)
            strip = drawn[0] if drawn else Strip([])
            return strip.adjust_cell_length(self.size.width, Style(bgcolor=style.bgcolor))
        return super().draw_line(y, width, style)

    def _show_head(self, said: Said, before: Said | None) -> None:
        if before is None or said.title != before.title or said.agent != before.agent:
            self.border_title = Content(said.title)
            for number in range(1, AGENT_COLOURS + 1):
                self.set_class(said.agent % AGENT_COLOURS + 1 == number, f"-agent-{number}")
        heads = [line for line in (head_line(said), note_line(said)) if line.plain]
        if len(heads) != len(self._heads) or not all(map(Content.is_same, heads, self._heads)):
            self._heads, self.fixed = heads, len(heads)
            self.set_count(len(self._rows), self._width)
            self.refresh()
        self.set_class(not said.is_over, "-waiting")


def _spot(said: Said) -> tuple[int, int, int]:
    return said.turn, said.agent, said.branch


def _joined(pieces: Sequence[_Piece], between: str) -> Content:
    parts: list[str | _Piece] = []
    for piece in pieces:
        parts += [between, piece] if parts else [piece]
    return Content.assemble(*parts)
