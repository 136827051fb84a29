"""A curve as braille dots: two by four of them in a cell of the terminal.

In: the corners of a curve in cells, the size of the canvas.  Out: the braille character of every
cell that the curve touches.  Pure.  Neighbour: ``widgets.chart`` puts them on the canvas.

All corners at once in NumPy: a screen of charts holds tens of thousands of dots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)
"""Bit of the dot in row y, column x of a cell, as Unicode numbers them (block 2800)."""


def braille_cells(
    xs: Sequence[float], ys: Sequence[float], width: int, height: int
) -> Iterator[tuple[int, int, str]]:
    """(column, row, character) of every cell on the way from corner to corner.

    Corners are in cells, (0, 0) the upper left corner of the canvas; what lies outside
    ``width`` × ``height`` cells is left out.  A single corner is one dot.
    """
    if len(xs) == 0 or width <= 0 or height <= 0:
        return
    # Far outside, whole numbers would overflow; the way there is drawn to just beyond the edge.
    x_dots = np.floor(np.clip(np.asarray(xs, float), -width, 2 * width) * 2).astype(np.int64)
    y_dots = np.floor(np.clip(np.asarray(ys, float), -height, 2 * height) * 4).astype(np.int64)
    dx, dy = np.diff(x_dots), np.diff(y_dots)
    lengths = np.maximum(np.maximum(np.abs(dx), np.abs(dy)), 1)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    share = (np.arange(len(begins)) - begins) / np.repeat(lengths, lengths)
    x = np.append(_along(x_dots, dx, lengths, share), x_dots[-1])
    y = np.append(_along(y_dots, dy, lengths, share), y_dots[-1])
    inside = (x >= 0) & (x < 2 * width) & (y >= 0) & (y < 4 * height)
    x, y = x[inside], y[inside]
    cells = np.zeros((height, width), dtype=np.uint8)
    np.bitwise_or.at(cells, (y // 4, x // 2), _BITS[y % 4, x % 2])
    for row, column in np.argwhere(cells).tolist():
        yield column, row, chr(0x2800 + int(cells[row, column]))


def _along(
    corners: np.ndarray, way: np.ndarray, lengths: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Dots from each corner towards the next one, without the next one itself."""
    begin = np.repeat(corners[:-1], lengths)
    found: np.ndarray = np.rint(begin + share * np.repeat(way, lengths)).astype(np.int64)
    return found
