"""A field of one line that keeps all lines of what is pasted into it.

In: keys and pastes.  Out: one line of text.  Neighbours: the dialogs, Compare's question and the
Launch form.  Textual's own field keeps the first line of a paste and drops the others.
"""

from __future__ import annotations

from textual.events import Paste
from textual.widgets import Input


class LineInput(Input):
    """An ``Input`` in which pasted line ends become blanks."""

    def _on_paste(self, event: Paste) -> None:
        lines = [line.strip() for line in event.text.splitlines()]
        text = " ".join(line for line in lines if line) if len(lines) > 1 else event.text
        start, end = self.selection
        self.replace(text, start, end)
        event.stop()
        event.prevent_default()  # the base class would add the first line once more
