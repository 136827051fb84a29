"""Charts without a screen: which there are, gaps, smoothing, log axis, readings, ticks, dots."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tui_samples import demo_run, evaluation_of, held

from maporl_core.errors import ConfigError
from maporl_core.store.reader import Evaluation, Series
from maporl_tui.drawing.braille import braille_cells
from maporl_tui.drawing.chart_cost import chart_cost
from maporl_tui.drawing.charts import ChartSpec, SeriesSpec, charts_of, letters, part_letters
from maporl_tui.drawing.curves import Look, picture, places, readings, smoothed
from maporl_tui.drawing.ticks import interval, log_ticks, step_ticks, value_ticks
from maporl_tui.screens.dashboard.export import chart_text, readings_text

ONE = SeriesSpec("loss", "loss", "l", 1)
CHART = ChartSpec("loss", "loss", (ONE,))


def steps(values: dict[int, float], count: int = 1) -> Series:
    means = tuple(values.values())
    return Series(tuple(values), means, means, means, (count,) * len(values))


# Which charts ----------------------------------------------------------------------------------


def test_turns_are_curves_in_the_order_of_their_numbers() -> None:
    (chart, _) = charts_of([f"accuracy/turn_{t}" for t in (10, 2, 1)])
    assert [one.label for one in chart.series] == ["turn 1", "turn 2", "turn 10"]


def test_a_chart_without_any_of_its_metrics_is_left_out() -> None:
    assert [spec.id for spec in charts_of(["messages/length", "something/else"])] == ["length"]


def test_policies_have_a_curve_each_in_agent_order_and_one_for_all() -> None:
    names = ["policy/Bo/kl", "policy/Ada/kl", "ppo/kl", "kl_coef"]
    (chart,) = charts_of(names, ["Bo", "Ada"])
    assert [(one.metric, one.key) for one in chart.series] == [
        ("policy/Bo/kl", "B"),
        ("policy/Ada/kl", "A"),
        ("ppo/kl", "*"),
        ("kl_coef", "k"),
    ]


def test_a_single_policy_is_not_shown_twice() -> None:
    (chart,) = charts_of(["policy/Ada/entropy", "ppo/entropy"])
    assert [one.metric for one in chart.series] == ["policy/Ada/entropy"]


@pytest.mark.parametrize(
    ("names", "found"),
    [(["Ada", "Bo"], ("A", "B")), (["Ada", "Abe"], ("1", "2")), (["[x", "b"], ("1", "2"))],
)
def test_a_letter_tells_curves_apart(names: list[str], found: tuple[str, ...]) -> None:
    assert letters(names) == found


# Curves ----------------------------------------------------------------------------------------


def test_a_missing_step_is_a_gap_and_counted() -> None:
    drawn = picture(CHART, {"loss": steps({1: 5.0, 2: 6.0, 4: 7.0})}, Look(), (1, 5))
    assert drawn.lines[0].raw == (((1.0, 5.0), (2.0, 6.0)), ((4.0, 7.0),))
    assert drawn.notes == ("2 NaN or missing",)


def test_every_second_step_missing_leaves_no_curve_but_dots() -> None:
    drawn = picture(CHART, {"loss": steps({1: 5.0, 3: 6.0, 5: 7.0})}, Look(), (1, 5))
    assert [len(piece) for piece in drawn.lines[0].raw] == [1, 1, 1]


def test_points_that_stand_for_many_steps_are_one_curve() -> None:
    series = Series((1, 16, 32, 48), (1.0, 2.0, 3.0, 4.0), (0.0,) * 4, (9.0,) * 4, (15, 16, 16, 3))
    drawn = picture(CHART, {"loss": series}, Look(), (1, 50))
    assert drawn.lines[0].raw == (((8.0, 1.0), (23.5, 2.0), (39.5, 3.0), (49.0, 4.0)),)
    assert drawn.notes == ()


def test_a_whole_point_without_values_is_a_gap() -> None:
    series = Series((1, 16, 48), (1.0, 2.0, 4.0), (0.0,) * 3, (9.0,) * 3, (15, 16, 16))
    drawn = picture(CHART, {"loss": series}, Look(), (1, 63))
    assert len(drawn.lines[0].raw) == 2
    assert drawn.notes == ("16 NaN or missing",)


def test_a_log_axis_leaves_out_what_has_no_logarithm_and_says_so() -> None:
    series = {"loss": steps({1: 100.0, 2: 0.0, 3: -3.0, 4: 0.001})}
    drawn = picture(CHART, series, Look(log=True), (1, 4))
    assert drawn.lines[0].raw == (((1.0, 2.0),), ((4.0, -3.0),))
    assert drawn.notes == ("log, 2 ≤ 0 left out",)


def test_smoothing_is_a_weighted_mean_of_what_came_before() -> None:
    # (0.6 · 1 + 0) / 1.6, then (0.36 · 1 + 0.6 · 0 + 2) / 1.96
    assert smoothed([1.0, 0.0, 2.0], 0.6) == pytest.approx((1.0, 0.375, 2.36 / 1.96))


def test_smoothing_keeps_the_raw_curve() -> None:
    drawn = picture(CHART, {"loss": steps({1: 1.0, 2: 0.0})}, Look(smoothing=0.6), (1, 2))
    assert drawn.lines[0].raw == (((1.0, 1.0), (2.0, 0.0)),)
    assert drawn.lines[0].smooth[0][1] == pytest.approx((2.0, 0.375))
    assert drawn.notes == ("EMA 0.6",)


def test_curves_that_are_zero_throughout_are_hidden_where_asked() -> None:
    series = {"loss": steps({1: 0.0, 2: 0.0})}
    assert not picture(replace(CHART, hide_zero=True), series, Look(), (1, 2)).lines
    assert picture(CHART, series, Look(), (1, 2)).lines


@pytest.mark.parametrize("values", [(12.0, 12.0), (0.0, 0.0), (-1e308, 1e308), (1.0, 1.0 + 1e-15)])
def test_the_value_axis_is_never_empty(values: tuple[float, float]) -> None:
    drawn = picture(CHART, {"loss": steps(dict(enumerate(values, 1)))}, Look(), (1, 2))
    low, high = drawn.y_range
    assert low <= min(values)
    assert high >= max(values)
    assert high - low > 0


def evaluation(step: int, origin: str = "run") -> Evaluation:
    right = [[True, False], [True, True]]
    summary = evaluation_of("x", "base", [held(1, right, ("Ada", "Bo"))])
    return Evaluation(step, step, origin, 0.0, summary)


def test_the_trainers_evaluations_are_marks_from_step_0_on() -> None:
    spec = charts_of(["accuracy/turn_2"])[0]
    found = [evaluation(0), evaluation(6), evaluation(6, "command"), evaluation(99)]
    drawn = picture(spec, {"accuracy/turn_2": steps({1: 0.5})}, Look(), (1, 6), found)
    assert [points for _, points in drawn.marks] == [((0.0, 1.0), (6.0, 1.0))]
    assert drawn.x_range[0] < 0


# Under the crosshair -----------------------------------------------------------------------------


def test_a_reading_is_the_value_of_that_step_or_the_last_one() -> None:
    series = {"loss": steps({1: 5.0, 2: 6.0, 4: 7.0})}
    assert readings(CHART, series, 2)[0].value == 6.0
    assert readings(CHART, series, None)[0].value == 7.0
    assert readings(CHART, series, 3)[0].value is None
    assert readings(CHART, series, 0)[0].value is None
    assert readings(CHART, {}, 3)[0].value is None
    assert places(CHART, series) == (1, 2, 4)


def test_a_reading_between_two_points_names_the_steps_it_is_the_mean_of() -> None:
    series = {"loss": Series((1, 16, 32), (1.0, 2.0, 3.0), (0.0,) * 3, (9.0,) * 3, (15, 16, 16))}
    (found,) = readings(CHART, series, 20)
    assert (found.value, found.first, found.last) == (2.0, 16, 31)
    assert readings_text("run: loss", [found]) == "run: loss\nmetric,step,value\nloss,16-31,2.0"


# Axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "count", "gap"), [(10, 5, 2), (1, 3, 0.5), (7, 7, 1), (60, 4, 20)]
)
def test_the_gap_between_marks_is_a_round_number(span: float, count: int, gap: float) -> None:
    assert interval(span, count) == pytest.approx(gap)


def test_steps_are_whole_numbers_that_do_not_touch() -> None:
    for last in (1, 2, 7, 13, 999, 100_000, 123_456_789):
        for width in (3, 12, 30, 200):
            found = step_ticks(0.5, last + 0.5, width)
            assert all(position == int(label) for position, label in found)
            if len(found) > 1:
                cells = (found[1][0] - found[0][0]) / (last or 1) * width
                assert cells > max(len(label) for _, label in found)


def test_marks_of_values_lie_within_the_range_and_are_short_and_different() -> None:
    rng = random.Random(3)
    for _ in range(500):
        low = rng.choice((-1, 1)) * 10 ** rng.uniform(-9, 9)
        high = low + abs(low) * 10 ** rng.uniform(-5, 9)
        found = value_ticks(low, high, rng.randint(2, 9))
        slack = 1e-6 * (high - low)
        assert all(low - slack <= value <= high + slack for value, _ in found)
        assert all(len(label) <= 6 for _, label in found)
        assert len({label for _, label in found}) == len(found)


def test_marks_of_a_log_axis_are_powers_of_ten_where_there_are_two() -> None:
    assert log_ticks(-2.2, 1.1, 8) == ((-2.0, "0.01"), (-1.0, "0.1"), (0.0, "1"), (1.0, "10"))
    positions = [position for position, _ in log_ticks(math.log10(0.42), math.log10(0.71), 4)]
    assert positions == pytest.approx([math.log10(v) for v in (0.5, 0.6, 0.7)])


# Dots ------------------------------------------------------------------------------------------


def drawn(xs: list[float], ys: list[float], width: int = 6, height: int = 3) -> list[str]:
    rows = [[" "] * width for _ in range(height)]
    for column, row, char in braille_cells(xs, ys, width, height):
        rows[row][column] = char
    return ["".join(row) for row in rows]


def test_a_level_curve_fills_one_row_of_dots() -> None:
    assert drawn([0.0, 2.0], [0.0, 0.0], 3, 1) == ["⠉⠉⠁"]


def test_a_steep_curve_has_no_holes() -> None:
    assert drawn([0.0, 0.0], [0.0, 1.75], 1, 2) == ["⡇", "⡇"]


def test_a_single_corner_is_one_dot() -> None:
    assert drawn([0.6], [0.3], 1, 1) == ["⠐"]


def test_what_lies_outside_is_left_out_however_far() -> None:
    assert drawn([-1e300, 1e300], [0.0, 0.0], 2, 1) == ["⠉⠉"]
    assert drawn([0.0, 1.0], [9.0, 9.0], 2, 1) == ["  "]
    assert drawn([], [], 2, 1) == ["  "]


def test_neighbouring_dots_of_any_curve_touch() -> None:
    rng = random.Random(5)
    for _ in range(50):
        count = rng.randint(2, 8)
        xs = [rng.uniform(0, 6) for _ in range(count)]
        ys = [rng.uniform(0, 3) for _ in range(count)]
        dots = set()
        for column, row, char in braille_cells(xs, ys, 6, 3):
            for bit, (x, y) in enumerate(
                ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
            ):
                if (ord(char) - 0x2800) >> bit & 1:
                    dots.add((2 * column + x, 4 * row + y))
        for x, y in zip(xs, ys, strict=True):
            assert (int(x * 2), int(y * 4)) in dots
        reached, edge = set(), [min(dots)]
        while edge:
            x, y = edge.pop()
            if (x, y) not in reached:
                reached.add((x, y))
                near = {(x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
                edge += near & dots
        assert reached == dots


# Export ----------------------------------------------------------------------------------------


def test_charts_are_exported_by_the_ending_of_the_name() -> None:
    series = {"loss": steps({1: 0.5, 2: 0.25})}
    assert (
        chart_text(Path("a.csv"), "run", [CHART], series) == "step,steps,loss\n1,1,0.5\n2,1,0.25\n"
    )
    assert "| 2 | 1 | 0.25 |" in chart_text(Path("a.md"), "run", [CHART], series)
    assert '"metric": "loss"' in chart_text(Path("a.JSON"), "run", [CHART], series)
    with pytest.raises(ConfigError, match=r"\.csv, \.json or \.md"):
        chart_text(Path("a.txt"), "run", [CHART], series)


def test_the_cost_of_charts_is_that_of_every_chart(tmp_path: Path) -> None:
    cost = chart_cost(demo_run(tmp_path, questions=0))
    assert cost.charts == 10
    assert cost.curves > 20
    assert cost.read > 0
    assert cost.drawn > 0


def test_parts_are_drawn_as_a_run_declares_them_with_a_letter_of_their_own() -> None:
    names = ["reward/total", "reward/speed", "reward/style", "reward/old"]
    (chart,) = charts_of(names, declared=["speed", "style", "taste"])
    assert [(one.label, one.key, one.tone) for one in chart.series] == [
        ("total", "T", 7),
        ("speed", "s", 1),
        ("style", "t", 2),
    ]
    assert part_letters(["aa", "ab", "a", "漢"]) == ("a", "b", "c", "d")
    assert len(part_letters([str(k) for k in range(50)])) == 50
