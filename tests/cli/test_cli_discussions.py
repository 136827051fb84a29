"""Discussions on the terminal: verdicts, pay in words, side by side, text as it is written."""

from __future__ import annotations

import io
import re

import pytest
from cli_samples import HOSTILE, HOSTILE_VISIBLE, discussion, message, rewards
from pay_samples import published
from rich.console import Console

from maporl_core.cli.views.discussions import (
    Writing,
    print_discussion,
    print_side_by_side,
    reward_words,
    right_by_turn,
    verdict,
)
from maporl_core.types import Pay


def console(width: int = 80, terminal: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        height=24,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=terminal,
        _environ={"TERM": "xterm", "NO_COLOR": "1"},
    )


def shown(target: Console) -> str:
    return target.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (published(), "reward 0.00"),
        (published(own=0.9), "reward 0.90 (own)"),
        (published(own=0.45, influence=0.17), "reward 0.62 = own 0.45 + influence 0.17"),
        (
            published(own=0.5, critical=-2.0, unfinished=-0.1),
            "reward -1.60 = own 0.50 - critical 2.00 - unfinished 0.10",
        ),
    ],
)
def test_pay_in_words_names_the_parts_that_are_not_zero(parts: Pay, words: str) -> None:
    assert reward_words(parts) == words


@pytest.mark.parametrize(
    ("correct", "words"),
    [
        (True, "42  right  score 0.75"),
        (False, "42  wrong  score 0.25"),
        (None, "42"),
    ],
)
def test_a_verdict_says_answer_correctness_and_score(correct: bool | None, words: str) -> None:
    assert verdict(message(1, 0, "it is 42", correct)).plain == words


def test_a_verdict_says_what_went_wrong() -> None:
    from dataclasses import replace

    cut = replace(message(1, 0, "", False, "length"), answer=None, dropped_context=7)
    assert verdict(cut).plain == (
        "no answer  wrong  score 0.25  cut at the length limit  7 prompt tokens did not fit"
    )


def test_a_discussion_is_told_turn_by_turn() -> None:
    target = console()
    print_discussion(target, discussion("it is 42"), rewards())
    text = shown(target)
    assert text.index("turn 1") < text.index("turn 2")
    assert text.count("it is 42") == 4
    assert text.count("reward 0.52 = own 0.45 + influence 0.17 - format 0.10") == 2
    assert "reward 0.90 (own)" in text


def test_hostile_text_is_shown_as_written_and_harmless() -> None:
    target = console(200)
    print_discussion(target, discussion(HOSTILE), None)
    assert shown(target).count(HOSTILE_VISIBLE) == 4
    assert not set(shown(target)) & {"\x1b", "\r", "\x00", "\x07", "\ud800"}


def test_two_discussions_stand_side_by_side_within_80_columns() -> None:
    target = console(80)
    left, right = discussion("left says 1"), discussion("right says 2 " * 20)
    print_side_by_side(target, ("untrained", "trained"), (left, right), (None, rewards()))
    lines = shown(target).splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    row = next(line for line in lines if "left says 1" in line)
    assert "right says 2" in row
    assert any("reward 0.52" in line for line in lines)
    assert any("right by turn: 1/2, 2/2" in line for line in lines)


def test_a_discussion_that_stopped_early_leaves_its_side_marked() -> None:
    from dataclasses import replace

    whole = discussion()
    short = replace(whole, messages=whole.messages[:1], stopped_early=True)
    target = console()
    print_side_by_side(target, ("a", "b"), (short, whole), (None, None))
    assert shown(target).count("(had stopped: all agreed)") == 2


def test_right_by_turn_is_silent_where_correctness_is_unknown() -> None:
    assert right_by_turn(discussion()) == "right by turn: 1/2, 2/2"
    assert right_by_turn(discussion(known=False)) == ""


def test_text_is_shown_while_it_is_written_and_turns_stay() -> None:
    target = console(terminal=True)
    held = discussion("it is 42")
    with Writing(target, held.agents, "trained", keep=True) as writing:
        writing.heard(0, 0, "it i[s")
        writing.heard(0, 1, "\x1b[31mx " * 4000)
        lines = target.render_lines(writing, target.options, pad=False)
        writing.spoken(held.messages[0])
    text = ["".join(segment.text for segment in line).rstrip() for line in lines]
    assert text[:3] == ["trained, turn 1", "Ada", "it i[s"]
    assert len(text) <= 24
    assert all("\x1b" not in line for line in text)
    assert "Ada  42  wrong" in re.sub(r"\x1b\[[0-9;]*m", "", shown(target))


def test_a_new_turn_starts_with_nothing_written() -> None:
    target = console()
    writing = Writing(target, ("Ada", "Bo"), "t", keep=False)
    writing.heard(0, 0, "old")
    writing.heard(1, 1, "new")
    lines = target.render_lines(writing, target.options, pad=False)
    assert ["".join(s.text for s in line).rstrip() for line in lines] == ["t, turn 2", "Bo", "new"]


def test_without_a_terminal_only_finished_turns_are_printed() -> None:
    target = console()
    held = discussion("it is 42")
    with Writing(target, held.agents, "t", keep=True) as writing:
        writing.heard(0, 0, "half")
        writing.spoken(held.messages[0])
    assert "half" not in shown(target)
    assert shown(target).count("it is 42") == 2
