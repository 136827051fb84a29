"""Long text cut into rows of a screen, lazily and by offsets.

In: text without control codes, a width in cells.  Out: (start, end) offsets of one row after the
other.  A message may be megabytes long: rows come from a generator and nothing is copied.
Neighbour: ``widgets.text_view`` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, get_character_cell_size

Row = tuple[int, int]


def wrap_rows(text: str, width: int) -> Iterator[Row]:
    """Offsets of the rows that ``text`` takes at ``width`` cells, words kept whole where they fit.

    Every character but line ends and the blanks at a break is in exactly one row; an empty line is
    an empty row.  A character wider than ``width`` has a row of its own.
    """
    width = max(1, width)
    start = 0
    while True:
        end = text.find("\n", start)
        stop = len(text) if end < 0 else end
        yield from _wrap_line(text, start, stop, width)
        if end < 0:
            return
        start = end + 1


def _wrap_line(text: str, start: int, stop: int, width: int) -> Iterator[Row]:
    if start == stop:
        yield start, stop
        return
    while start < stop:
        limit = _fit(text, start, stop, width)
        if limit == stop:
            yield start, stop
            return
        if text[limit] == " ":
            cut = limit
        else:
            cut = text.rfind(" ", start, limit)
            if cut <= start:  # one word fills the row: cut inside it
                yield start, limit
                start = limit
                continue
        yield start, cut
        start = cut + 1


def _fit(text: str, start: int, stop: int, width: int) -> int:
    """The end of what fits into ``width`` cells from ``start`` on; at least one character."""
    end = min(stop, start + width)
    piece = text[start:end]
    if piece.isascii():
        return end
    if cell_len(piece) <= width and end == stop:
        return end
    cells, offset = 0, start
    while offset < stop:
        # As many characters as fit whatever their width: no character is looked at twice.
        taken = text[offset : min(stop, offset + max(1, (width - cells) // 2))]
        wider = cells + sum(map(_CELLS.__getitem__, taken))
        if wider > width:
            return max(offset, start + 1)
        cells, offset = wider, offset + len(taken)
    return stop


class _Cells(dict[str, int]):
    """Cells of a character, each asked for once."""

    def __missing__(self, letter: str) -> int:
        self[letter] = found = get_character_cell_size(letter)
        return found


_CELLS = _Cells()
