"""Bars of reward parts: what is counted, what is drawn where, and that all fits its room."""

from __future__ import annotations

import random
import time

import pytest

from maporl_core.types import REWARD_PARTS
from maporl_tui.drawing.bars import (
    GLYPHS,
    Histogram,
    Point,
    Rows,
    glyph,
    histogram_rows,
    legend,
    spread,
    stack_and_legend,
    stack_rows,
)


def lines(rows: Rows) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


def column(rows: Rows, place: int) -> str:
    """One column of a drawing from top to bottom, without the axis below."""
    return "".join(line[place] for line in lines(rows)[:-1])


def test_spread_tells_mean_median_and_signs() -> None:
    found = spread([1.0, -0.5, 0.0, 0.25, float("nan")])
    assert (found.count, found.mean, found.median) == (4, 0.1875, 0.125)
    assert (found.positive, found.negative) == (0.5, 0.25)
    assert not found.zeros_apart
    assert sum(found.counts) == 4


def test_every_value_is_in_the_bin_that_holds_it_and_zero_is_an_edge() -> None:
    rng = random.Random(2)
    values = [rng.gauss(0.2, 0.7) for _ in range(500)]
    found = spread(values)
    assert len(found.counts) <= 30
    for k, count in enumerate(found.counts):
        low = (found.first + k) * found.width
        assert count == sum(low <= value < low + found.width for value in values)
    below = sum(found.counts[: -found.first])
    assert below == sum(value < 0 for value in values)


def test_zeros_that_would_hide_the_rest_are_left_out_of_the_bars_only() -> None:
    found = spread([0.0] * 98 + [0.5, -0.5])
    assert found.zeros_apart
    assert sum(found.counts) == 2
    assert (found.count, found.mean, found.median, found.positive) == (100, 0.0, 0.0, 0.01)


@pytest.mark.parametrize("values", [[], [float("nan")], [0.0, 0.0], [0.7], [1e-9, 2e-9], [-3.0]])
def test_odd_values_make_no_trouble(values: list[float]) -> None:
    found = spread(values)
    rows = histogram_rows(found, 40, 8)
    assert len(rows) <= 8
    assert sum(found.counts) == sum(1 for v in values if v == v and (v or not found.zeros_apart))


def test_the_highest_bar_reaches_the_top_and_signs_have_their_look() -> None:
    found = Histogram(6, first=-1, width=1.0, counts=(1, 4, 1))
    rows = histogram_rows(found, 7 + 4, 5)
    assert lines(rows)[:-1] == ["     4│ █ ", "      │ █ ", "      │ █ ", "      │███"]
    assert [look for _, look in rows[3]] == ["axis", "wrong", "right", "right"]


def test_one_value_among_thousands_still_shows() -> None:
    rows = histogram_rows(Histogram(10_001, first=0, width=1.0, counts=(10_000, 1)), 9 + 7, 6)
    assert lines(rows)[4][-1] == "▁"


def test_parts_stack_upwards_and_penalties_below_zero() -> None:
    points = [Point(1, {"own": 2.0, "influence": 1.0, "format": -1.0})]
    rows = stack_rows(points, REWARD_PARTS, "total", 7 + 4, 4 + 1)
    assert column(rows, 7) == "▓██x"
    assert lines(rows)[0].startswith("  3.00│")
    assert lines(rows)[3].startswith(" -1.00│")
    assert lines(rows)[4].startswith("  step 1")


def test_penalties_too_small_to_print_leave_the_axis_at_zero() -> None:
    points = [Point(1, {"own": 1.0, "format": -0.0017})]
    assert lines(stack_rows(points, REWARD_PARTS, "total", 7 + 4, 4 + 1))[3].startswith("  0.00│")


def test_the_chosen_part_lies_on_zero_and_the_others_are_faint() -> None:
    points = [Point(1, {"own": 2.0, "influence": 1.0})]
    rows = stack_rows(points, REWARD_PARTS, "influence", 7 + 4, 3 + 1)
    assert column(rows, 7) == "██▓"
    assert [row[1][1] for row in rows[:3]] == ["-own", "-own", "influence"]


def test_more_steps_than_columns_become_means_of_neighbours() -> None:
    points = [Point(step, {"own": 1.0 if step % 2 else 3.0}) for step in range(1, 41)]
    rows = stack_rows(points, REWARD_PARTS, "total", 7 + 10, 4 + 1)
    assert lines(rows)[0].startswith("  2.00│██████████")
    assert lines(rows)[-1] == "  step 1       40"


def test_legend_names_the_parts_that_are_paid_with_their_last_mean() -> None:
    points = [Point(1, {"own": 0.5, "critical": 0.1}), Point(2, {"own": 0.25, "format": -0.0002})]
    assert legend(points, REWARD_PARTS) == [
        ("█ own +0.250", "own"),
        ("▒ critical +0.000", "critical"),
        ("x format −2.0e−04", "format"),
    ]


def test_legend_wraps_between_parts_and_gives_way_to_the_bars() -> None:
    points = [Point(1, {"own": 0.5, "critical": 0.1})]
    rows = lines(stack_and_legend(points, REWARD_PARTS, "total", 30, 12))
    assert rows[:2] == [" mean per message, by step: ", " █ own +0.500 "]
    assert rows[2] == " ▒ critical +0.100 "
    assert len(rows) == 12
    assert not any(
        "mean" in row for row in lines(stack_and_legend(points, REWARD_PARTS, "total", 30, 5))
    )


def test_each_part_has_a_character_of_its_own() -> None:
    assert len(set(GLYPHS)) == len(GLYPHS) >= len(REWARD_PARTS)
    many = [f"part {k}" for k in range(40)]
    assert glyph(many[1], many) == glyph(many[len(GLYPHS) + 1], many) == GLYPHS[1]


def test_drawings_fit_into_any_room() -> None:
    rng = random.Random(3)
    points = [Point(s, {n: rng.gauss(0.1, 1) for n in REWARD_PARTS}) for s in range(1, 60)]
    found = spread([rng.gauss(0, 2) for _ in range(300)])
    for columns in (0, 1, 7, 11, 12, 40, 200):
        for height in (0, 1, 2, 3, 20):
            for rows in (
                stack_and_legend(points, REWARD_PARTS, "own", columns, height),
                histogram_rows(found, columns, height),
            ):
                assert len(rows) <= height
                assert all(len(line) <= columns for line in lines(rows))


def test_ten_thousand_values_are_counted_in_a_moment() -> None:
    rng = random.Random(4)
    values = [rng.random() for _ in range(10_000)]
    started = time.perf_counter()
    spread(values)
    assert time.perf_counter() - started < 1.0
